/* SPDX-License-Identifier: MIT
**
** train.c -- trains ComplEx on the WordNet graph through SQL, and tests it.
**
**   train DATABASE EXTENSION
**
** The database holds the graph (load.sql).  Two embedding tables are made in
** it: `entities`, a row per synset, and `relations`, a row per relation type.
** Each batch reads the rows of its entities with emb_get, changes them, and
** writes them back with emb_put; no vector is kept from one batch to the next.
**
** Triples are trained in runs: RUN triples that follow each other in the order
** of heads stay together, so that a synset's pointers are mostly in one batch,
** which has 40 % fewer rows to read per triple than one of triples drawn
** singly.  The order of runs is shuffled within a window that moves through
** the graph, as input pipelines with a shuffle buffer do: what a batch has
** written is likely to be read again while it is still in memory.
*/
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "eval.h"
#include "model.h"
#include "table.h"
#include "team.h"

enum {
  DIM = 124,       /* floats of a vector: 62 complex numbers */
  WIDTH = 2 * DIM, /* floats of a row: the vector and Adagrad's state; four
                      rows with their headers just fit in a page of 4 KiB */
  MEMORY_MB = 26,  /* budget of `entities`, whose rows are 110 MB */
  EPOCHS = 8,
  BATCH = 4096,  /* triples */
  RUN = 16,      /* triples */
  WINDOW = 2048, /* runs, of 22,160 */
  GROUP = 128,
  NEGATIVES = 256,
  SEED = 1,
};
static const float RATE = 0.1f;
static const float DECAY = 0.01f;
static const double DEVIATION = 0.001; /* of a new vector's elements */

struct trainer {
  sqlite3 *db;
  struct team *team;
  struct table entities, relations;
  struct eval_graph graph;
  int64_t *relation_keys;
  size_t relation_count;
  struct triple *triples; /* of the training split */
  size_t triple_count;
  size_t *runs; /* first triple of each run, shuffled */
  size_t run_count;

  /* The batch at hand. */
  struct batch batch;
  struct triple *batch_triples;
  int64_t *batch_keys;
  uint32_t batch_number;
  uint32_t *row_of; /* [entities] row in the batch, if stamped */
  uint32_t *stamp;  /* [entities] number of the batch that used it last */
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- tables ------------------------------------------------------------ */

/* A normal random number (Box and Muller). */
static float random_normal(uint64_t *state) {
  double u = ((double)(random_next(state) >> 11) + 1) * 0x1p-53;
  double v = (double)(random_next(state) >> 11) * 0x1p-53;
  return (float)(DEVIATION * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* Writes a row per key: a random vector, and zeros for Adagrad. */
static void fill(struct table *table, const int64_t *keys, size_t count,
                 uint64_t seed) {
  enum { AT_ONCE = 4096 };
  float *rows = need(AT_ONCE * WIDTH, sizeof(float));
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t n = smaller(count - first, AT_ONCE);
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < DIM; j++) {
        rows[i * WIDTH + j] = random_normal(&seed);
      }
    }
    table_put(table, keys + first, n, rows);
  }
  free(rows);
}

static void make_tables(struct trainer *trainer) {
  database_run(trainer->db,
               "DROP TABLE IF EXISTS entities;"
               "DROP TABLE IF EXISTS relations;"
               "CREATE VIRTUAL TABLE entities USING emb("
               "synset INTEGER PRIMARY KEY, vector FLOAT[%d],"
               " memory='%dMB');"
               "CREATE VIRTUAL TABLE relations USING emb("
               "relation INTEGER PRIMARY KEY, vector FLOAT[%d],"
               " memory='4MB')",
               WIDTH, MEMORY_MB, WIDTH);
  table_open(&trainer->entities, trainer->db, "entities", WIDTH);
  table_open(&trainer->relations, trainer->db, "relations", WIDTH);
  fill(&trainer->entities, trainer->graph.keys, trainer->graph.entities, SEED);
  fill(&trainer->relations, trainer->relation_keys, trainer->relation_count,
       SEED + 1);
  double megabytes =
      (double)trainer->graph.entities * WIDTH * sizeof(float) / (1 << 20);
  printf("  %zu vectors of %d floats and their Adagrad state: %.0f MB;"
         " memory budget %d MB\n\n",
         trainer->graph.entities, DIM, megabytes, MEMORY_MB);
}

