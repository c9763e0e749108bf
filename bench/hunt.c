/* SPDX-License-Identifier: MIT
**
** hunt.c -- runs, times and judges nearest-neighbour searches for all parts of
** that benchmark; see hunt.h.
*/
#include "hunt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 1 << 16 };

const char *hunt_threads(int threads) {
  return path("%d thread%s", threads, threads == 1 ? "" : "s");
}

struct finder_options hunt_options(const struct hunt *hunt, const char *name) {
  struct finder_options options = {.points = &hunt->points,
                                   .extension = hunt->options->extension,
                                   .results = hunt->options->out,
                                   .lists = hunt->lists,
                                   .threads = processors()};
  snprintf(options.directory, sizeof(options.directory), "%s/%s",
           hunt->options->data, name);
  remove_tree(options.directory);
  make_directory(options.directory);
  return options;
}

int hunter_open(const struct hunt *hunt, const struct finder_kind *kind,
                struct hunter *to) {
  if (!kind) { /* no FAISS: bench_nearest has noted it */
    return 0;
  }
  struct finder_options options = hunt_options(hunt, kind->name);
  double start = now();
  void *finder = kind->open(&options);
  if (!finder) {
    figure_note(hunt->figure, "%s: not here, left out", kind->name);
    return 0;
  }
  *to = (struct hunter){kind, finder};
  settle();
  if (kind->index_bytes) {
    figure_note(hunt->figure,
                "%s, %s: filled and built in %.1f s, %s; %.1f MiB beside %.0f"
                " MiB of vectors",
                hunt->what, kind->name, now() - start,
                hunt_threads(processors()),
                (double)kind->index_bytes(finder) / 0x1p20,
                (double)(hunt->points.n * hunt->points.dim * 4) / 0x1p20);
  }
  return 1;
}

void hunter_close(const struct hunter *hunter) {
  hunter->kind->close(hunter->finder);
}

/* ---- turns --------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct turn hunt_turn(const struct hunt *hunt, const struct hunter *hunter,
                      size_t each, int threads, int effort) {
  static double times[CALLS_MAX];
  const struct points *points = &hunt->points;
  int64_t *keys = need(each * NEIGHBOURS, sizeof(*keys));
  double *distances = need(each * NEIGHBOURS, sizeof(*distances));
  struct question question = {
      .n = each, .k = NEIGHBOURS, .threads = threads, .effort = effort};
  size_t calls = 0, at = 0;
  double process = cpu_of_process(), machine = cpu_of_machine();
  double own = cpu_of_thread(), start = now(), before = start;
  while (calls < CALLS_MAX && (!calls || before - start < hunt->seconds)) {
    question.queries = points->queries + at * points->dim;
    hunter->kind->ask(hunter->finder, &question, keys, distances);
    at = at + 2 * each <= points->asked ? at + each : 0;
    double after = now();
    times[calls++] = after - before;
    before = after;
  }
  double took = before - start;
  process = cpu_of_process() - process;
  machine = cpu_of_machine() - machine;
  own = cpu_of_thread() - own;
  qsort(times, calls, sizeof(double), compare);
  free(keys);
  free(distances);
  return (struct turn){(double)(calls * each) / took,
                       calls * each,
                       {.cores = process / took,
                        .cores_engine = fmax(0, (process - own) / took),
                        .cores_others = fmax(0, (machine - process) / took),
                        .p50_us = times[calls / 2] * 1e6,
                        .p99_us = times[calls * 99 / 100] * 1e6}};
}

void hunt_compare(const struct hunt *hunt, struct group *group,
                  const struct hunter *hunters, int count, size_t each,
                  int threads) {
  for (int round = 0; round < hunt->options->rounds; round++) {
    for (int i = 0; i < count; i++) {
      const struct hunter *hunter = &hunters[(i + round) % count];
      settle();
      struct turn turn = hunt_turn(hunt, hunter, each, threads, 0);
      group_add(group, hunter->kind->name, round, turn.rate, &turn.usage);
    }
  }
}

/* ---- the right answer ---------------------------------------------------- */

const struct finder_kind *hunt_judge(void) {
  const struct finder_kind *flat = &finder_faiss_flat;
  return flat ? flat : &finder_emb;
}

void hunt_find_truth(struct hunt *hunt) {
  const struct finder_kind *judge = hunt_judge();
  struct finder_options options = hunt_options(hunt, "judge");
  struct question question = {.queries = hunt->points.queries,
                              .n = hunt->points.asked,
                              .k = NEIGHBOURS,
                              .threads = processors()};
  size_t all = hunt->points.asked * NEIGHBOURS;
  double *distances = need(all, sizeof(*distances));
  void *finder = judge->open(&options);
  hunt->truth = need(all, sizeof(*hunt->truth));
  judge->ask(finder, &question, hunt->truth, distances);
  judge->close(finder);
  free(distances);
}

void hunt_verify(const struct hunt *hunt, const struct hunter *hunter, size_t n,
                 size_t each) {
  const struct points *points = &hunt->points;
  int64_t *keys = need(n * NEIGHBOURS, sizeof(*keys));
  double *distances = need(n * NEIGHBOURS, sizeof(*distances));
  for (size_t at = 0; at < n; at += each) {
    struct question question = {.queries = points->queries + at * points->dim,
                                .n = each,
                                .k = NEIGHBOURS,
                                .threads = processors()};
    hunter->kind->ask(hunter->finder, &question, keys + at * NEIGHBOURS,
                      distances + at * NEIGHBOURS);
  }
  size_t farther =
      points_verify(points, points->queries, n, NEIGHBOURS, hunt->truth, keys,
                    distances, hunter->kind->name);
  figure_note(hunt->figure,
              "%s, %s: %zu queries, %zu a call, compared with %s: none of %zu"
              " neighbours is farther, %zu are nearer",
              hunt->what, hunter->kind->name, n, each, hunt_judge()->name,
              n * NEIGHBOURS, farther);
  free(keys);
  free(distances);
}

double hunt_recall(const struct hunt *hunt, const struct hunter *hunter,
                   size_t each, int effort) {
  const struct points *points = &hunt->points;
  size_t all = points->asked * NEIGHBOURS;
  int64_t *keys = need(all, sizeof(*keys));
  double *distances = need(all, sizeof(*distances));
  for (size_t at = 0; at < points->asked; at += each) {
    size_t left = points->asked - at;
    struct question question = {.queries = points->queries + at * points->dim,
                                .n = left < each ? left : each,
                                .k = NEIGHBOURS,
                                .threads = processors(),
                                .effort = effort};
    hunter->kind->ask(hunter->finder, &question, keys + at * NEIGHBOURS,
                      distances + at * NEIGHBOURS);
  }
  double recall = points_recall(points, points->queries, points->asked,
                                NEIGHBOURS, hunt->truth, keys);
  free(keys);
  free(distances);
  return recall;
}
