/* SPDX-License-Identifier: MIT
**
** pool.h -- pooled lookups in the table of words (emb_bag): the sum of the
** vectors of an entry's words, divided by the root of their number; and the
** gradient's way back (emb_bag_apply), which the table's optimizer applies.
*/
#ifndef CHANGELOGS_POOL_H
#define CHANGELOGS_POOL_H

#include "words.h"

struct pool {
  size_t width;
  sqlite3_stmt *get, *apply;
  /* Of the bags of a batch, one behind the other: */
  int64_t *key;
  size_t keys, room;
  int64_t *first; /* where each begins in them */
  size_t bags, bags_room;
};

/* The table is called word, and has vectors of this width. */
void pool_open(struct pool *pool, sqlite3 *db, size_t width);
void pool_close(struct pool *pool);

/* y: count * width floats, of these entries; one without words gives zeros. */
void pool_forward(struct pool *pool, const struct words *words,
                  const uint32_t *which, size_t count, float *y);

/* The gradient of the last pass's y to its words, and a step. */
void pool_backward(struct pool *pool, const float *y_gradient);

#endif
