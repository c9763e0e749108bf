/* SPDX-License-Identifier: MIT
**
** train.c -- trains ComplEx on the WordNet graph through SQL, and tests it.
**
**   train DATABASE EXTENSION [OPTION VALUE] ...
**
**     --staleness N|none   the bound of `entities` (none: the table has none)
**     --workers N          that read, compute and write in turns (1)
**     --triples N          in a batch (4096)
**     --epochs N           (8)
**
** The database holds the graph (load.sql).  Two embedding tables are made in
** it: `entities`, a row per synset, and `relations`, a row per relation type.
** Each batch reads the rows of its entities with emb_get, changes them, and
** writes them back with emb_put; no vector is kept from one batch to the next.
**
** Triples are trained in runs: RUN consecutive triples in the order of heads
** stay together, so that a synset's pointers are mostly in one batch.  Such a
** batch reads 40 % fewer rows per triple than a batch of triples drawn
** singly.  The order of runs is shuffled within a window that moves through
** the graph, like the shuffle buffer of input pipelines: rows that a batch
** has written are likely to be read again while they are still in memory.
**
** Each worker has a connection and a batch.  A worker draws a batch, gets its
** rows, waits for its turn to compute with all threads of the team, and puts
** the rows.  Turns are in the order in which Gets end.  So with W workers up
** to W batches are between Get and Put, and if two of them have the same row,
** the later Put overwrites the earlier: the staleness bound limits how many
** may have it.  Rows of relations are read and written within a turn, so they
** are always the latest.
*/
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/random.h"
#include "../../lib/table.h"
#include "../../lib/team.h"
#include "eval.h"
#include "graph.h"
#include "model.h"

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
  WORKERS_MAX = 256,
};
static const float RATE = 0.1f;
static const float DECAY = 0.01f;
static const float DEVIATION = 0.001f; /* of a new vector's elements */

struct options {
  const char *database, *extension;
  const char *staleness; /* NULL: not given */
  size_t workers, triples, epochs;
};

/* A thread that reads, computes and writes. */
struct worker {
  struct trainer *trainer;
  pthread_t thread;
  sqlite3 *db;
  struct table entities, relations;
  struct batch batch;
  struct triple *batch_triples;
  int64_t *batch_keys;
  double loss;
  int has_turn; /* below: the queue of workers that wait to compute */
  pthread_cond_t turn;
  struct worker *behind;
};

struct trainer {
  struct options options;
  struct team *team;
  struct model *model;
  struct worker *workers; /* [options.workers] */
  struct eval_graph graph;
  int64_t *relation_keys;
  size_t relation_count;
  struct triple *triples; /* of the training split */
  size_t triple_count;
  size_t *runs; /* first triple of each run, shuffled */
  size_t run_count;

  /* Drawing batches: one at a time. */
  pthread_mutex_t drawing;
  size_t next_run;
  uint32_t batch_number;
  uint32_t *row_of; /* [entities] row in the batch, if stamped */
  uint32_t *stamp;  /* [entities] number of the batch that used it last */

  /* Computing: one at a time, in order. */
  pthread_mutex_t turns;
  int computing;
  struct worker *first, *last; /* of the waiting workers */
};

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- tables -------------------------------------------------------------- */

/* Writes a row per key: a random vector, and zeros for Adagrad. */
static void fill(struct table *table, const int64_t *keys, size_t count,
                 uint64_t seed) {
  enum { AT_ONCE = 4096 };
  float *rows = need(AT_ONCE * WIDTH, sizeof(float));
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t n = smaller(count - first, AT_ONCE);
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < DIM; j++) {
        rows[i * WIDTH + j] = DEVIATION * random_normal(&seed);
      }
    }
    table_put(table, keys + first, n, rows);
  }
  free(rows);
}

