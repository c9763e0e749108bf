/* SPDX-License-Identifier: MIT
**
** guard.c -- is this build of the extension slower than another one?
**
**   bench guard --base=FILE [--extension=FILE]
**
** Twelve short figures of both builds, all through SQL.  Each build runs in a
** separate process that has loaded it; both do the same work.  In a round each
** figure is measured with both, alternating; the ratio is taken within a round.
**
** SLOWER    A figure whose median ratio is below 1 by more than the spread of
**           its ratios, which is half the distance between the lowest and the
**           highest; faster likewise.  If any figure is slower, the program
**           exits with 1.
*/
#include "guard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "worker.h"

enum { SIDES = 2 };
static const char *const sides[SIDES] = {"this", "base"};

struct guard {
  const struct options *options;
  struct guard_side side[SIDES];
  struct worker worker[SIDES];
  double ratio[GUARD_FIGURES][64];
};

/* One round of a figure in the order A, B, B, A, so that a machine that slows
** down during the round does so for both. */
static void measure_round(struct guard *g, struct group *group, int what,
                          int round) {
  const struct worker *both[SIDES] = {&g->worker[0], &g->worker[1]};
  double cost[SIDES] = {0}; /* seconds per row, sum of both turns */
  for (int turn = 0; turn < 2 * SIDES; turn++) {
    int side = ((turn + 1) / SIDES + round) % SIDES;
    struct order order = {
        .what = what, .number = round, .seconds = g->options->seconds / SIDES};
    worker_settle(both, SIDES);
    cost[side] += 1 / worker_ask(&g->worker[side], &order).value[0];
  }
  for (int side = 0; side < SIDES; side++) {
    group_add(group, sides[side], round, SIDES / cost[side], NULL);
  }
  g->ratio[what][round] = cost[1] / cost[0];
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* 1: slower. */
static int judge(const char *name, double *ratio, int n) {
  qsort(ratio, (size_t)n, sizeof(*ratio), by_size);
  double median = (ratio[(n - 1) / 2] + ratio[n / 2]) / 2;
  double spread = (ratio[n - 1] - ratio[0]) / 2;
  const char *verdict = median < 1 - spread   ? "SLOWER"
                        : median > 1 + spread ? "faster"
                                              : "the same";
  printf("   %-28s %.3f, spread %.3f: %s\n", name, median, spread, verdict);
  return median < 1 - spread;
}

static void begin(struct guard *g) {
  const char *extension[SIDES] = {g->options->extension, g->options->base};
  worker_clean(g->options->data);
  for (int i = 0; i < SIDES; i++) {
    struct guard_side *side = &g->side[i];
    side->extension = extension[i];
    side->keys = g->options->keys;
    snprintf(side->directory, sizeof(side->directory), "%s/%s",
             g->options->data, sides[i]);
    make_directory(side->directory);
    worker_start(&g->worker[i], guard_live, side);
  }
}

void bench_guard(const struct options *given) {
  struct options options = *given;
  struct guard *g = need(1, sizeof(*g));
  struct figure *figure;
  int slower = 0;
  if (!options.base) {
    die("--base=FILE says what to compare with");
  }
  options.keys = options.keys ? options.keys : options.quick ? 100000 : 1000000;
  options.seconds = options.seconds > 0 ? options.seconds
                    : options.quick     ? 0.2
                                        : 1;
  options.rounds = options.rounds < 64 ? options.rounds : 64;
  g->options = &options;
  begin(g);
  figure = figure_new(&options, "guard", "this build against another");
  for (int what = 0; what < GUARD_FIGURES; what++) {
    struct group *group =
        figure_group(figure, guard_names[what], guard_units[what], NAN);
    for (int round = 0; round < options.rounds; round++) {
      measure_round(g, group, what, round);
    }
    group_ratio(group, sides[0], sides[1], AT_LEAST, 0);
  }
  for (int i = 0; i < SIDES; i++) {
    worker_end(&g->worker[i]);
  }
  figure_done(figure);
  printf("\n   speed of this build, as a multiple of the other's\n");
  for (int what = 0; what < GUARD_FIGURES; what++) {
    slower |= judge(guard_names[what], g->ratio[what], options.rounds);
  }
  free(g);
  if (slower) {
    fflush(stdout);
    exit(1);
  }
}
