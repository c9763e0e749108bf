/* SPDX-License-Identifier: MIT
**
** memory_valid.c -- checks what a change of the memory budget leaves behind.
** Only in self-checking builds (base/debug.h).
*/
#include "advice.h"

#if EMB_DEBUG > 0

int memory_valid(emb_store *store) {
  const struct core *core = &store->core;
  const struct cache *cache = &core->cache;
  uint32_t frames = frames_count(&core->frames);
  emb_assert(debug_is_locked(&store->budget_lock));
  emb_assert(!cache->slots_per_frame || cache->frames_max >= frames);
  return 1;
}

#endif
