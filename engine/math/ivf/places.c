/* SPDX-License-Identifier: MIT
**
** places.c -- see places.h.
*/
#include "places.h"

#include <string.h>

#define PLACES_SMALLEST 16

static struct places_part *part_of(struct places *places, uint64_t hash) {
  return &places->parts[hash >> 56];
}

static uint32_t first_slot(uint64_t hash, uint32_t size) {
  return (uint32_t)((hash << 8 >> 32) * size >> 32);
}

static uint32_t slot_at(const struct places_part *part, uint32_t slot) {
  return atomic_load_explicit(&part->slots[slot], memory_order_relaxed);
}

static void set_slot(_Atomic(uint32_t) *slots, uint32_t slot, uint32_t value) {
  atomic_store_explicit(&slots[slot], value, memory_order_relaxed);
}

void ivf__places_init(struct places *places, struct env *env) {
  memset(places, 0, sizeof *places);
  places->env = env;
}

void ivf__places_free(struct places *places) {
  for (uint32_t i = 0; i < PLACES_PARTS; i++) {
    places->env->release(places->env, places->parts[i].slots);
    places->parts[i].slots = NULL;
  }
}

/* The slot of a key; UINT32_MAX: none.  Under the lock. */
static uint32_t find_slot(const struct places *places,
                          const struct places_part *part, int64_t key,
                          uint64_t hash) {
  if (!part->size) {
    return UINT32_MAX;
  }
  uint32_t slot = first_slot(hash, part->size), value;
  while ((value = slot_at(part, slot)) != 0) {
    if (value != PLACE_GONE && places->key_at(places->arg, value - 1) == key) {
      return slot;
    }
    slot = slot + 1 == part->size ? 0 : slot + 1;
  }
  return UINT32_MAX;
}

uint32_t ivf__places_find(struct places *places, int64_t key) {
  uint64_t hash = hash_key(key);
  struct places_part *part = part_of(places, hash);
  spin_acquire(&part->lock);
  uint32_t slot = find_slot(places, part, key, hash);
  uint32_t place = slot == UINT32_MAX ? PLACE_NONE : slot_at(part, slot) - 1;
  spin_release(&part->lock);
  return place;
}

int ivf__places_move(struct places *places, int64_t key, uint32_t from,
                     uint32_t to) {
  uint64_t hash = hash_key(key);
  struct places_part *part = part_of(places, hash);
  spin_acquire(&part->lock);
  uint32_t slot = find_slot(places, part, key, hash);
  int there = slot != UINT32_MAX && slot_at(part, slot) == from + 1;
  if (there) {
    set_slot(part->slots, slot, to + 1);
  }
  spin_release(&part->lock);
  return there;
}

uint32_t ivf__places_take(struct places *places, int64_t key) {
  uint64_t hash = hash_key(key);
  struct places_part *part = part_of(places, hash);
  uint32_t place = PLACE_NONE;
  spin_acquire(&part->lock);
  uint32_t slot = find_slot(places, part, key, hash);
  if (slot != UINT32_MAX) {
    place = slot_at(part, slot) - 1;
    set_slot(part->slots, slot, PLACE_GONE);
    part->gone++;
    places->taken(places->arg, place);
  }
  spin_release(&part->lock);
  return place;
}

uint64_t ivf__places_count(struct places *places) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < PLACES_PARTS; i++) {
    struct places_part *part = &places->parts[i];
    spin_acquire(&part->lock);
    n += part->used - part->gone;
    spin_release(&part->lock);
  }
  return n;
}

/* ---- rebuilding a part --------------------------------------------------- */

/* Copies the part's places to slots that are all free; returns their number. */
static uint32_t copy_part(const struct places *places,
                          const struct places_part *part,
                          _Atomic(uint32_t) *slots, uint32_t size) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < part->size; i++) {
    uint32_t value = slot_at(part, i);
    if (value && value != PLACE_GONE) {
      uint64_t hash = hash_key(places->key_at(places->arg, value - 1));
      uint32_t slot = first_slot(hash, size);
      while (atomic_load_explicit(&slots[slot], memory_order_relaxed)) {
        slot = slot + 1 == size ? 0 : slot + 1;
      }
      set_slot(slots, slot, value);
      n++;
    }
  }
  return n;
}

/* Attempts during removals; then one under the lock, which keeps them out. */
#define COPY_TRIES 3

/* Only the maintainer changes size and slots, so it reads them without lock. */
static int renew_part(struct places *places, struct places_part *part) {
  struct env *env = places->env;
  spin_acquire(&part->lock);
  uint32_t live = part->used - part->gone, gone = part->gone;
  spin_release(&part->lock);
  uint32_t size = live + live / 4 + PLACES_SMALLEST;
  _Atomic(uint32_t) *slots = env->allocate(env, size * sizeof *slots);
  if (!slots) {
    return 0;
  }
  uint32_t n = 0;
  int done = 0;
  for (int i = 0; !done; i++) {
    int locked = i == COPY_TRIES;
    if (locked) {
      spin_acquire(&part->lock);
    }
    n = copy_part(places, part, slots, size);
    if (!locked) {
      spin_acquire(&part->lock);
    }
    done = locked || part->gone == gone;
    gone = part->gone;
    if (!done) {
      spin_release(&part->lock);
      memset((void *)slots, 0, size * sizeof *slots);
    }
  }
  _Atomic(uint32_t) *old = part->slots;
  places->bytes += size * sizeof *slots - part->size * sizeof *slots;
  part->slots = slots;
  part->size = size;
  part->used = n;
  part->gone = 0;
  emb_check_some(4, ivf__places_part_valid(places, part));
  spin_release(&part->lock);
  env->release(env, old);
  return 1;
}

int ivf__places_add(struct places *places, int64_t key, uint32_t place) {
  uint64_t hash = hash_key(key);
  struct places_part *part = part_of(places, hash);
  if ((part->used + 1) * UINT64_C(100) > part->size * UINT64_C(88) &&
      !renew_part(places, part)) {
    return 0;
  }
  spin_acquire(&part->lock);
  emb_assert(find_slot(places, part, key, hash) == UINT32_MAX);
  uint32_t slot = first_slot(hash, part->size);
  while (slot_at(part, slot)) {
    slot = slot + 1 == part->size ? 0 : slot + 1;
  }
  set_slot(part->slots, slot, place + 1);
  part->used++;
  spin_release(&part->lock);
  return 1;
}
