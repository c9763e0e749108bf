/* SPDX-License-Identifier: MIT
**
** bag_valid.c -- checks the list of the rows of each key (apply.c).  Only in
** self-checking builds (base/debug.h).
*/
#include "bag.h"

#if EMB_DEBUG > 0

/* The rows of a key follow each other in row order: so they are added up. */
static void check_bag_key(const struct bag_sums *sums, size_t k,
                          uint32_t from) {
  emb_assert(sums->times[k] > 0);
  emb_assert(sums->ends[k] == from + sums->times[k]);
  for (uint32_t i = from; i < sums->ends[k]; i++) {
    emb_assert(bag__number_of(sums, sums->rows[i]) == k);
    emb_assert(i == from || sums->rows[i - 1] < sums->rows[i]);
  }
}

int bag_sums_valid(const struct bag_sums *sums) {
  uint32_t from = 0;
  emb_assert(sums->distinct <= sums->n);
  for (size_t k = 0; k < sums->distinct; k++) {
    check_bag_key(sums, k, from);
    from = sums->ends[k];
  }
  emb_assert(from == sums->n); /* each row is listed */
  return 1;
}

#endif
