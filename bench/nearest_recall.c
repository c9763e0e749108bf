/* SPDX-License-Identifier: MIT
**
** nearest_recall.c -- indexes as they are without tuning, on vectors of several
** kinds: what share of the ten nearest of 256 queries, which are not rows, each
** finds, and how many queries it answers in a second.
**
** emb is asked for a recall (0.95, its default, and 0.99).  The others have no
** such option, and get what their manuals recommend or do by default: FAISS
** IVF-flat a twentieth of its lists, FAISS HNSW efSearch 64, sqlite-vec its own
** rescore and DiskANN.  Building a graph takes minutes, so the graphs are
** compared only on some of the sets.
**
** One thread, one query per call: for several at once emb compares all rows
** earlier.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"

enum { SEARCH_WIDTH = 64 };
/* No graph of more rows is built, except for these vectors. */
static const size_t GRAPH_ROWS = 20000;
static const char *const graphs_of[] = {"normal, 64 dimensions",
                                        "clustered, 64 dimensions"};

static int is_for_graphs(const struct hunt *hunt) {
  int is_one = 0;
  for (size_t i = 0; i < sizeof(graphs_of) / sizeof(graphs_of[0]); i++) {
    is_one |= !strcmp(hunt->what, graphs_of[i]);
  }
  return is_one || hunt->points.n <= GRAPH_ROWS;
}

static int effort_of(const struct hunt *hunt, const struct finder_kind *kind) {
  size_t lists = hunt->lists / 20;
  return kind == &finder_faiss_ivf    ? (int)(lists + !lists)
         : kind == &finder_faiss_hnsw ? SEARCH_WIDTH
                                      : 0;
}

void hunt_promises(struct hunt *hunt) {
  const struct finder_kind *const kinds[] = {
      &finder_emb_95,      &finder_emb_99,   &finder_faiss_ivf,
      &finder_faiss_hnsw,  &finder_vec_bits, &finder_vec_int8,
      &finder_vec_diskann,
  };
  struct group *recall = figure_group(
      hunt->figure, path("found, %s", hunt->what), "of the ten nearest", NAN);
  struct group *rate = figure_group(
      hunt->figure, path("promised, %s", hunt->what), "queries/s", NAN);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    int is_graph =
        kinds[i] == &finder_faiss_hnsw || kinds[i] == &finder_vec_diskann;
    struct hunter hunter;
    if ((is_graph && !is_for_graphs(hunt)) ||
        !hunter_open(hunt, kinds[i], &hunter)) {
      continue;
    }
    int effort = effort_of(hunt, kinds[i]);
    group_add(recall, kinds[i]->name, 0, hunt_recall(hunt, &hunter, 1, effort),
              NULL);
    for (int round = 0; round < hunt->options->rounds; round++) {
      settle();
      struct turn turn = hunt_turn(hunt, &hunter, 1, 1, effort);
      group_add(rate, kinds[i]->name, round, turn.rate, &turn.usage);
    }
    hunter_close(&hunter);
  }
  group_bound(recall, finder_emb_95.name, AT_LEAST, 0.95);
  group_bound(recall, finder_emb_99.name, AT_LEAST, 0.99);
}
