/* SPDX-License-Identifier: MIT
**
** agreement.c -- infers missing labels from the nearest labelled neighbours
** in embedding space; section 4.2.2 of the paper.
**
**   agreement GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
**     --seed N        (1)
**     --labels few|inferred   the labels to train on (inferred)
**     --rounds N      (3)
**     --steps N       in a round (400)
**
** One synset in twenty has a label.  After each round the embeddings of all
** training synsets are written to the bank, and for each unlabelled synset
** emb_nearest finds the K nearest labelled ones.  If at least AGREE of these
** have the same class, the synset gets that class until the next round.  A
** batch has FEW synsets with a given label, and as many with an inferred one.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/random.h"
#include "maker.h"

enum { FEW = 128, K = 10, AGREE = 9, AT_ONCE = 4096 };
static const double RATE = 0.001;

static const char *const LABELS[] = {"few", "inferred", NULL};

struct settings {
  size_t seed, labels, rounds, steps;
};

struct run {
  struct settings settings;
  struct data data;
  struct model model;
  struct maker maker;
  struct table near; /* the embeddings of synsets with a label */
  sqlite3 *db;
  uint64_t random;
  uint32_t *order; /* training synsets: first those with a label */
  size_t labelled, all;
  uint32_t *inferred, *class; /* nodes, and the class of each node */
  size_t inferred_count;
  float *best, *gradient, *rows;
  int64_t *keys;
};

static void train_round(struct run *run) {
  uint32_t nodes[2 * FEW], class[2 * FEW];
  for (size_t step = 0; step < run->settings.steps; step++) {
    size_t count = run->inferred_count ? 2 * FEW : FEW;
    for (size_t i = 0; i < count; i++) {
      nodes[i] =
          i < FEW
              ? run->order[random_below(&run->random, run->labelled)]
              : run->inferred[random_below(&run->random, run->inferred_count)];
      class[i] = run->class[nodes[i]];
    }
    model_embed(&run->model, &run->data, nodes, count);
    model_loss(&run->model, class, count, run->gradient);
    model_step(&run->model, run->gradient, RATE);
  }
}

/* Copies the rows of labelled synsets to the table that is searched. */
static void copy_labelled(struct run *run) {
  for (size_t first = 0; first < run->labelled; first += AT_ONCE) {
    size_t n =
        run->labelled - first < AT_ONCE ? run->labelled - first : AT_ONCE;
    data_keys(&run->data, run->order + first, n, run->keys);
    table_get(&run->maker.bank, run->keys, n, run->rows);
    table_put(&run->near, run->keys, n, run->rows);
  }
}

/* Infers the labels of a chunk where the neighbours agree. */
static void infer_chunk(struct run *run, sqlite3_stmt *agree,
                        const uint32_t *nodes, size_t count) {
  data_keys(&run->data, nodes, count, run->keys);
  table_get(&run->maker.bank, run->keys, count, run->rows);
  sqlite3_bind_blob64(agree, 1, run->rows, count * EMBEDDING * sizeof(float),
                      SQLITE_STATIC);
  while (statement_step(agree)) {
    uint32_t node = nodes[sqlite3_column_int64(agree, 0)];
    run->class[node] = (uint32_t)sqlite3_column_int(agree, 1);
    run->inferred[run->inferred_count++] = node;
  }
  statement_end(agree);
}

static void infer(struct run *run) {
  maker_refresh(&run->maker, run->order, run->all);
  copy_labelled(run);
  char *sql = sqlite3_mprintf("SELECT query, class"
                              "  FROM emb_nearest('labelled', ?1, %d)"
                              "  JOIN label ON synset = key"
                              " GROUP BY query, class HAVING count(*) >= %d",
                              K, AGREE);
  sqlite3_stmt *agree = statement_new(run->db, sql);
  run->inferred_count = 0;
  for (size_t first = run->labelled; first < run->all; first += AT_ONCE) {
    size_t left = run->all - first;
    infer_chunk(run, agree, run->order + first,
                left < AT_ONCE ? left : AT_ONCE);
  }
  sqlite3_finalize(agree);
  sqlite3_free(sql);
}