/* ---- batches ----------------------------------------------------------- */

/* The entity's row in the batch; a new one unless it has one. */
static uint32_t row_of(struct trainer *trainer, uint32_t entity) {
  if (trainer->stamp[entity] != trainer->batch_number) {
    size_t row = trainer->batch.row_count++;
    trainer->stamp[entity] = trainer->batch_number;
    trainer->row_of[entity] = (uint32_t)row;
    trainer->batch_keys[row] = trainer->graph.keys[entity];
  }
  return trainer->row_of[entity];
}

static void add_run(struct trainer *trainer, size_t first) {
  struct batch *batch = &trainer->batch;
  size_t end = smaller(first + RUN, trainer->triple_count);
  for (size_t i = first; i < end; i++) {
    struct triple *to = &trainer->batch_triples[batch->triple_count++];
    const struct triple *from = &trainer->triples[i];
    to->relation = from->relation;
    to->head = row_of(trainer, from->head);
    to->tail = row_of(trainer, from->tail);
  }
}

/* Trains on the given runs; returns the sum of losses. */
static double do_batch(struct trainer *trainer, struct model *model,
                       const size_t *runs, size_t run_count) {
  struct batch *batch = &trainer->batch;
  trainer->batch_number++;
  batch->triple_count = 0;
  batch->row_count = 0;
  for (size_t i = 0; i < run_count; i++) {
    add_run(trainer, runs[i]);
  }
  table_get(&trainer->entities, trainer->batch_keys, batch->row_count,
            batch->rows);
  table_get(&trainer->relations, trainer->relation_keys,
            trainer->relation_count, batch->relations);
  double loss = model_step(model, batch, SEED + trainer->batch_number);
  table_put(&trainer->entities, trainer->batch_keys, batch->row_count,
            batch->rows);
  table_put(&trainer->relations, trainer->relation_keys,
            trainer->relation_count, batch->relations);
  return loss;
}

/* ---- epochs ------------------------------------------------------------ */

/* Puts the runs into an order near to that of heads: each place is filled
** with one of the next WINDOW runs that are left. */
static void shuffle_runs(struct trainer *trainer, uint64_t seed) {
  size_t count = trainer->run_count, *runs = trainer->runs;
  for (size_t i = 0; i < count; i++) {
    runs[i] = i * RUN;
  }
  for (size_t i = 0; i < count; i++) {
    size_t j = i + (size_t)(random_next(&seed) % smaller(WINDOW, count - i));
    size_t run = runs[i];
    runs[i] = runs[j];
    runs[j] = run;
  }
}

/* Returns the mean loss of a triple. */
static double do_epoch(struct trainer *trainer, struct model *model,
                       uint64_t epoch) {
  enum { RUNS = BATCH / RUN };
  double loss = 0;
  shuffle_runs(trainer, random_next(&epoch) + SEED);
  for (size_t i = 0; i < trainer->run_count; i += RUNS) {
    loss += do_batch(trainer, model, trainer->runs + i,
                     smaller(trainer->run_count - i, RUNS));
  }
  return loss / (double)trainer->triple_count;
}

/* Rows read so far from memory (log or record cache), and from disk. */
struct reads {
  int64_t memory, disk;
};

static struct reads count_reads(struct table *table) {
  return (struct reads){table_statistic(table, "get_memory") +
                            table_statistic(table, "get_cache"),
                        table_statistic(table, "get_disk")};
}

static void train(struct trainer *trainer) {
  struct model_options options = {
      .dim = DIM,
      .relation_count = trainer->relation_count,
      .batch_max = BATCH,
      .group = GROUP,
      .negatives = NEGATIVES,
      .rate = RATE,
      .decay = DECAY,
  };
  struct model *model = model_new(&options, trainer->team);
  puts("  epoch    loss   triples/s   cache hits   seconds");
  for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
    struct reads before = count_reads(&trainer->entities);
    double start = seconds();
    double loss = do_epoch(trainer, model, epoch);
    double took = seconds() - start;
    struct reads after = count_reads(&trainer->entities);
    double hits = (double)(after.memory - before.memory);
    double misses = (double)(after.disk - before.disk);
    printf("  %5d  %6.3f  %10.0f  %10.1f%%  %8.1f\n", (int)epoch, loss,
           (double)trainer->triple_count / took, 100 * hits / (hits + misses),
           took);
    fflush(stdout);
  }
  database_run(trainer->db,
               "INSERT INTO entities(entities) VALUES('checkpoint');"
               "INSERT INTO relations(relations) VALUES('checkpoint')");
  model_free(model);
}

