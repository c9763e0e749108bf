/* SPDX-License-Identifier: MIT
**
** bag_help.h -- random batches of bags, and their sums as computed by a
** three-line loop.
*/
#ifndef EMB_BAG_HELP_H
#define EMB_BAG_HELP_H

#include "store_help.h"

enum { BAG_KEYS_MAX = 3000, BAG_COUNT_MAX = 3001 };

struct bag_batch {
  size_t n;
  int64_t keys[BAG_KEYS_MAX], offsets[BAG_COUNT_MAX];
  float weights[BAG_KEYS_MAX];
  emb_bags bags;
};

/* Up to n keys of 0 to highest in bags of 0 to `longest`, of any mode, with
** weights or without. */
void bag_any(struct bag_batch *batch, size_t n, uint64_t highest,
             size_t longest);
/* Where a bag ends. */
size_t bag_help_end(const struct bag_batch *batch, size_t bag);
/* The factor by which a row is multiplied for its bag. */
double bag_help_by(const struct bag_batch *batch, size_t bag, size_t row);

/* Element k of a key's row. */
typedef double bag_element(int64_t key, uint32_t k);
/* Returns 0 when something differs by more than float32's error. */
int bag_is(const struct bag_batch *batch, const float *pooled, uint32_t dim,
           bag_element *element);

#endif
