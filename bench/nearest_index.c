/* SPDX-License-Identifier: MIT
**
** nearest_index.c -- with an index, everything in memory: recall against
** queries per second for each effort (lists to probe, search width in a graph)
** of each index; from that the queries per second at a recall of 0.95; and the
** memory of each index.
**
** One thread with one query per call, two threads with 64.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

enum { EFFORTS = 9, EACH = 64, INDEXES = 3 };
static const double WANTED = 0.95;
#define GRAPH_FLOATS_MAX ((size_t)64 * 1000000)

struct sweep {
  struct hunter hunter;
  int count, efforts[EFFORTS];
  double recall[EFFORTS];
};

static const struct finder_kind *const kinds[] = {
    &finder_emb_index,
    &finder_faiss_ivf,
    &finder_faiss_hnsw,
};

static int is_graph(const struct finder_kind *kind) {
  return !strcmp(kind->effort, "efSearch");
}

/* Doubles the effort until almost nothing is missed, or half of all lists are
** probed. */
static void find_efforts(const struct hunt *hunt, struct sweep *sweep) {
  int graph = is_graph(sweep->hunter.kind), effort = graph ? 16 : 1;
  int most = graph ? 1024 : (int)hunt->lists / 2;
  for (; sweep->count < EFFORTS && effort <= most; effort *= 2) {
    int i = sweep->count++;
    sweep->efforts[i] = effort;
    sweep->recall[i] = hunt_recall(hunt, &sweep->hunter, ASKED, effort);
    if (sweep->recall[i] > 0.995) {
      break;
    }
  }
}

/* The rate at a recall of 0.95, from the line through the points of a sweep,
** linear in the recall and in the logarithm of the rate; NAN: the sweep does
** not reach it. */
static double rate_at(const struct sweep *sweep, const double *rates) {
  for (int i = 0; i < sweep->count; i++) {
    double high = sweep->recall[i], low = i ? sweep->recall[i - 1] : 0;
    if (high >= WANTED) {
      double part = i && high > low ? (WANTED - low) / (high - low) : 1;
      return i ? exp((1 - part) * log(rates[i - 1]) + part * log(rates[i]))
               : rates[0];
    }
  }
  return NAN;
}

static void one_round(const struct hunt *hunt, const struct sweep *sweep,
                      struct group *const *groups, struct group *at,
                      int threads, int round) {
  const char *name = sweep->hunter.kind->name;
  double rates[EFFORTS];
  for (int i = 0; i < sweep->count; i++) {
    struct turn turn = hunt_turn(hunt, &sweep->hunter, threads == 1 ? 1 : EACH,
                                 threads, sweep->efforts[i]);
    rates[i] = turn.rate;
    group_add(groups[i], name, round, turn.rate, &turn.usage);
  }
  group_add(at, name, round, rate_at(sweep, rates), NULL);
}

static void compare_all(const struct hunt *hunt, struct sweep *sweeps,
                        int count, int threads) {
  struct group *groups[INDEXES][EFFORTS];
  char what[64];
  snprintf(what, sizeof(what), "indexed, %s, %s", hunt->what,
           hunt_threads(threads));
  struct group *at = figure_group(hunt->figure, path("%s, recall 0.95", what),
                                  "queries/s", NAN);
  for (int i = 0; i < count; i++) {
    for (int j = 0; j < sweeps[i].count; j++) {
      groups[i][j] = figure_group(
          hunt->figure,
          path("%s, %s %d: recall %.3f", what, sweeps[i].hunter.kind->effort,
               sweeps[i].efforts[j], sweeps[i].recall[j]),
          "queries/s", sweeps[i].recall[j]);
    }
  }
  for (int round = 0; round < hunt->options->rounds; round++) {
    for (int i = 0; i < count; i++) {
      int turn = (i + round) % count;
      settle();
      one_round(hunt, &sweeps[turn], groups[turn], at, threads, round);
    }
  }
  group_ratio(at, "emb index", "FAISS IVF-flat", AT_LEAST, 1.5);
  group_ratio(at, "emb index", "FAISS HNSW", AT_LEAST, 1);
  group_ratio(at, "FAISS IVF-flat", "FAISS HNSW", AT_LEAST, 0);
}

static void compare_memory(const struct hunt *hunt, const struct sweep *sweeps,
                           int count) {
  struct group *group =
      figure_group(hunt->figure, path("memory of the index, %s", hunt->what),
                   "bytes a vector", NAN);
  for (int i = 0; i < count; i++) {
    const struct hunter *hunter = &sweeps[i].hunter;
    group_add(group, hunter->kind->name, 0,
              (double)hunter->kind->index_bytes(hunter->finder) /
                  (double)hunt->points.n,
              NULL);
  }
  group_ratio(group, "emb index", "FAISS HNSW", AT_MOST, 1.0 / 3);
  group_ratio(group, "emb index", "FAISS IVF-flat", AT_MOST, 0);
}

void hunt_indexed(struct hunt *hunt) {
  struct sweep sweeps[INDEXES] = {0};
  int count = 0;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (kinds[i] && is_graph(kinds[i]) &&
        hunt->points.n * hunt->points.dim > GRAPH_FLOATS_MAX) {
      figure_note(hunt->figure,
                  "%s: %s would take many minutes to build, and is left out",
                  hunt->what, kinds[i]->name);
    } else if (hunter_open(hunt, kinds[i], &sweeps[count].hunter)) {
      find_efforts(hunt, &sweeps[count++]);
    }
  }
  if (count) {
    for (int threads = 1; threads <= processors() && threads <= 2; threads++) {
      compare_all(hunt, sweeps, count, threads);
    }
    compare_memory(hunt, sweeps, count);
  }
  for (int i = 0; i < count; i++) {
    hunter_close(&sweeps[i].hunter);
  }
}