static void test(struct trainer *trainer) {
  size_t count;
  struct triple *triples =
      graph_triples(trainer->db, "test", trainer->graph.keys,
                    trainer->graph.entities, &count);
  double start = seconds();
  table_get(&trainer->relations, trainer->relation_keys,
            trainer->relation_count, trainer->batch.relations);
  struct eval_result result =
      eval_run(&trainer->graph, triples, count, &trainer->entities,
               trainer->batch.relations, trainer->team);
  printf("\n  %zu held-out triples, both ends, %zu candidates each"
         " (%.1f seconds)\n\n",
         count, trainer->graph.entities, seconds() - start);
  puts("  filtered            MRR    Hits@1   Hits@3  Hits@10");
  printf("  this run           %.3f   %.3f    %.3f    %.3f\n", result.mrr,
         result.hits1, result.hits3, result.hits10);
  puts("  ComplEx on WN18    0.941   0.936    0.945    0.947\n"
       "  DistMult on WN18   0.822   0.728    0.914    0.936\n");
  puts(
      "  The published figures (Trouillon et al. 2016) are for WN18, a part of"
      "\n  this graph: 40,943 synsets, 18 relation types, 151,442 triples."
      "  Here it\n  is all of WordNet 3.0: 116,650 synsets as candidates, 26"
      " types, 364,552\n  triples.  Both are split at random by triple, so that"
      " the reverse of a\n  held-out triple is mostly in training; it is for"
      " 97 % here.");
  fflush(stdout);
  free(triples);
}

/* ---- the program ------------------------------------------------------- */

static void load(struct trainer *trainer) {
  struct eval_graph *graph = &trainer->graph;
  graph->keys = graph_keys(trainer->db, "entity", &graph->entities);
  trainer->relation_keys =
      graph_keys(trainer->db, "relation", &trainer->relation_count);
  graph->known = graph_triples(trainer->db, NULL, graph->keys, graph->entities,
                               &graph->known_count);
  trainer->triples = graph_triples(trainer->db, "train", graph->keys,
                                   graph->entities, &trainer->triple_count);
  trainer->run_count = (trainer->triple_count + RUN - 1) / RUN;
  trainer->runs = need(trainer->run_count, sizeof(size_t));
  trainer->row_of = need(graph->entities, sizeof(uint32_t));
  trainer->stamp = need(graph->entities, sizeof(uint32_t));
  trainer->batch_triples = need(BATCH, sizeof(struct triple));
  trainer->batch_keys = need((size_t)2 * BATCH, sizeof(int64_t));
  trainer->batch.triples = trainer->batch_triples;
  trainer->batch.rows = need((size_t)2 * BATCH * WIDTH, sizeof(float));
  trainer->batch.relations =
      need(trainer->relation_count * WIDTH, sizeof(float));
}

static void unload(struct trainer *trainer) {
  free(trainer->graph.keys);
  free(trainer->graph.known);
  free(trainer->relation_keys);
  free(trainer->triples);
  free(trainer->runs);
  free(trainer->row_of);
  free(trainer->stamp);
  free(trainer->batch_triples);
  free(trainer->batch_keys);
  free(trainer->batch.rows);
  free(trainer->batch.relations);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    die("usage: train DATABASE EXTENSION");
  }
  struct trainer trainer = {.db = database_open(argv[1], argv[2]),
                            .team = team_new()};
  if (!trainer.team) {
    die("no threads");
  }
  load(&trainer);
  make_tables(&trainer);
  train(&trainer);
  test(&trainer);
  table_close(&trainer.entities);
  table_close(&trainer.relations);
  database_close(trainer.db);
  unload(&trainer);
  team_free(trainer.team);
  return 0;
}
