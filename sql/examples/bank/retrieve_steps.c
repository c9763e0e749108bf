/* SPDX-License-Identifier: MIT
**
** retrieve_steps.c -- how long a step of the two towers takes, by the number of
** negatives.
**
**   retrieve_steps GRAPH EXTENSION DIRECTORY [--rounds N]
**
** The negatives' embeddings come from the bank, or are computed in the
** trainer.  In each round all numbers are measured both ways; the reported
** times are medians over the rounds.
*/
#include <stdio.h>
#include <stdlib.h>

#include "../../lib/clock.h"
#include "../../lib/median.h"
#include "../../lib/random.h"
#include "towers.h"

enum { BATCH = 256, ROUNDS_MAX = 100, COUNTS = 5, WAYS = 2 };
static const size_t NEGATIVES[COUNTS] = {16, 64, 256, 1024, 4096};
static const char *const WAY[WAYS] = {"bank", "trainer"};

static void step(struct towers *towers, int way, size_t negatives, double *ms,
                 double *cpu) {
  uint32_t nodes[BATCH];
  for (size_t i = 0; i < BATCH; i++) {
    nodes[i] = (uint32_t)random_below(&towers->random, towers->data->nodes);
  }
  towers->from = way ? TRAINER : BANK;
  towers->negatives = negatives;
  double start = seconds(), busy = processor_seconds();
  towers_step(towers, nodes, BATCH);
  *ms = 1000 * (seconds() - start);
  *cpu = 1000 * (processor_seconds() - busy);
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
  struct data data;
  struct towers towers;
  static double ms[WAYS][COUNTS][ROUNDS_MAX], cpu[WAYS][COUNTS][ROUNDS_MAX];
  data_read(&data, options.graph);
  towers_new(&towers, &options, &data, 1);
  towers_refresh(&towers, data.part[TRAIN], data.part_count[TRAIN]);
  step(&towers, 1, NEGATIVES[COUNTS - 1], ms[0][0],
       cpu[0][0]); /* allocates memory */
  for (size_t round = 0; round < rounds; round++) {
    for (int i = 0; i < COUNTS; i++) {
      for (int way = 0; way < WAYS; way++) {
        step(&towers, way, NEGATIVES[i], &ms[way][i][round],
             &cpu[way][i][round]);
      }
    }
    print_progress("  retrieve_steps: round %zu of %zu", round + 1, rounds);
  }
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < COUNTS; i++) {
      char what[16];
      snprintf(what, sizeof(what), "%zu", NEGATIVES[i]);
      print_result("retrieve steps", 1, WAY[way], what,
                   median(ms[way][i], rounds));
      print_result("retrieve steps, processor", 1, WAY[way], what,
                   median(cpu[way][i], rounds));
    }
  }
  towers_free(&towers);
  data_free(&data);
  return 0;
}
