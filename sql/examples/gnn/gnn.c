/* SPDX-License-Identifier: MIT
**
** gnn.c -- trains GraphSAGE (sage.h) on WordNet, with the features of the
** nodes in an embedding table that is four times as large as its memory.
**
**   gnn GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
**     --seed N          (1)
**     --ahead off|on    read the next batch's rows while this batch is
**                       computed (on)
**     --epochs N        (2)
**     --batches N       in an epoch (100)
**
** A synset's initial features are the mean of random vectors of the words of
** its gloss.  They are trained with the network: emb_apply applies their
** gradients.  The next batch is drawn before this one is computed, so its
** keys are known; emb_lookahead brings its rows into memory and changes no
** value, so the losses are the same with and without it.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/options.h"
#include "../../lib/random.h"
#include "../../lib/table.h"
#include "../../lib/neural/bag.h"
#include "../../lib/neural/loss.h"
#include "sage.h"

enum { MEMORY_MB = 30, AT_ONCE = 1024 };
static const double RATE = 0.001;
static const char *const AHEAD[] = {"off", "on", NULL};

struct settings {
  size_t seed, ahead, epochs, batches;
};

struct run {
  struct settings settings;
  struct data data;
  struct rows rows;
  struct sage sage;
  struct table feature;
  sqlite3 *db;
  sqlite3_stmt *ahead, *update;
  struct sample sample[2]; /* this batch, and the next */
  float *x, *gradient;
  uint64_t random;
  size_t next;
  double waited, spent; /* seconds */
};

/* The mean of twelve random vectors is short, so it is scaled to the length of
** one vector. */
static void fill(struct run *run) {
  struct bag bag;
  uint64_t random = 1;
  uint32_t nodes[AT_ONCE];
  int64_t keys[AT_ONCE];
  float *rows = need(AT_ONCE * FEATURES, sizeof(float));
  bag_new(&bag, run->data.words, FEATURES, &random);
  for (size_t i = 0; i < bag.words * bag.width; i++) {
    bag.value[i] *= 3.4f;
  }
  for (size_t first = 0; first < run->data.nodes; first += AT_ONCE) {
    size_t n = 0;
    while (n < AT_ONCE && first + n < run->data.nodes) {
      nodes[n] = (uint32_t)(first + n);
      n++;
    }
    bag_forward(&bag, &run->data.gloss, nodes, n, rows);
    data_keys(&run->data, nodes, n, keys);
    table_put(&run->feature, keys, n, rows);
  }
  bag_free(&bag);
  free(rows);
}

static void draw(struct run *run, struct sample *sample) {
  uint32_t *order = run->data.part[TRAIN];
  if (run->next + TARGETS > run->data.part_count[TRAIN]) {
    random_shuffle(&run->random, order, run->data.part_count[TRAIN]);
    run->next = 0;
  }
  sample_draw(sample, &run->data, &run->rows, order + run->next, TARGETS,
              &run->random);
  run->next += TARGETS;
}

static void look_ahead(struct run *run, const struct sample *sample) {
  sqlite3_bind_blob64(run->ahead, 1, sample->key,
                      sample->rows * sizeof(int64_t), SQLITE_STATIC);
  while (statement_step(run->ahead)) {
  }
  statement_end(run->ahead);
}

static void update(struct run *run, const struct sample *sample) {
  sqlite3_bind_blob64(run->update, 1, sample->key,
                      sample->rows * sizeof(int64_t), SQLITE_STATIC);
  sqlite3_bind_blob64(run->update, 2, run->gradient,
                      sample->rows * FEATURES * sizeof(float), SQLITE_STATIC);
  while (statement_step(run->update)) {
  }
  statement_end(run->update);
}

static double step(struct run *run, struct sample *now, struct sample *next) {
  uint32_t class[TARGETS];
  double start = seconds();
  table_get(&run->feature, now->key, now->rows, run->x);
  run->waited += seconds() - start;
  draw(run, next);
  if (run->settings.ahead) {
    look_ahead(run, next);
  }
  for (size_t i = 0; i < now->targets; i++) {
    class[i] = run->data.class[now->target[i]];
  }
  sage_forward(&run->sage, now, run->x);
  double loss = sage_train(&run->sage, now, class, RATE, run->gradient);
  update(run, now);
  run->spent += seconds() - start;
  return loss;
}

