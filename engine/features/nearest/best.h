/* SPDX-License-Identifier: MIT
**
** best.h -- the k nearest rows of each of several queries, while they are
** being found.
**
** A heap for each query, the farthest of the k on top; at the end sorted, the
** nearest first, and of the same distance the lower key first.
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

struct best {
  struct env *env;
  size_t n, k;
  struct best_row *rows; /* k of each query */
  size_t *counts;
  double most; /* nothing beyond is taken */
};

/* EMB_NOMEM, and nothing is there. */
int best__init(struct best *best, struct env *env, size_t n, size_t k,
               double most);
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
/* As it was at first. */
void best__empty(struct best *best);
/* Takes a row if it is one of the k nearest so far. */
void best__offer(struct best *best, size_t query, int64_t key, double distance);
int best__has(const struct best *best, size_t query, int64_t key);
/* All of `from` to `to`; no key is in both.  EMB_INTERRUPT, as below. */
int best__merge(struct best *to, const struct best *from, emb_session *s);
/* Sorts, and writes what emb_nearest returns. */
int best__deliver(struct best *best, const emb_neighbours *to, emb_session *s);

#endif
