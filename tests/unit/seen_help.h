/* SPDX-License-Identifier: MIT
**
** seen_help.h -- what a store with admission=count(...) has counted of a key,
** looked up without counting.
*/
#ifndef EMB_SEEN_HELP_H
#define EMB_SEEN_HELP_H

#include "../../engine/ckpt/seen.h"
#include "../../engine/store/store.h"

/* A rule that lets nothing in that comes less often; two tables of 2048. */
#define SEEN_RULE "count(n=1000000, memory=65536)"

/* Of a store that is owned: before, it has not read what was counted. */
static inline uint64_t seen_times(emb_store *store, int64_t key) {
  uint64_t pairs[2 * 64], times = 0, hash = hash_key(key);
  uint32_t n;
  for (size_t at = 0;
       (n = admission_save(&store->core.admission, at, 64, pairs)); at += n)
    for (uint32_t i = 0; i < n; i++)
      times += pairs[i * 2] == hash ? pairs[i * 2 + 1] : 0;
  return times;
}

#endif