static void report_round(struct run *run, size_t round, double accuracy) {
  const char *name = LABELS[run->settings.labels];
  size_t right = 0;
  char at[64];
  for (size_t i = 0; i < run->inferred_count; i++) {
    uint32_t node = run->inferred[i];
    right += run->class[node] == run->data.class[node];
  }
  double count = (double)run->inferred_count;
  sqlite3_snprintf(sizeof(at), at, "%s, round %d", name, (int)round);
  print_result("agreement", run->settings.seed, at, "accuracy", accuracy);
  if (count > 0) {
    print_result("agreement", run->settings.seed, at, "inferred",
                 count / (double)(run->all - run->labelled));
    print_result("agreement", run->settings.seed, at, "inferred right",
                 (double)right / count);
  }
}

static double accuracy(struct run *run, enum part part) {
  return model_accuracy(&run->model, &run->data, run->data.part[part],
                        run->data.part_count[part]);
}

static void train(struct run *run) {
  const struct settings *settings = &run->settings;
  double best = -1, spent = 0;
  for (size_t round = 1; round <= settings->rounds; round++) {
    train_round(run);
    double valid = accuracy(run, VALID), test = accuracy(run, TEST);
    if (valid > best) {
      best = valid;
      model_save(&run->model, run->best);
    }
    report_round(run, round, test);
    double start = seconds();
    if (settings->labels) {
      infer(run);
    }
    spent += seconds() - start;
    print_progress("  agreement %s, seed %zu: round %zu of %zu, accuracy %.3f,"
                   " %zu inferred",
                   LABELS[settings->labels], settings->seed, round,
                   settings->rounds, valid, run->inferred_count);
  }
  model_load(&run->model, run->best);
  print_result("agreement", settings->seed, LABELS[settings->labels],
               "accuracy", accuracy(run, TEST));
  print_result("agreement", settings->seed, LABELS[settings->labels],
               "seconds to infer", spent / (double)settings->rounds);
}

/* The given labels, as a table to join with. */
static void write_labels(struct run *run) {
  database_run(run->db, "CREATE TABLE label(synset INTEGER PRIMARY KEY,"
                        " class INTEGER); BEGIN");
  for (size_t i = 0; i < run->labelled; i++) {
    uint32_t node = run->order[i];
    database_run(run->db, "INSERT INTO label VALUES (%lld, %d)",
                 (long long)run->data.synset[node], (int)run->class[node]);
  }
  database_run(run->db, "COMMIT");
}

static void begin(struct run *run, const struct options *options) {
  run->random = run->settings.seed;
  data_read(&run->data, options->graph);
  model_new(&run->model, &run->data, run->settings.seed);
  run->all = run->data.part_count[TRAIN];
  run->order = run->data.part[TRAIN];
  run->labelled = run->data.nodes / 20;
  random_shuffle(&run->random, run->order, run->all);
  run->db = bank_make(options, EMBEDDINGS);
  maker_new(&run->maker, run->db, EMBEDDINGS, &run->data, &run->model);
  database_run(run->db,
               "CREATE VIRTUAL TABLE labelled USING emb(synset INTEGER PRIMARY"
               " KEY, knowledge FLOAT[%d] metric=cosine)",
               EMBEDDING);
  table_open(&run->near, run->db, "labelled", EMBEDDING);
  run->inferred = need(run->all, sizeof(uint32_t));
  run->class = need(run->data.nodes, sizeof(uint32_t));
  memcpy(run->class, run->data.class, run->data.nodes * sizeof(uint32_t));
  run->best = need(model_floats(&run->model), sizeof(float));
  run->gradient = need(2 * FEW * EMBEDDING, sizeof(float));
  run->rows = need(AT_ONCE * EMBEDDING, sizeof(float));
  run->keys = need(AT_ONCE, sizeof(int64_t));
  write_labels(run);
}

static void end(struct run *run) {
  table_close(&run->near);
  maker_free(&run->maker);
  database_close(run->db);
  model_free(&run->model);
  data_free(&run->data);
  free(run->inferred);
  free(run->class);
  free(run->best);
  free(run->gradient);
  free(run->rows);
  free(run->keys);
}

int main(int argc, char **argv) {
  struct options options;
  static struct run run = {
      .settings = {.seed = 1, .labels = 1, .rounds = 3, .steps = 400}};
  struct settings *settings = &run.settings;
  struct option list[] = {{"seed", &settings->seed, NULL},
                          {"labels", &settings->labels, LABELS},
                          {"rounds", &settings->rounds, NULL},
                          {"steps", &settings->steps, NULL},
                          {0}};
  options_parse(&options, list, argc, argv);
  block_one_thread();
  begin(&run, &options);
  train(&run);
  end(&run);
  return 0;
}
