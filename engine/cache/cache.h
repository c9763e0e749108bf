/* SPDX-License-Identifier: MIT
**
** cache.h -- memory for hot records that were read from disk.
**
** Slots of log address + record, in frames of the common pool.  A page cache
** holds one hot record and 14 cold ones per page; this holds records.  All
** cached records are clean copies of the log, so dropping one writes nothing.
** Which record stays is decided with the frequency bits of the index word;
** that, and every change of a word, is core/admit.c.  Here is only the memory.
**
**   slot   00-07  log address of the record; 0: the slot is free
**          08-..  record (rec/rec.h)
**
** An address of the cache is (frame + 1) << 16 | slot.
**
** INVARIANT C1  While a word points at a slot, its log_address is not 0 and
**               is where the same record stands in the log.
** THREADS   cache_next, cache_add_frame and cache_take_frame: under `lock`.
**           cache_release: the holder of the key's latch.
*/
#ifndef EMB_CACHE_H
#define EMB_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../env/env.h"
#include "../rec/rec.h"

struct cache_slot {
  /* Set under lock before the slot is published, cleared by whoever takes the
  ** word away from it; acquire and release. */
  _Atomic uint64_t log_address;
  struct rec rec;
};

struct cache {
  struct env *env;
  pthread_mutex_t lock;
  const struct layout *layout;
  uint32_t slot_bytes;
  uint32_t slots_per_frame;
  uint32_t frames_max;
  /* Frames by number, NULL where none; stored release under lock. */
  _Atomic(char *) *frames;
  /* Relaxed figures. */
  _Atomic uint32_t frame_count;
  _Atomic uint64_t used;
  uint32_t closing;    /* lock: number + 1 of a frame that takes no more */
  uint32_t hand_frame; /* lock */
  uint32_t hand_slot;  /* lock */
};

int cache_init(struct cache *cache, struct env *env,
               const struct layout *layout, uint32_t frames_max);
void cache_free(struct cache *cache);

static inline struct cache_slot *cache_at(const struct cache *cache,
                                          uint64_t address) {
  char *frame = atomic_load_explicit(&cache->frames[(address >> 16) - 1],
                                     memory_order_acquire);
  return (struct cache_slot *)(void *)(frame + (address & 0xffff) *
                                                   (uint64_t)cache->slot_bytes);
}

/* Moves the hand one slot on; its address, or 0 when there is no frame. */
uint64_t cache_next(struct cache *cache);
int cache_add_frame(struct cache *cache, char *frame);
/* The frame that will leave next: its number + 1, or 0. */
uint32_t cache_victim(struct cache *cache);
/* From now on cache_next passes it over; the caller empties its slots. */
void cache_close_frame(struct cache *cache, uint32_t frame);
/* Unlinks it; its slots are empty, and no session has a word any more that
** points there: the caller has called epoch_wait. */
char *cache_take_frame(struct cache *cache, uint32_t frame);

/* Gives all frames to give(arg, frame); the caller is alone. */
void cache_reset(struct cache *cache, void (*give)(void *, char *), void *arg);

static inline void cache_release(struct cache *cache, uint64_t address) {
  atomic_store_explicit(&cache_at(cache, address)->log_address, 0,
                        memory_order_release);
  atomic_fetch_sub_explicit(&cache->used, 1, memory_order_relaxed);
}

#endif
