/* SPDX-License-Identifier: MIT
**
** steps.c -- how long a training step takes, by the number of neighbours.
**
**   steps GRAPH EXTENSION DIRECTORY [--rounds N]
**
** The step is that of regularise.c.  There are three ways: the neighbours'
** embeddings come from the bank while no maker works; from the bank while a
** maker works; or they are computed in the trainer.  Each round measures all
** three ways with every number of neighbours, so that disturbances of the
** machine affect all of them.  The program reports medians over the rounds:
** of the wall-clock time, and of the time in which the trainer's thread
** computed.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../lib/clock.h"
#include "../../lib/median.h"
#include "../../lib/random.h"
#include "maker.h"
#include "neighbours.h"

enum { BATCH = 256, LABELLED = 64, ROUNDS_MAX = 100 };
enum { COUNTS = 6, WAYS = 3, REPEATS = 3 };
static const size_t NEIGHBOURS[COUNTS] = {1, 2, 5, 10, 20, 50};
static const char *const WAY[WAYS] = {"bank", "bank, maker at work", "trainer"};

struct run {
  struct data data;
  struct model model;
  struct table bank;
  struct trainer trainer;
  sqlite3 *db;
  uint64_t random;
  double ms[WAYS][COUNTS][ROUNDS_MAX];  /* wall-clock time */
  double cpu[WAYS][COUNTS][ROUNDS_MAX]; /* the trainer's CPU time */
};

static void step(struct run *run, int way, size_t k, double *ms, double *cpu) {
  uint32_t nodes[BATCH], class[LABELLED];
  for (size_t i = 0; i < BATCH; i++) {
    nodes[i] = (uint32_t)random_below(&run->random, run->data.nodes);
    class[i % LABELLED] = run->data.class[nodes[i % LABELLED]];
  }
  run->trainer.source = way == 2 ? IN_TRAINER : FROM_BANK;
  run->trainer.puts = way == 0;
  run->trainer.k = k;
  double start = seconds(), busy = processor_seconds();
  trainer_step(&run->trainer, nodes, class, LABELLED, BATCH);
  *ms = 1000 * (seconds() - start);
  *cpu = 1000 * (processor_seconds() - busy);
}

static void settle(void) {
  struct timespec time = {0, 50000000};
  nanosleep(&time, NULL);
}

/* Measures the steps of one way; the slow way only once. */
static void measure(struct run *run, int way, size_t round) {
  maker_order(run->db, way == 1 ? WORK : PAUSE);
  settle();
  for (int i = 0; i < COUNTS; i++) {
    double ms[REPEATS], cpu[REPEATS];
    size_t repeats = way == 2 ? 1 : REPEATS;
    for (size_t r = 0; r < repeats; r++) {
      step(run, way, NEIGHBOURS[i], &ms[r], &cpu[r]);
    }
    run->ms[way][i][round] = median(ms, repeats);
    run->cpu[way][i][round] = median(cpu, repeats);
  }
}

static void report(struct run *run, size_t rounds) {
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < COUNTS; i++) {
      char what[16];
      snprintf(what, sizeof(what), "%zu", NEIGHBOURS[i]);
      print_result("steps", 1, WAY[way], what, median(run->ms[way][i], rounds));
      print_result("steps, processor", 1, WAY[way], what,
                   median(run->cpu[way][i], rounds));
    }
  }
  print_result("steps", 1, "bank", "found",
               run->trainer.looked_up / run->trainer.sought);
}

/* How long the trainer takes to write its checkpoint. */
static void report_checkpoint(struct run *run) {
  double ms[9];
  for (int i = 0; i < 9; i++) {
    double start = seconds();
    checkpoint_write(run->db, &run->model, 2 + i);
    ms[i] = 1000 * (seconds() - start);
  }
  print_result("steps", 1, "checkpoint", "ms", median(ms, 9));
  print_result("steps", 1, "checkpoint", "MB",
               (double)model_floats(&run->model) * sizeof(float) / 1e6);
}

static void begin(struct run *run, const struct options *options) {
  data_read(&run->data, options->graph);
  model_new(&run->model, &run->data, 1);
  run->db = bank_make(options, EMBEDDINGS);
  run->random = 1;
  table_open(&run->bank, run->db, "bank", EMBEDDING);
  run->trainer = (struct trainer){.data = &run->data,
                                  .model = &run->model,
                                  .bank = &run->bank,
                                  .alpha = 1,
                                  .rate = 0.001,
                                  .random = 1};
}

/* Fills the bank, before anything is measured. */
static void fill(struct run *run) {
  struct maker maker;
  uint32_t *nodes = need(run->data.nodes, sizeof(uint32_t));
  for (size_t i = 0; i < run->data.nodes; i++) {
    nodes[i] = (uint32_t)i;
  }
  maker_new(&maker, run->db, EMBEDDINGS, &run->data, &run->model);
  double start = seconds();
  maker_refresh(&maker, nodes, run->data.nodes);
  print_result("steps", 1, "maker", "seconds for all", seconds() - start);
  maker_free(&maker);
  free(nodes);
}

int main(int argc, char **argv) {
  struct options options;
  size_t rounds = 15;
  struct option list[] = {{"rounds", &rounds, NULL}, {0}};
  options_parse(&options, list, argc, argv);
  if (rounds < 1 || rounds > ROUNDS_MAX) {
    die("--rounds is from 1 to %d", ROUNDS_MAX);
  }
  block_one_thread();
  struct run *run = need(1, sizeof(*run));
  begin(run, &options);
  fill(run);
  checkpoint_write(run->db, &run->model, 1);
  pid_t maker = maker_start(&options, EMBEDDINGS);
  double ms, cpu;
  step(run, 2, NEIGHBOURS[COUNTS - 1], &ms, &cpu); /* allocates memory */
  for (size_t round = 0; round < rounds; round++) {
    for (int way = 0; way < WAYS; way++) {
      measure(run, way, round);
    }
    print_progress("  steps: round %zu of %zu", round + 1, rounds);
  }
  maker_end(run->db, maker);
  report(run, rounds);
  report_checkpoint(run);
  table_close(&run->bank);
  database_close(run->db);
  trainer_free(&run->trainer);
  model_free(&run->model);
  data_free(&run->data);
  free(run);
  return 0;
}