static void make_tables(struct trainer *trainer) {
  const struct options *options = &trainer->options;
  struct worker *worker = &trainer->workers[0];
  char bound[64] = "";
  if (options->staleness) {
    snprintf(bound, sizeof(bound), ", staleness=%s, timeout=60000",
             options->staleness);
  }
  database_run(worker->db,
               "DROP TABLE IF EXISTS entities;"
               "DROP TABLE IF EXISTS relations;"
               "CREATE VIRTUAL TABLE entities USING emb("
               "synset INTEGER PRIMARY KEY, vector FLOAT[%d] metric=cosine,"
               " state FLOAT[%d], memory='%dMB'%s);"
               "CREATE VIRTUAL TABLE relations USING emb("
               "relation INTEGER PRIMARY KEY, vector FLOAT[%d],"
               " state FLOAT[%d], memory='4MB')",
               DIM, WIDTH - DIM, MEMORY_MB, bound, DIM, WIDTH - DIM);
  for (size_t i = 0; i < options->workers; i++) {
    struct worker *w = &trainer->workers[i];
    table_open(&w->entities, w->db, "entities", WIDTH);
    table_open(&w->relations, w->db, "relations", WIDTH);
  }
  fill(&worker->entities, trainer->graph.keys, trainer->graph.entities, SEED);
  fill(&worker->relations, trainer->relation_keys, trainer->relation_count,
       SEED + 1);
  double megabytes =
      (double)trainer->graph.entities * WIDTH * sizeof(float) / (1 << 20);
  printf("  %zu vectors of %d floats and their Adagrad state: %.0f MB;"
         " memory budget %d MB\n\n",
         trainer->graph.entities, DIM, megabytes, MEMORY_MB);
}

/* ---- batches ------------------------------------------------------------- */

/* The entity's row in the batch; a new row if it has none. */
static uint32_t row_of(struct worker *worker, uint32_t entity) {
  struct trainer *trainer = worker->trainer;
  if (trainer->stamp[entity] != trainer->batch_number) {
    size_t row = worker->batch.row_count++;
    trainer->stamp[entity] = trainer->batch_number;
    trainer->row_of[entity] = (uint32_t)row;
    worker->batch_keys[row] = trainer->graph.keys[entity];
  }
  return trainer->row_of[entity];
}

static void add_run(struct worker *worker, size_t first) {
  struct trainer *trainer = worker->trainer;
  struct batch *batch = &worker->batch;
  size_t end = smaller(first + RUN, trainer->triple_count);
  for (size_t i = first; i < end; i++) {
    struct triple *to = &worker->batch_triples[batch->triple_count++];
    const struct triple *from = &trainer->triples[i];
    to->relation = from->relation;
    to->head = row_of(worker, from->head);
    to->tail = row_of(worker, from->tail);
  }
}

/* Makes the next batch of the epoch; returns its number, 0 at the end. */
static uint32_t draw_batch(struct worker *worker) {
  struct trainer *trainer = worker->trainer;
  uint32_t number = 0;
  worker->batch.triple_count = 0;
  worker->batch.row_count = 0;
  pthread_mutex_lock(&trainer->drawing);
  size_t first = trainer->next_run;
  size_t end =
      smaller(first + trainer->options.triples / RUN, trainer->run_count);
  if (first < end) {
    number = ++trainer->batch_number;
  }
  for (size_t i = first; i < end; i++) {
    add_run(worker, trainer->runs[i]);
  }
  trainer->next_run = end;
  pthread_mutex_unlock(&trainer->drawing);
  return number;
}

static void take_turn(struct worker *worker) {
  struct trainer *trainer = worker->trainer;
  pthread_mutex_lock(&trainer->turns);
  worker->has_turn = !trainer->computing;
  if (!worker->has_turn) {
    struct worker **end =
        trainer->first ? &trainer->last->behind : &trainer->first;
    *end = trainer->last = worker;
    worker->behind = NULL;
  }
  while (!worker->has_turn) {
    pthread_cond_wait(&worker->turn, &trainer->turns);
  }
  trainer->computing = 1;
  pthread_mutex_unlock(&trainer->turns);
}

static void end_turn(struct worker *worker) {
  struct trainer *trainer = worker->trainer;
  pthread_mutex_lock(&trainer->turns);
  struct worker *next = trainer->first;
  if (next) {
    trainer->first = next->behind;
    next->has_turn = 1;
    pthread_cond_signal(&next->turn);
  } else {
    trainer->computing = 0;
  }
  pthread_mutex_unlock(&trainer->turns);
}

