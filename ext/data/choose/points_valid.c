/* SPDX-License-Identifier: MIT
**
** points_valid.c -- checks that the rows which an aggregate gathers are as
** choose.h says.  Only in self-checking builds (engine/base/debug.h).
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_points_valid(const struct ext_points *points) {
  emb_assert(points->n <= points->capacity);
  emb_assert(!points->capacity == !points->vectors);
  emb_assert(!points->capacity || points->dim > 0);
  return 1;
}

int ext_coreset_valid(const struct ext_coreset *coreset) {
  emb_assert(coreset->k > 0 && coreset->method);
  emb_assert(!coreset->failed);
  emb_assert(coreset->points.n <= coreset->capacity);
  emb_assert(!coreset->capacity == !coreset->keys);
  return ext_points_valid(&coreset->points);
}

#endif
