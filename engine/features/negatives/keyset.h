/* SPDX-License-Identifier: MIT
**
** keyset.h -- a set of keys with a known maximum size: the excluded keys, and
** those already drawn.
**
** Open addressing with linear probing, at most half full, and a quarter full
** while the set is small: whether a place is taken cannot be predicted, and
** 1,024 draws without repetition took 18.8 ns each at half full, 15.3 at a
** quarter, and no less at an eighth.  hash_key is a bijection, so the hash
** stands for the key; 0 is an empty place, and a flag says whether the one key
** with hash 0 is in the set.
*/
#ifndef EMB_NEGATIVES_KEYSET_H
#define EMB_NEGATIVES_KEYSET_H

#include "engine/base/hash.h"
#include "engine/emb.h"
#include "engine/base/env/env.h"

struct keyset {
  uint64_t *places; /* mask + 1 */
  uint64_t mask;
  int has_zero;
};

#define KEYSET_SMALL 2048

/* Makes a set for at most n keys; EMB_NOMEM. */
static inline int keyset_init(struct keyset *set, struct env *env, size_t n) {
  uint64_t room = 16, least = (n <= KEYSET_SMALL ? 4 : 2) * (uint64_t)n;
  while (room < least) {
    room *= 2;
  }
  set->places = env->allocate(env, room * sizeof *set->places);
  set->mask = room - 1;
  set->has_zero = 0;
  return set->places ? EMB_OK : EMB_NOMEM;
}

static inline void keyset_free(struct keyset *set, struct env *env) {
  env->release(env, set->places);
  set->places = NULL;
}

static inline int keyset_has(const struct keyset *set, int64_t key) {
  uint64_t hash = hash_key(key), at = hash & set->mask;
  while (set->places[at] && set->places[at] != hash) {
    at = (at + 1) & set->mask;
  }
  return hash ? set->places[at] == hash : set->has_zero;
}

/* Adds a key; returns 1 if it was not in the set before. */
static inline int keyset_add(struct keyset *set, int64_t key) {
  uint64_t hash = hash_key(key), at = hash & set->mask;
  if (!hash) {
    int is_new = !set->has_zero;
    set->has_zero = 1;
    return is_new;
  }
  while (set->places[at]) {
    if (set->places[at] == hash) {
      return 0;
    }
    at = (at + 1) & set->mask;
  }
  set->places[at] = hash;
  return 1;
}

#endif
