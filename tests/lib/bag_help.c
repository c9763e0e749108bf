/* SPDX-License-Identifier: MIT
**
** bag_help.c -- see bag_help.h.
*/
#include "bag_help.h"

#include <math.h>

void bag_any(struct bag_batch *batch, size_t n, uint64_t highest,
             size_t longest) {
  size_t at = 0, count = 0;
  batch->n = n;
  while (at < n && count < BAG_COUNT_MAX) {
    batch->offsets[count++] = (int64_t)at;
    at += test_random() % (longest + 1);
  }
  /* Empty bags at the end; without keys there may be no bag at all. */
  for (uint64_t more = test_random() % 3; more && count < BAG_COUNT_MAX; more--)
    batch->offsets[count++] = (int64_t)n;
  for (size_t i = 0; i < n; i++) {
    batch->keys[i] = (int64_t)(test_random() % (highest + 1));
    batch->weights[i] = (float)(test_random() % 2001) / 1000 - 1;
  }
  batch->bags =
      (emb_bags){.offsets = batch->offsets,
                 .count = count,
                 .mode = EMB_BAG_SUM + (int)(test_random() % 3),
                 .weights = test_random() % 2 ? batch->weights : NULL};
}

size_t bag_help_end(const struct bag_batch *batch, size_t bag) {
  return bag + 1 < batch->bags.count ? (size_t)batch->offsets[bag + 1]
                                     : batch->n;
}

double bag_help_by(const struct bag_batch *batch, size_t bag, size_t row) {
  double keys =
      (double)(bag_help_end(batch, bag) - (size_t)batch->offsets[bag]);
  double weight = batch->bags.weights ? (double)batch->weights[row] : 1;
  return batch->bags.mode == EMB_BAG_SUM    ? weight
         : batch->bags.mode == EMB_BAG_MEAN ? weight / keys
                                            : weight / sqrt(keys);
}

int bag_is(const struct bag_batch *batch, const float *pooled, uint32_t dim,
           bag_element *element) {
  for (size_t bag = 0; bag < batch->bags.count; bag++)
    for (uint32_t k = 0; k < dim; k++) {
      double x = 0, size = 0;
      size_t end = bag_help_end(batch, bag);
      for (size_t i = (size_t)batch->offsets[bag]; i < end; i++) {
        double part = bag_help_by(batch, bag, i) * element(batch->keys[i], k);
        x += part;
        size += fabs(part);
      }
      double got = (double)pooled[bag * dim + k];
      if (!(fabs(got - x) <= size * 1e-5))
        return test_check(0, __FILE__, __LINE__,
                          "bag %zu of %zu, element %u: %g, not %g", bag,
                          batch->bags.count, k, got, x);
    }
  return 1;
}
