/* SPDX-License-Identifier: MIT
**
** nearest.c -- nearest neighbours: exact and with an index, in memory and on
** disk, while the table stands still and while it is trained, beside a bare
** read of the same bytes, FAISS and sqlite-vec.
**
** VECTORS   points.h: clustered ones of 64 and of 256 elements, and those that
**           `make demo` has left in build/demo, if it has.  The ten nearest of
**           each query, Euclidean distance.
** TURNS     One query a call and one thread, or many queries a call and all
**           threads that are said.  FAISS and emb divide the work themselves;
**           nobody is bound to a processor.
** CHECKED   All of emb's exact answers to 256 queries in one call, and one by
**           one, are compared with FAISS flat's: none of its neighbours may be
**           farther.  FAISS rounds, and is now and then a little farther.
** RECALL    Of the ten nearest that FAISS flat finds, how many were found.
**
** --only="exact", "indexed", "disk", "building", "training", "drift" or
** "columns" is a part.  What needs an index is left out where emb has none.
*/
#include "nearest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { CALLS_MAX = 1 << 16 };

int hunt_wants(const struct options *options, const char *part) {
  return !options->only || strstr(part, options->only);
}

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
  if (!kind) { /* FAISS: bench_nearest has said so */
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

static const struct finder_kind *judge_kind(void) {
  const struct finder_kind *flat = &finder_faiss_flat;
  return flat ? flat : &finder_emb;
}

void hunt_find_truth(struct hunt *hunt) {
  const struct finder_kind *judge = judge_kind();
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
              hunt->what, hunter->kind->name, n, each, judge_kind()->name,
              n * NEIGHBOURS, farther);
  free(keys);
  free(distances);
}

double hunt_recall(const struct hunt *hunt, const struct hunter *hunter,
                   int effort) {
  const struct points *points = &hunt->points;
  size_t all = points->asked * NEIGHBOURS;
  int64_t *keys = need(all, sizeof(*keys));
  double *distances = need(all, sizeof(*distances));
  struct question question = {.queries = points->queries,
                              .n = points->asked,
                              .k = NEIGHBOURS,
                              .threads = processors(),
                              .effort = effort};
  hunter->kind->ask(hunter->finder, &question, keys, distances);
  double recall = points_recall(points, points->queries, points->asked,
                                NEIGHBOURS, hunt->truth, keys);
  free(keys);
  free(distances);
  return recall;
}

/* ---- sets of vectors ----------------------------------------------------- */

static void hunt_end(struct hunt *hunt) {
  free(hunt->truth);
  hunt->truth = NULL;
  points_free(&hunt->points);
}

/* All that is compared with others. */
static void hunt_all(struct hunt *hunt) {
  const struct options *options = hunt->options;
  figure_note(hunt->figure, "%s: %zu vectors of %zu elements, %zu lists",
              hunt->what, hunt->points.n, hunt->points.dim, hunt->lists);
  hunt_find_truth(hunt);
  if (hunt_wants(options, "exact")) {
    hunt_exact(hunt);
  }
  if (hunt_wants(options, "indexed")) {
    hunt_indexed(hunt);
  }
}

static size_t lists_of(size_t n) {
  size_t lists = 64;
  while (lists < 1024 && lists * lists < n) {
    lists *= 2;
  }
  return lists;
}

static void compare_sets(struct hunt *hunt, size_t keys) {
  static const size_t dims[] = {64, 256};
  static const char *const names[] = {"64 dimensions", "256 dimensions"};
  for (int i = 0; i < 2; i++) {
    hunt->what = names[i];
    points_make(&hunt->points, keys, dims[i], ASKED);
    hunt->lists = lists_of(hunt->points.n);
    hunt_all(hunt);
    hunt_end(hunt);
  }
  const char *demo =
      path("%s/../demo/wordnet.db-emb/entities", hunt->options->out);
  hunt->what = "WordNet";
  if (points_read(&hunt->points, demo, ASKED)) {
    hunt->lists = lists_of(hunt->points.n);
    hunt_all(hunt);
    hunt_end(hunt);
  } else {
    figure_note(hunt->figure, "WordNet: `make demo` has left no vectors in %s",
                demo);
  }
}

/* What has no peer among those: one set is enough. */
static void change_one(struct hunt *hunt, size_t keys) {
  static const struct {
    const char *name;
    void (*run)(struct hunt *hunt);
    int needs_index;
  } parts[] = {{"disk", hunt_on_disk, 0},
               {"building", hunt_building, 1},
               {"training", hunt_training, 1},
               {"drift", hunt_drift, 1},
               {"columns", hunt_columns, 1}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    if (!hunt_wants(hunt->options, parts[i].name)) {
      continue;
    }
    if (parts[i].needs_index && !index_is_possible()) {
      figure_note(hunt->figure, "%s: emb has no index", parts[i].name);
      continue;
    }
    hunt->what = parts[i].name;
    points_make(&hunt->points, keys, 64, ASKED);
    hunt->lists = lists_of(keys);
    parts[i].run(hunt);
    hunt_end(hunt);
  }
}

void bench_nearest(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 20000
                                 : 1000000;
  struct hunt hunt = {.options = options,
                      .figure = figure_new(options, "nearest",
                                           "Nearest neighbours, exact and with"
                                           " an index"),
                      .seconds = options->seconds > 0 ? options->seconds
                                 : options->quick     ? 0.02
                                                      : 0.2};
  figure_axis(hunt.figure, "recall@10");
  if (judge_kind() == &finder_emb) {
    figure_note(hunt.figure, "FAISS: not here, left out; emb judges itself");
  }
  if (hunt_wants(options, "exact") || hunt_wants(options, "indexed")) {
    compare_sets(&hunt, keys);
  }
  change_one(&hunt, options->quick && !options->keys ? 5 * keys : keys);
  figure_done(hunt.figure);
}
