/* SPDX-License-Identifier: MIT
**
** stats.c -- the metrics of a store: those of each feature, in the order of
** store/features.def.
*/
#include "engine/table/store/metrics.h"
#include "engine/table/store/store.h"

size_t local_stats(emb_store *store, emb_stat *stats, size_t max) {
  struct metrics list = {stats, max, 0};
  if (store_check(store, NULL)) {
    return 0;
  }
  for (size_t i = EMB_SEED(SEED_FIRST_METRICS_MISSING); i < FEATURE_COUNT;
       i++) {
    if (store_features[i]->metrics) {
      store_features[i]->metrics(store, &list);
    }
  }
  return list.n < max || max == 0 ? list.n : max;
}
