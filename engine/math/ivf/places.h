/* SPDX-License-Identifier: MIT
**
** places.h -- where in the lists a key is.
**
** A hash table of 32-bit places, which has no keys: those in the lists are
** compared.  256 parts, each of its own size, which grows by a tenth, so that
** it is between 80 and 88 percent full: less than 5 bytes for each key.
**
**   0            free
**   place + 1    of a key
**   PLACE_GONE   it was taken away; free again when the part is made anew
**
** THREADS  One maintainer adds and moves; any thread takes away, under the
**          part's spin lock, for a few instructions.  A part is made anew
**          beside those: it is looked through without the lock, and again if
**          something was taken away meanwhile.  What lies in the lists at a
**          place does not change while the place is in the table.
*/
#ifndef EMB_IVF_PLACES_H
#define EMB_IVF_PLACES_H

#include "engine/base/hash.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"

#define PLACES_PARTS 256
#define PLACE_NONE UINT32_MAX

struct places_part {
  spin_lock lock;
  uint32_t size;            /* of slots; lock */
  uint32_t used;            /* not free, those that are gone among them; lock */
  uint32_t gone;            /* lock */
  _Atomic(uint32_t) *slots; /* written under the lock, relaxed */
};

struct places {
  struct env *env;
  int64_t (*key_at)(const void *arg, uint32_t place);
  /* Of what is taken away; under the part's lock, so that whoever finds a key
  ** gone finds this done. */
  void (*taken)(const void *arg, uint32_t place);
  const void *arg;
  uint64_t bytes; /* the maintainer's */
  struct places_part parts[PLACES_PARTS];
};

void ivf__places_init(struct places *places, struct env *env);
void ivf__places_free(struct places *places);
/* PLACE_NONE: it is not there. */
uint32_t ivf__places_find(struct places *places, int64_t key);
/* How many there are. */
uint64_t ivf__places_count(struct places *places);
/* The maintainer's: a key that is not there; 0: no memory. */
int ivf__places_add(struct places *places, int64_t key, uint32_t place);
/* From one place to another; 0: it is not there any more. */
int ivf__places_move(struct places *places, int64_t key, uint32_t from,
                     uint32_t to);
/* Takes a key away, and says where it was: PLACE_NONE, nowhere. */
uint32_t ivf__places_take(struct places *places, int64_t key);

#endif