/* Trains on batches until the end of the epoch. */
static void *work(void *argument) {
  struct worker *worker = argument;
  struct trainer *trainer = worker->trainer;
  struct batch *batch = &worker->batch;
  uint32_t number;
  worker->loss = 0;
  while ((number = draw_batch(worker)) > 0) {
    table_get(&worker->entities, worker->batch_keys, batch->row_count,
              batch->rows);
    take_turn(worker);
    table_get(&worker->relations, trainer->relation_keys,
              trainer->relation_count, batch->relations);
    worker->loss += model_step(trainer->model, batch, SEED + number);
    table_put(&worker->relations, trainer->relation_keys,
              trainer->relation_count, batch->relations);
    end_turn(worker);
    table_put(&worker->entities, worker->batch_keys, batch->row_count,
              batch->rows);
  }
  return NULL;
}

/* ---- epochs -------------------------------------------------------------- */

/* Puts the runs into an order near that of heads: each place gets one of the
** next WINDOW remaining runs. */
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

/* Returns the mean loss per triple. */
static double do_epoch(struct trainer *trainer, uint64_t epoch) {
  double loss = 0;
  size_t workers = trainer->options.workers;
  shuffle_runs(trainer, random_next(&epoch) + SEED);
  trainer->next_run = 0;
  for (size_t i = 1; i < workers; i++) {
    struct worker *worker = &trainer->workers[i];
    if (pthread_create(&worker->thread, NULL, work, worker)) {
      die("no threads");
    }
  }
  work(&trainer->workers[0]);
  for (size_t i = 0; i < workers; i++) {
    if (i > 0) {
      pthread_join(trainer->workers[i].thread, NULL);
    }
    loss += trainer->workers[i].loss;
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
  struct worker *worker = &trainer->workers[0];
  struct model_options options = {
      .dim = DIM,
      .relation_count = trainer->relation_count,
      .batch_max = trainer->options.triples,
      .group = GROUP,
      .negatives = NEGATIVES,
      .rate = RATE,
      .decay = DECAY,
  };
  trainer->model = model_new(&options, trainer->team);
  puts("  epoch    loss   triples/s   cache hits   seconds");
  for (uint64_t epoch = 1; epoch <= trainer->options.epochs; epoch++) {
    struct reads before = count_reads(&worker->entities);
    double start = seconds();
    double loss = do_epoch(trainer, epoch);
    double took = seconds() - start;
    struct reads after = count_reads(&worker->entities);
    double hits = (double)(after.memory - before.memory);
    double misses = (double)(after.disk - before.disk);
    printf("  %5d  %6.3f  %10.0f  %10.1f%%  %8.1f\n", (int)epoch, loss,
           (double)trainer->triple_count / took, 100 * hits / (hits + misses),
           took);
    fflush(stdout);
  }
  database_run(worker->db,
               "INSERT INTO entities(entities) VALUES('checkpoint');"
               "INSERT INTO relations(relations) VALUES('checkpoint')");
  model_free(trainer->model);
}

static void test(struct trainer *trainer) {
  struct worker *worker = &trainer->workers[0];
  size_t count;
  struct triple *triples = graph_triples(
      worker->db, "test", trainer->graph.keys, trainer->graph.entities, &count);
  double start = seconds();
  table_get(&worker->relations, trainer->relation_keys, trainer->relation_count,
            worker->batch.relations);
  if (trainer->options.staleness) {
    table_peek_only(&worker->entities);
  }
  struct eval_result result =
      eval_run(&trainer->graph, triples, count, &worker->entities,
               worker->batch.relations, trainer->team);
  printf("\n  %zu held-out triples, both ends, %zu candidates each"
         " (%.1f seconds)\n\n",
         count, trainer->graph.entities, seconds() - start);
  puts("  filtered            MRR    Hits@1   Hits@3  Hits@10");
  printf("  this run           %.3f   %.3f    %.3f    %.3f\n", result.mrr,
         result.hits1, result.hits3, result.hits10);
  if (trainer->options.staleness) {
    printf("  with more digits   %.5f %.5f  %.5f  %.5f\n", result.mrr,
           result.hits1, result.hits3, result.hits10);
  }
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

/* ---- the program --------------------------------------------------------- */

static void open_worker(struct trainer *trainer, struct worker *worker) {
  size_t triples = trainer->options.triples;
  worker->trainer = trainer;
  pthread_cond_init(&worker->turn, NULL);
  worker->batch_triples = need(triples, sizeof(struct triple));
  worker->batch_keys = need(2 * triples, sizeof(int64_t));
  worker->batch.triples = worker->batch_triples;
  worker->batch.rows = need(2 * triples * WIDTH, sizeof(float));
  worker->batch.relations =
      need(trainer->relation_count * WIDTH, sizeof(float));
}

static void load(struct trainer *trainer) {
  const struct options *options = &trainer->options;
  struct eval_graph *graph = &trainer->graph;
  trainer->workers = need(options->workers, sizeof(struct worker));
  for (size_t i = 0; i < options->workers; i++) {
    trainer->workers[i].db =
        database_open(options->database, options->extension);
  }
  sqlite3 *db = trainer->workers[0].db;
  graph->keys = graph_keys(db, "entity", &graph->entities);
  trainer->relation_keys = graph_keys(db, "relation", &trainer->relation_count);
  graph->known = graph_triples(db, NULL, graph->keys, graph->entities,
                               &graph->known_count);
  trainer->triples = graph_triples(db, "train", graph->keys, graph->entities,
                                   &trainer->triple_count);
  trainer->run_count = (trainer->triple_count + RUN - 1) / RUN;
  trainer->runs = need(trainer->run_count, sizeof(size_t));
  trainer->row_of = need(graph->entities, sizeof(uint32_t));
  trainer->stamp = need(graph->entities, sizeof(uint32_t));
  for (size_t i = 0; i < options->workers; i++) {
    open_worker(trainer, &trainer->workers[i]);
  }
}

static void unload(struct trainer *trainer) {
  for (size_t i = 0; i < trainer->options.workers; i++) {
    struct worker *worker = &trainer->workers[i];
    table_close(&worker->entities);
    table_close(&worker->relations);
    database_close(worker->db);
    free(worker->batch_triples);
    free(worker->batch_keys);
    free(worker->batch.rows);
    free(worker->batch.relations);
  }
  free(trainer->workers);
  free(trainer->graph.keys);
  free(trainer->graph.known);
  free(trainer->relation_keys);
  free(trainer->triples);
  free(trainer->runs);
  free(trainer->row_of);
  free(trainer->stamp);
}

static size_t number(const char *text, size_t least, size_t most) {
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*end || value < least || value > most) {
    die("%s is not a number from %zu to %zu", text, least, most);
  }
  return value;
}

static void parse(struct options *options, int argc, char **argv) {
  if (argc < 3 || argc % 2 == 0) {
    die("usage: train DATABASE EXTENSION [OPTION VALUE] ...");
  }
  options->database = argv[1];
  options->extension = argv[2];
  for (int i = 3; i < argc; i += 2) {
    const char *value = argv[i + 1];
    if (!strcmp(argv[i], "--staleness")) {
      options->staleness = value;
      if (strcmp(value, "none")) {
        (void)number(value, 0, 4094);
      }
    } else if (!strcmp(argv[i], "--workers")) {
      options->workers = number(value, 1, WORKERS_MAX);
    } else if (!strcmp(argv[i], "--triples")) {
      options->triples = number(value, RUN, 1 << 16) / RUN * RUN;
    } else if (!strcmp(argv[i], "--epochs")) {
      options->epochs = number(value, 1, 1000);
    } else {
      die("unknown option: %s", argv[i]);
    }
  }
}

int main(int argc, char **argv) {
  struct trainer trainer = {
      .options = {.workers = 1, .triples = BATCH, .epochs = EPOCHS},
      .team = team_new(),
      .drawing = PTHREAD_MUTEX_INITIALIZER,
      .turns = PTHREAD_MUTEX_INITIALIZER};
  parse(&trainer.options, argc, argv);
  if (!trainer.team) {
    die("no threads");
  }
  load(&trainer);
  make_tables(&trainer);
  train(&trainer);
  test(&trainer);
  unload(&trainer);
  team_free(trainer.team);
  return 0;
}
