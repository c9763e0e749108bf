/* SPDX-License-Identifier: MIT
**
** cache.h -- memory for hot records that were read from disk.
**
** Slots of log address + record, in frames of the common pool.  A page cache
** holds one hot record and 14 cold ones per page; this holds records.  All
** cached records are clean copies of the log, so dropping one writes nothing.
** Which record stays is decided with the frequency bits of the index word;
** that, and every change of a word, is kernel/promote.c.  Here is only the
** memory.
**
**   slot   00-07  bits 0-46   log address of the record; 0: the slot is free
**                 bits 47-62  pin: the second (modulo 65535, plus 1) in which a
**                             look-ahead put the record here or found it; 0:
**                             it was read since, or no look-ahead asked for it
**          08-..  record (rec/rec.h)
**
** A pinned record stays until it is read, but no longer than CACHE_PIN_SECONDS.
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

#include "engine/base/debug.h"
#include "engine/base/env/env.h"
#include "engine/storage/rec/rec.h"

#define CACHE_PIN_SECONDS 60
#define CACHE_PIN_SHIFT 47
#define CACHE_ADDRESS_MASK ((UINT64_C(1) << CACHE_PIN_SHIFT) - 1)

struct cache_slot {
  /* Set under lock before the slot is published, cleared by the thread that
  ** takes the word away from it; acquire and release. */
  _Atomic uint64_t log_address;
  struct rec rec;
};

struct cache {
  struct env *env;
  pthread_mutex_t lock;
  const struct layout *layout;
  uint32_t slot_bytes;
  uint32_t slots_per_frame;
  _Atomic uint32_t frames_max; /* written as the array below */
  /* Frames by number, NULL where none; stored release under lock.  The array is
  ** replaced by a longer one only while the epoch is closed. */
  _Atomic(char *) *frames;
  /* Counts, relaxed. */
  _Atomic uint32_t frame_count;
  _Atomic uint64_t used;
  _Atomic uint64_t pinned;
  uint32_t closing;    /* lock: number + 1 of a frame that takes no more */
  uint32_t hand_frame; /* lock */
  uint32_t hand_slot;  /* lock */
  uint64_t passed;     /* lock: slots the hand has passed in this round */
  uint64_t round;      /* lock: times it has passed them all */
};

int cache_init(struct cache *cache, struct env *env,
               const struct layout *layout, uint32_t frames_max);
void cache_free(struct cache *cache);
/* From now on there may be so many frames; never fewer than before.  No session
** is inside the epoch or enters it.  EMB_NOMEM: nothing has changed. */
int cache_extend(struct cache *cache, uint32_t frames_max);

static inline struct cache_slot *cache_at(const struct cache *cache,
                                          uint64_t address) {
  emb_assert(address >> 16 && address >> 16 <= cache->frames_max &&
             (address & 0xffff) < cache->slots_per_frame);
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

static inline uint64_t cache_log_address(const struct cache_slot *slot) {
  return atomic_load_explicit(&slot->log_address, memory_order_acquire) &
         CACHE_ADDRESS_MASK;
}
static inline uint64_t cache_pin_now(struct env *env) {
  return (env->now_us(env) / 1000000 % 65535 + 1) << CACHE_PIN_SHIFT;
}
/* Is the slot's record kept for a look-ahead? */
static inline int cache_pinned(struct env *env, uint64_t log_address) {
  if (log_address <= CACHE_ADDRESS_MASK) {
    return 0;
  }
  uint64_t now = cache_pin_now(env) >> CACHE_PIN_SHIFT;
  uint64_t then = log_address >> CACHE_PIN_SHIFT;
  return (now + 65535 - then) % 65535 <= CACHE_PIN_SECONDS;
}
/* The record was read. */
static inline void cache_unpin(struct cache *cache, struct cache_slot *slot) {
  if (atomic_load_explicit(&slot->log_address, memory_order_relaxed) >
      CACHE_ADDRESS_MASK) {
    uint64_t old = atomic_fetch_and_explicit(
        &slot->log_address, CACHE_ADDRESS_MASK, memory_order_acq_rel);
    if (old > CACHE_ADDRESS_MASK) {
      atomic_fetch_sub_explicit(&cache->pinned, 1, memory_order_relaxed);
    }
  }
}
/* A look-ahead found the record in its slot. */
static inline void cache_pin(struct cache *cache, struct cache_slot *slot) {
  uint64_t old = atomic_load_explicit(&slot->log_address, memory_order_relaxed);
  if (old && old <= CACHE_ADDRESS_MASK &&
      atomic_compare_exchange_strong_explicit(
          &slot->log_address, &old, old | cache_pin_now(cache->env),
          memory_order_acq_rel, memory_order_relaxed)) {
    atomic_fetch_add_explicit(&cache->pinned, 1, memory_order_relaxed);
  }
}

static inline void cache_release(struct cache *cache, uint64_t address) {
  uint64_t old = atomic_exchange_explicit(
      &cache_at(cache, address)->log_address, 0, memory_order_acq_rel);
  /* One release for each time that it was taken. */
  emb_assert(old != 0 && atomic_load(&cache->used) > 0);
  if (old > CACHE_ADDRESS_MASK) {
    atomic_fetch_sub_explicit(&cache->pinned, 1, memory_order_relaxed);
  }
  atomic_fetch_sub_explicit(&cache->used, 1, memory_order_relaxed);
}

/* cache_valid.c, for assertions: under lock; alone: the cache is not in use. */
int cache_valid(const struct cache *cache, int alone);
/* No slot of the frame (its number + 1) is taken. */
int cache_frame_empty(const struct cache *cache, uint32_t frame);

#endif
