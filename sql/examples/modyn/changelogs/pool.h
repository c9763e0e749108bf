/* SPDX-License-Identifier: MIT
**
** pool.h -- pooled lookups in the table of words (emb_bag): the sum of the
** vectors of an entry's words, divided by the square root of their number.
** In the backward pass, the table's optimizer applies the gradient
** (emb_bag_apply).
*/
#ifndef CHANGELOGS_POOL_H
#define CHANGELOGS_POOL_H

#include "words.h"

struct pool {
  size_t width;
  sqlite3_stmt *get, *apply;
  /* The concatenated bags of a batch: */
  int64_t *key;
  size_t keys, room;
  int64_t *first; /* where each bag begins */
  size_t bags, bags_room;
};

/* The table `word` has vectors of this width. */
void pool_open(struct pool *pool, sqlite3 *db, size_t width);
void pool_close(struct pool *pool);

/* y: count * width floats, of these entries; zeros for one without words. */
void pool_forward(struct pool *pool, const struct words *words,
                  const uint32_t *which, size_t count, float *y);

/* Passes the gradient of the last y back to its words, with a step. */
void pool_backward(struct pool *pool, const float *y_gradient);

#endif
