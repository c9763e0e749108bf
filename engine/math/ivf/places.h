/* SPDX-License-Identifier: MIT
**
** places.h -- maps a key to its place in the lists.
**
** A hash table of 32-bit places, without keys: it compares the keys in the
** lists.  256 parts, each with its own size, which grows by a tenth, so that it
** is between 80 and 88 percent full: less than 5 bytes for each key.
**
**   0            free
**   place + 1    of a key
**   PLACE_GONE   the key was removed; free again when the part is rebuilt
**
** THREADS  One maintainer adds and moves; any thread removes, under the part's
**          spin lock, for a few instructions.  A part is rebuilt during
**          removals: it is copied without the lock, and copied again if a key
**          was removed during the copy.  The key in the lists at a place does
**          not change while the place is in the table.
*/
#ifndef EMB_IVF_PLACES_H
#define EMB_IVF_PLACES_H

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"

#define PLACES_PARTS 256
#define PLACE_NONE UINT32_MAX
#define PLACE_GONE UINT32_MAX

struct places_part {
  spin_lock lock;
  uint32_t size;            /* of slots; lock */
  uint32_t used;            /* not free, including PLACE_GONE; lock */
  uint32_t gone;            /* lock */
  _Atomic(uint32_t) *slots; /* written under the lock, relaxed */
};

struct places {
  struct env *env;
  int64_t (*key_at)(const void *arg, uint32_t place);
  /* Called for a removed place, under the part's lock, so that a thread that
  ** finds the key gone also sees the effect of this call. */
  void (*taken)(const void *arg, uint32_t place);
  const void *arg;
  uint64_t bytes; /* the maintainer's */
  struct places_part parts[PLACES_PARTS];
};

/* Under the part's lock.  Only in self-checking builds (ivf_valid.c). */
int ivf__places_part_valid(const struct places *places,
                           const struct places_part *part);

void ivf__places_init(struct places *places, struct env *env);
void ivf__places_free(struct places *places);
/* Returns the place of a key; PLACE_NONE: it is not there. */
uint32_t ivf__places_find(struct places *places, int64_t key);
/* The number of keys. */
uint64_t ivf__places_count(struct places *places);
/* For the maintainer: adds a key that is not there; 0: no memory. */
int ivf__places_add(struct places *places, int64_t key, uint32_t place);
/* Changes the place of a key; 0: it is no longer at `from`. */
int ivf__places_move(struct places *places, int64_t key, uint32_t from,
                     uint32_t to);
/* Removes a key and returns its place; PLACE_NONE: it was not there. */
uint32_t ivf__places_take(struct places *places, int64_t key);

#endif
