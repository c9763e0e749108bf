/* SPDX-License-Identifier: MIT
**
** cache.c -- see cache.h.
*/
#include "cache.h"

#include <string.h>

#include "engine/emb.h"

int cache_init(struct cache *cache, struct env *env,
               const struct layout *layout, uint32_t frames_max) {
  memset(cache, 0, sizeof *cache);
  cache->env = env;
  cache->layout = layout;
  pthread_mutex_init(&cache->lock, NULL);
  cache->slot_bytes =
      (uint32_t)sizeof(struct cache_slot) - REC_HEAD_BYTES + layout->rec_bytes;
  cache->slots_per_frame = layout->extent_bytes / cache->slot_bytes;
  if (cache->slots_per_frame > 0xffff) {
    cache->slots_per_frame = 0xffff;
  }
  cache->frames_max = cache->slots_per_frame ? frames_max : 0;
  cache->frames = env->allocate(env, frames_max * sizeof *cache->frames);
  return cache->frames ? EMB_OK : EMB_NOMEM;
}

void cache_free(struct cache *cache) {
  if (cache->env) {
    cache->env->release(cache->env, (void *)cache->frames);
    pthread_mutex_destroy(&cache->lock);
    cache->env = NULL;
  }
}

int cache_extend(struct cache *cache, uint32_t frames_max) {
  if (!cache->frames_max || frames_max <= cache->frames_max) {
    return EMB_OK;
  }
  _Atomic(char *) *old = cache->frames;
  _Atomic(char *) *frames =
      cache->env->allocate(cache->env, frames_max * sizeof *frames);
  if (!frames) {
    return EMB_NOMEM;
  }
  pthread_mutex_lock(&cache->lock);
  for (uint32_t i = 0; i < cache->frames_max; i++) {
    atomic_store_explicit(&frames[i], atomic_load(&old[i]),
                          memory_order_relaxed);
  }
  cache->frames = frames;
  cache->frames_max = frames_max;
  pthread_mutex_unlock(&cache->lock);
  cache->env->release(cache->env, (void *)old);
  return EMB_OK;
}

uint64_t cache_next(struct cache *cache) {
  if (atomic_load_explicit(&cache->frame_count, memory_order_relaxed) ==
      (cache->closing != 0)) {
    return 0;
  }
  while (!atomic_load_explicit(&cache->frames[cache->hand_frame],
                               memory_order_relaxed) ||
         (cache->hand_frame + 1 == cache->closing &&
          !EMB_SEED(SEED_CLOSED_FRAME_FILLED)) ||
         cache->hand_slot >= cache->slots_per_frame) {
    cache->hand_slot = 0;
    cache->hand_frame = (cache->hand_frame + 1) % cache->frames_max;
  }
  uint64_t address = (uint64_t)(cache->hand_frame + 1) << 16 | cache->hand_slot;
  cache->hand_slot++;
  if (++cache->passed >= (uint64_t)atomic_load_explicit(&cache->frame_count,
                                                        memory_order_relaxed) *
                             cache->slots_per_frame) {
    cache->passed = 0;
    cache->round++;
  }
  return address;
}

int cache_add_frame(struct cache *cache, char *frame) {
  for (uint32_t i = 0; i < cache->frames_max; i++) {
    if (!atomic_load_explicit(&cache->frames[i], memory_order_relaxed)) {
      for (uint32_t s = 0; s < cache->slots_per_frame; s++) {
        struct cache_slot *slot =
            (struct cache_slot *)(void *)(frame +
                                          (size_t)s * cache->slot_bytes);
        atomic_store_explicit(&slot->log_address, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->rec.stamp, 0, memory_order_relaxed);
      }
      atomic_store_explicit(&cache->frames[i], frame, memory_order_release);
      atomic_fetch_add_explicit(&cache->frame_count, 1, memory_order_relaxed);
      /* New slots are free, so point the hand at them. */
      cache->hand_frame = i;
      cache->hand_slot = 0;
      emb_check_some(4, cache_valid(cache, 0));
      return 1;
    }
  }
  return 0;
}

uint32_t cache_victim(struct cache *cache) {
  for (uint32_t i = 0; i < cache->frames_max; i++) {
    uint32_t at = (cache->hand_frame + 1 + i) % cache->frames_max;
    if (atomic_load_explicit(&cache->frames[at], memory_order_relaxed)) {
      return at + 1;
    }
  }
  return 0;
}

void cache_close_frame(struct cache *cache, uint32_t frame) {
  cache->closing = frame;
}

char *cache_take_frame(struct cache *cache, uint32_t frame) {
  char *memory = atomic_exchange(&cache->frames[frame - 1], NULL);
  atomic_fetch_sub_explicit(&cache->frame_count, 1, memory_order_relaxed);
  if (cache->closing == frame) {
    cache->closing = 0;
  }
  emb_assert(memory);
  return memory;
}

void cache_reset(struct cache *cache, void (*give)(void *, char *), void *arg) {
  emb_check(cache_valid(cache, 1));
  for (uint32_t i = 0; i < cache->frames_max; i++) {
    if (atomic_load(&cache->frames[i])) {
      give(arg, cache_take_frame(cache, i + 1));
    }
  }
  atomic_store(&cache->used, 0);
  atomic_store(&cache->pinned, 0);
  cache->hand_frame = cache->hand_slot = 0;
}
