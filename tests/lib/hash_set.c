/* SPDX-License-Identifier: MIT
**
** hash_set.c -- see hash_set.h.
*/
#include "hash_set.h"

#include <stdlib.h>

/* The slot of a hash, or the free one in which it belongs. */
static uint64_t *slot_of(const struct hash_set *set, uint64_t hash) {
  size_t at = hash & (set->room - 1);
  while (set->slots[at] && set->slots[at] != hash) {
    at = (at + 1) & (set->room - 1);
  }
  return &set->slots[at];
}

static void grow(struct hash_set *set) {
  struct hash_set more = {.room = set->room ? set->room * 2 : 1024};
  more.slots = calloc(more.room, sizeof *more.slots);
  if (!more.slots) {
    abort();
  }
  for (size_t i = 0; i < set->room; i++) {
    if (set->slots[i]) {
      *slot_of(&more, set->slots[i]) = set->slots[i];
    }
  }
  more.used = set->used;
  free(set->slots);
  *set = more;
}

int hash_set_add(struct hash_set *set, uint64_t hash) {
  hash |= !hash;
  if (set->used * 2 >= set->room) {
    grow(set);
  }
  uint64_t *slot = slot_of(set, hash);
  int is_new = *slot == 0;
  *slot = hash;
  set->used += (size_t)is_new;
  return is_new;
}

void hash_set_free(struct hash_set *set) {
  free(set->slots);
  *set = (struct hash_set){0};
}
