/* SPDX-License-Identifier: MIT
**
** nearest.c -- nearest neighbours: exact and with an index, in memory and on
** disk, on a static table and during training, against a bare read of the same
** bytes, FAISS and sqlite-vec.
**
** VECTORS   points.h: clustered vectors of 64 and of 256 elements, and those
**           that `make demo` has left in build/demo, if any.  The ten nearest
**           of each query, Euclidean distance.
** TURNS     One query per call and one thread, or many queries per call and the
**           stated number of threads.  FAISS and emb divide the work
**           themselves; no thread is bound to a processor.
** CHECKED   All of emb's exact answers to 256 queries, in one call and one by
**           one, are compared with those of FAISS flat: none of emb's
**           neighbours may be farther.  FAISS rounds, so its neighbours are
**           occasionally a little farther.
** RECALL    The share of the ten nearest by FAISS flat that was found.
**
** PROMISES  Vectors of other kinds, too: nearest_recall.c.
**
** --only=NAME selects a part: "exact", "indexed", "promises", "disk",
** "building", "training", "drift" or "columns".  Parts that need an index are
** left out if emb has none.
*/
#include "nearest.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "finder_emb.h"

/* 1 if this part of the benchmark is requested. */
static int hunt_wants(const struct options *options, const char *part) {
  return !options->only || strstr(part, options->only);
}

/* ---- sets of vectors ----------------------------------------------------- */

static void hunt_end(struct hunt *hunt) {
  free(hunt->truth);
  hunt->truth = NULL;
  points_free(&hunt->points);
}

/* Everything that is compared with other libraries. */
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

static const char *demo_entities(const struct hunt *hunt) {
  return path("%s/../demo/wordnet.db-emb/entities", hunt->options->out);
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
  const char *demo = demo_entities(hunt);
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

/* Vectors of several kinds, for which libraries differ in what they find. */
static void promise_all(struct hunt *hunt, size_t keys) {
  static const struct {
    const char *name;
    size_t dim;
    int how; /* enum points_spread; -1: clustered */
  } sets[] = {{"normal, 16 dimensions", 16, POINTS_NORMAL},
              {"normal, 64 dimensions", 64, POINTS_NORMAL},
              {"normal, 256 dimensions", 256, POINTS_NORMAL},
              {"sphere, 64 dimensions", 64, POINTS_SPHERE},
              {"heavy tails, 64 dimensions", 64, POINTS_HEAVY},
              {"clustered, 64 dimensions", 64, -1}};
  for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
    hunt->what = sets[i].name;
    if (sets[i].how < 0) {
      points_make(&hunt->points, keys, sets[i].dim, ASKED);
    } else {
      points_spread(&hunt->points, (enum points_spread)sets[i].how, keys,
                    sets[i].dim, ASKED);
    }
    hunt->lists = lists_of(hunt->points.n);
    hunt_find_truth(hunt);
    hunt_promises(hunt);
    hunt_end(hunt);
  }
  hunt->what = "WordNet";
  if (points_read(&hunt->points, demo_entities(hunt), ASKED)) {
    hunt->lists = lists_of(hunt->points.n);
    hunt_find_truth(hunt);
    hunt_promises(hunt);
    hunt_end(hunt);
  }
}

/* Everything the other libraries lack: one set of vectors is enough. */
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
  if (hunt_judge() == &finder_emb) {
    figure_note(hunt.figure, "FAISS: not here, left out; emb judges itself");
  }
  if (hunt_wants(options, "exact") || hunt_wants(options, "indexed")) {
    compare_sets(&hunt, keys);
  }
  if (hunt_wants(options, "promises")) {
    promise_all(&hunt, options->keys    ? options->keys
                       : options->quick ? 5000
                                        : 100000);
  }
  change_one(&hunt, options->quick && !options->keys ? 5 * keys : keys);
  figure_done(hunt.figure);
}
