/* SPDX-License-Identifier: MIT
**
** cache_valid.c -- are the cache's frames, slots and counts as cache.h says?
** Only in builds with self-checks (base/debug.h).
*/
#include "cache.h"

#if EMB_DEBUG > 0

static uint64_t slots_taken(const struct cache *cache, uint32_t frame) {
  uint64_t taken = 0;
  for (uint32_t s = 0; s < cache->slots_per_frame; s++) {
    taken += cache_log_address(
                 cache_at(cache, (uint64_t)(frame + 1) << 16 | s)) != 0;
  }
  return taken;
}

int cache_frame_empty(const struct cache *cache, uint32_t frame) {
  return slots_taken(cache, frame - 1) == 0;
}

int cache_valid(const struct cache *cache, int alone) {
  uint64_t taken = 0;
  uint32_t frames = 0;
  emb_assert(cache->frames_max == 0 || cache->hand_frame < cache->frames_max);
  emb_assert(cache->hand_slot <= cache->slots_per_frame);
  emb_assert(cache->closing <= cache->frames_max);
  emb_assert(!cache->closing ||
             atomic_load(&cache->frames[cache->closing - 1]) != NULL);
  /* A slot being released stays counted a little longer than it is taken; slots
  ** are taken only under the lock. */
  uint64_t used = atomic_load(&cache->used);
  for (uint32_t i = 0; i < cache->frames_max; i++) {
    if (atomic_load(&cache->frames[i])) {
      taken += slots_taken(cache, i);
      frames++;
    }
  }
  emb_assert(frames == atomic_load(&cache->frame_count));
  emb_assert(alone ? taken == used : taken <= used);
  return 1;
}

#endif