static double test(struct run *run, enum part part, size_t most) {
  size_t count = run->data.part_count[part], right = 0;
  uint64_t random = 1;
  struct sample *sample = need(1, sizeof(*sample));
  count = count < most ? count : most;
  for (size_t first = 0; first < count; first += TARGETS) {
    size_t n = count - first < TARGETS ? count - first : TARGETS;
    sample_draw(sample, &run->data, &run->rows, run->data.part[part] + first, n,
                &random);
    table_get(&run->feature, sample->key, sample->rows, run->x);
    const float *logits = sage_forward(&run->sage, sample, run->x);
    for (size_t i = 0; i < n; i++) {
      right += loss_argmax(logits + i * CLASSES, CLASSES) ==
               run->data.class[sample->target[i]];
    }
  }
  free(sample);
  return (double)right / (double)count;
}

static void train(struct run *run) {
  const struct settings *settings = &run->settings;
  const char *name = AHEAD[settings->ahead];
  char what[32];
  int turn = 0;
  draw(run, &run->sample[0]);
  for (size_t epoch = 1; epoch <= settings->epochs; epoch++) {
    double loss = 0;
    run->waited = run->spent = 0;
    for (size_t b = 0; b < settings->batches; b++, turn = !turn) {
      loss += step(run, &run->sample[turn], &run->sample[!turn]);
    }
    loss /= (double)settings->batches;
    print_progress("  gnn, look-ahead %s: epoch %zu of %zu, loss %.6f, %.1f s,"
                   " %.1f %% of it waiting",
                   name, epoch, settings->epochs, loss, run->spent,
                   100 * run->waited / run->spent);
    sqlite3_snprintf(sizeof(what), what, "%s, epoch %d", name, (int)epoch);
    print_result("gnn", settings->seed, what, "loss", loss);
    print_result("gnn", settings->seed, what, "seconds", run->spent);
    print_result("gnn", settings->seed, what, "waiting",
                 run->waited / run->spent);
  }
}

static void begin(struct run *run, const struct options *options) {
  char *file = sqlite3_mprintf("%s/gnn.db", options->directory);
  data_read(&run->data, options->graph);
  rows_new(&run->rows, run->data.nodes);
  sage_new(&run->sage, run->settings.seed);
  run->random = run->settings.seed;
  run->next = run->data.part_count[TRAIN];
  run->x = need((MIDDLE + LEAVES) * FEATURES, sizeof(float));
  run->gradient = need((MIDDLE + LEAVES) * FEATURES, sizeof(float));
  run->db = database_open(file, options->extension);
  sqlite3_free(file);
  database_run(run->db,
               "CREATE VIRTUAL TABLE feature USING emb(synset INTEGER PRIMARY"
               " KEY, vector FLOAT[%d], optimizer='rowwise_adagrad(lr=0.03)',"
               " memory='%dMB')",
               FEATURES, MEMORY_MB);
  table_open(&run->feature, run->db, "feature", FEATURES);
  run->ahead =
      statement_new(run->db, "SELECT asked FROM emb_lookahead('feature', ?1)");
  run->update = statement_new(run->db, "SELECT emb_apply('feature', ?1, ?2)");
  fill(run);
}

static void end(struct run *run) {
  sqlite3_finalize(run->ahead);
  sqlite3_finalize(run->update);
  table_close(&run->feature);
  database_close(run->db);
  sage_free(&run->sage);
  rows_free(&run->rows);
  data_free(&run->data);
  free(run->x);
  free(run->gradient);
}

int main(int argc, char **argv) {
  struct options options;
  static struct run run = {
      .settings = {.seed = 1, .ahead = 1, .epochs = 2, .batches = 100}};
  struct settings *settings = &run.settings;
  struct option list[] = {{"seed", &settings->seed, NULL},
                          {"ahead", &settings->ahead, AHEAD},
                          {"epochs", &settings->epochs, NULL},
                          {"batches", &settings->batches, NULL},
                          {0}};
  options_parse(&options, list, argc, argv);
  block_one_thread();
  begin(&run, &options);
  print_result("gnn", settings->seed, AHEAD[settings->ahead], "MB",
               (double)run.data.nodes *
                   (double)table_statistic(&run.feature, "record_bytes") / 1e6);
  train(&run);
  print_result("gnn", settings->seed, AHEAD[settings->ahead], "accuracy",
               test(&run, TEST, 4000));
  end(&run);
  return 0;
}
