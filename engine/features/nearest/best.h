/* SPDX-License-Identifier: MIT
**
** best.h -- the k nearest rows of each of several queries, during a search.
**
** One heap per query, the farthest of the k on top.  At the end it is sorted:
** nearest first and, for equal distances, lower key first.
**
** RECORDS   If records are wanted, a row that is taken gets a slot, reused from
**           the row it displaces, and the caller copies into it the very record
**           whose distance was computed.  Only slot numbers move in a heap.
**
** INVARIANT B1  A key is in a heap at most once.  The caller offers a key a
**               second time only after best__has has returned 0.
** THREADS   None: each thread has its own heaps, and best__merge joins them.
*/
#ifndef EMB_NEAREST_BEST_H
#define EMB_NEAREST_BEST_H

#include "engine/emb.h"
#include "engine/base/debug.h"
#include "engine/base/env/env.h"
#include "engine/table/session/session.h"

struct best_row {
  double distance;
  int64_t key;
};

/* What a search wants. */
struct best_form {
  size_t n, k;
  double most;  /* farther rows are not taken */
  uint32_t dim; /* elements of a whole row; 0: vectors are not kept */
  int versions; /* are versions kept? */
};

struct best {
  struct env *env;
  size_t n, k;
  struct best_row *rows; /* k of each query */
  size_t *counts;
  double most;
  uint32_t dim;
  /* Each is NULL if not wanted, and all are if no records are wanted. */
  uint32_t *slots; /* of rows[i] */
  float *vectors;  /* contents of the slots, like the versions */
  uint64_t *versions;
};

/* Returned by best__offer: not taken, or no records are wanted. */
#define BEST_NO_SLOT UINT32_MAX

/* On EMB_NOMEM nothing is left allocated. */
int best__init(struct best *best, struct env *env,
               const struct best_form *form);
void best__free(struct best *best);
/* Is the heap of this query in order, are all?  Only in self-checking builds.
 */
int best_heap_valid(const struct best *best, size_t query);
int best_valid(const struct best *best);

/* A row farther than this is not taken.  A row at exactly this distance may be,
** depending on its key. */
static inline double best_limit(const struct best *best, size_t query) {
  return best->counts[query] < best->k ? best->most
                                       : best->rows[query * best->k].distance;
}
/* Would best__offer take it? */
static inline int best_takes(const struct best *best, size_t query, int64_t key,
                             double distance) {
  const struct best_row *farthest = &best->rows[query * best->k];
  return best->counts[query] < best->k
             ? distance <= best->most
             : distance < farthest->distance ||
                   (distance == farthest->distance && key < farthest->key);
}
/* Empties the heaps and sets a new maximum distance. */
void best__empty(struct best *best, double most);
/* Takes a row if it is one of the k nearest so far.  Its slot must be filled
** before any other call. */
uint32_t best__offer(struct best *best, size_t query, int64_t key,
                     double distance);
/* Fills a slot, unless it is BEST_NO_SLOT. row: all elements, if vectors are
** kept. */
void best__keep(struct best *best, uint32_t slot, const float *row,
                uint64_t version);
/* The vector of a slot, or NULL if vectors are not kept. */
static inline float *best_room(const struct best *best, uint32_t slot) {
  return best->vectors ? best->vectors + (size_t)slot * best->dim : NULL;
}
int best__has(const struct best *best, size_t query, int64_t key);
/* Moves all rows of `from` to `to`, which has the same form; `from` is
** undefined afterwards.  No key may be in both.  EMB_INTERRUPT as in
** best__deliver. */
int best__merge(struct best *to, struct best *from, emb_session *s);
/* Sorts the heaps and writes the results of emb_nearest.  EMB_INTERRUPT. */
int best__deliver(struct best *best, const emb_neighbours *to, emb_session *s);

#endif
