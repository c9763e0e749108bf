/* SPDX-License-Identifier: MIT
**
** retrieve.c -- how well lemmas find their glosses, by the number of
** negatives that the two towers (towers.h) were trained with.
**
**   retrieve GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...
**
**     --seed N        (1)
**     --negatives N   (1024)
**     --from bank|trainer   where the negatives' embeddings come from (bank)
**     --steps N       of 256 synsets (600)
**     --pool N        synsets to train on (65536)
**
** A knowledge maker refreshes the bank every REFRESH steps; this process
** calls it, so that runs are repeatable.
**
** Recall@10: the share of test synsets whose gloss is among the ten nearest
** to their lemma, out of the glosses of all test synsets.  Test synsets are
** in no batch.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/random.h"
#include "towers.h"

enum { BATCH = 256, SAY = 100, REFRESH = 100 };

static const char *const FROM[] = {"bank", "trainer", NULL};

struct settings {
  size_t seed, negatives, from, steps, pool;
};

/* Mean loss of the last SAY steps. */
static double train(struct towers *towers, struct data *data,
                    const struct settings *settings) {
  uint32_t *order = data->part[TRAIN];
  size_t count = towers->pool_count, next = count;
  double loss = 0, mean = 0;
  for (size_t step = 1; step <= settings->steps; step++) {
    if (next + BATCH > count) {
      random_shuffle(&towers->random, order, count);
      next = 0;
    }
    /* Towards the end, the steps become small. */
    towers->rate =
        0.001 * (1 - (double)(step - 1) / (double)settings->steps) + 2e-5;
    loss += towers_step(towers, order + next, BATCH);
    next += BATCH;
    if (step % REFRESH == 0 && settings->from == BANK) {
      towers_refresh(towers, towers->pool, towers->pool_count);
    }
    if (step % SAY == 0) {
      mean = loss / SAY;
      loss = 0;
      print_progress("  retrieve %s, %zu negatives, seed %zu: step %zu of %zu,"
                     " loss %.3f",
                     FROM[settings->from], settings->negatives, settings->seed,
                     step, settings->steps, mean);
    }
  }
  return mean;
}

int main(int argc, char **argv) {
  struct options options;
  struct settings settings = {
      .seed = 1, .negatives = 1024, .steps = 600, .pool = 65536};
  struct option list[] = {
      {"seed", &settings.seed, NULL}, {"negatives", &settings.negatives, NULL},
      {"from", &settings.from, FROM}, {"steps", &settings.steps, NULL},
      {"pool", &settings.pool, NULL}, {0}};
  options_parse(&options, list, argc, argv);
  block_one_thread();
  struct data data;
  struct towers towers;
  char name[64];
  data_read(&data, options.graph);
  towers_new(&towers, &options, &data, settings.seed);
  towers.negatives = settings.negatives;
  towers.from = (enum negatives_from)settings.from;
  random_shuffle(&towers.random, data.part[TRAIN], data.part_count[TRAIN]);
  size_t pool = settings.pool < data.part_count[TRAIN] ? settings.pool
                                                       : data.part_count[TRAIN];
  uint32_t *nodes = need(pool, sizeof(uint32_t));
  memcpy(nodes, data.part[TRAIN], pool * sizeof(uint32_t));
  towers_refresh(&towers, nodes, pool);
  double start = seconds(), loss = train(&towers, &data, &settings);
  double ms = 1000 * (seconds() - start) / (double)settings.steps;
  sqlite3_snprintf(sizeof(name), name, "%s, %d", FROM[settings.from],
                   (int)settings.negatives);
  print_result("retrieve", settings.seed, name, "loss", loss);
  print_result("retrieve", settings.seed, name, "ms per step", ms);
  print_result(
      "retrieve", settings.seed, name, "recall",
      towers_recall(&towers, data.part[TEST], data.part_count[TEST], 10));
  towers_free(&towers);
  data_free(&data);
  free(nodes);
  return 0;
}
