/* SPDX-License-Identifier: MIT
**
** cache.h -- memory for hot records that were read from disk.
**
** Slots of log address + record, in frames of the common pool.  A page cache
** would hold one hot record and 14 cold ones per page; this holds records.
** All cached records are clean copies of the log, so dropping one writes
** nothing.  kernel/promote.c decides, from the frequency bits of the index
** word, which record stays, and makes every change of a word.  This file
** manages only the memory.
**
**   slot   00-07  bits 0-46   log address of the record; 0: the slot is free
**                 bits 47-62  pin: the second (modulo 65535, plus 1) in which a
**                             look-ahead put the record here or found it; 0:
**                             read since then, or not wanted by a look-ahead
**          08-..  record (rec/rec.h)
**
** A pinned record stays until it is read, but no longer than CACHE_PIN_SECONDS.
**
** A cache address is (frame + 1) << 16 | slot.
**
** INVARIANT C1  While a word points at a slot, the slot's log_address is not 0
**               and is the address of the same record in the log.
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
  /* Set under lock before the slot is published; cleared by the thread that
  ** redirects the word away from the slot; acquire and release. */
  _Atomic uint64_t log_address;
  struct rec rec;
};

struct cache {
  struct env *env;
  pthread_mutex_t lock;
  const struct layout *layout;
  uint32_t slot_bytes;
  uint32_t slots_per_frame;
  _Atomic uint32_t frames_max; /* written along with the array below */
  /* Frames by number, NULL where there is none; release stores under lock.  The
  ** array is replaced by a longer one only while the epoch is closed. */
  _Atomic(char *) *frames;
  /* Counts, relaxed. */
  _Atomic uint32_t frame_count;
  _Atomic uint64_t used;
  _Atomic uint64_t pinned;
  uint32_t closing;    /* lock: number + 1 of the frame closed to new records */
  uint32_t hand_frame; /* lock */
  uint32_t hand_slot;  /* lock */
  uint64_t passed;     /* lock: slots the hand has passed in this round */
  uint64_t round;      /* lock: rounds the hand has completed */
};

int cache_init(struct cache *cache, struct env *env,
               const struct layout *layout, uint32_t frames_max);
void cache_free(struct cache *cache);
/* Raises the maximum number of frames to frames_max; it never shrinks.  No
** session may be inside the epoch or enter it.  On EMB_NOMEM nothing has
** changed. */
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

/* Moves the hand one slot on and returns the address it passed, or 0 if there
** is no frame. */
uint64_t cache_next(struct cache *cache);
int cache_add_frame(struct cache *cache, char *frame);
/* Returns number + 1 of the frame to give up next, or 0. */
uint32_t cache_victim(struct cache *cache);
/* Makes cache_next skip the frame; the caller empties its slots. */
void cache_close_frame(struct cache *cache, uint32_t frame);
/* Unlinks the frame.  Its slots must be empty, and no session may still have a
** word that points there: the caller has called epoch_wait. */
char *cache_take_frame(struct cache *cache, uint32_t frame);

/* Passes all frames to give(arg, frame); the caller is alone. */
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
/* Clears the pin: the record was read. */
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
/* Pins a record that a look-ahead found in its slot. */
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
  /* Each slot taken is released once. */
  emb_assert(old != 0 && atomic_load(&cache->used) > 0);
  if (old > CACHE_ADDRESS_MASK) {
    atomic_fetch_sub_explicit(&cache->pinned, 1, memory_order_relaxed);
  }
  atomic_fetch_sub_explicit(&cache->used, 1, memory_order_relaxed);
}

/* cache_valid.c, for assertions, under lock; alone: the cache is not in use. */
int cache_valid(const struct cache *cache, int alone);
/* Are all slots of the frame (number + 1) free? */
int cache_frame_empty(const struct cache *cache, uint32_t frame);

#endif
