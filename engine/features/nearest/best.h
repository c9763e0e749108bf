/* SPDX-License-Identifier: MIT
**
** best.h -- the k nearest rows of each of several queries, while they are
** being found.
**
** A heap for each query, the farthest of the k on top; at the end sorted, the
** nearest first, and of the same distance the lower key first.
**
** RECORDS   If they are wanted, a row that is taken gets a slot, the one of the
**           row that it displaces, and its taker copies there the very record
**           whose distance it is.  Only slot numbers move in a heap.
**
** INVARIANT B1  A key is in a heap once.  The caller offers a key twice only
**               after best__has has said that it is not there.
** THREADS   None: each thread has its own, and best__merge joins them.
*/
#ifndef EMB_NEAREST_BEST_H
#define EMB_NEAREST_BEST_H

#include "engine/emb.h"
#include "engine/base/env/env.h"
#include "engine/table/session/session.h"

struct best_row {
  double distance;
  int64_t key;
};

/* What is wanted. */
struct best_form {
  size_t n, k;
  double most;  /* nothing beyond is taken */
  uint32_t dim; /* elements of a whole row; 0: vectors are not kept */
  int versions; /* are they kept? */
};

struct best {
  struct env *env;
  size_t n, k;
  struct best_row *rows; /* k of each query */
  size_t *counts;
  double most;
  uint32_t dim;
  /* NULL where no records are wanted, and each where it is not. */
  uint32_t *slots; /* of rows[i], and what is there: */
  float *vectors;
  uint64_t *versions;
};

/* Of best__offer: not taken, or no records are wanted. */
#define BEST_NO_SLOT UINT32_MAX

/* EMB_NOMEM, and nothing is there. */
int best__init(struct best *best, struct env *env,
               const struct best_form *form);
void best__free(struct best *best);

/* What is farther than this is not taken.  What is exactly as far may be, for
** its key. */
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
/* As it was at first, but for what is taken at most. */
void best__empty(struct best *best, double most);
/* Takes a row if it is one of the k nearest so far.  Its slot is to be filled
** before anything else is done. */
uint32_t best__offer(struct best *best, size_t query, int64_t key,
                     double distance);
/* Fills a slot, unless it is none; row: all elements, if vectors are kept. */
void best__keep(struct best *best, uint32_t slot, const float *row,
                uint64_t version);
/* The room of a slot's row, or NULL: vectors are not kept. */
static inline float *best_room(const struct best *best, uint32_t slot) {
  return best->vectors ? best->vectors + (size_t)slot * best->dim : NULL;
}
int best__has(const struct best *best, size_t query, int64_t key);
/* All of `from`, which means nothing then, to `to`, of the same form; no key is
** in both.  EMB_INTERRUPT, as below. */
int best__merge(struct best *to, struct best *from, emb_session *s);
/* Sorts, and writes what emb_nearest returns. */
int best__deliver(struct best *best, const emb_neighbours *to, emb_session *s);

#endif
