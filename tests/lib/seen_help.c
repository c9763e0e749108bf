/* SPDX-License-Identifier: MIT
**
** seen_help.c -- how often a key was counted: see seen_help.h.
*/
#include "seen_help.h"

uint64_t seen_times(emb_store *store, int64_t key) {
  uint64_t pairs[2 * 64], times = 0, hash = hash_key(key);
  uint32_t n;
  for (size_t at = 0;
       (n = admission_save(&store->core.admission, at, 64, pairs)); at += n)
    for (uint32_t i = 0; i < n; i++)
      times += pairs[i * 2] == hash ? pairs[i * 2 + 1] : 0;
  return times;
}
