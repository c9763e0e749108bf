/* SPDX-License-Identifier: MIT
**
** lease.c -- see lease.h.
*/
#include "lease.h"

#include <string.h>

#include "../base/hash.h"
#include "../emb.h"

#define ROOM_MIN 64

void lease_free(struct leases *leases, struct env *env) {
  env->release(env, leases->slots);
  leases->slots = NULL;
  leases->room = leases->used = leases->held = 0;
}

uint32_t lease_next_call(struct leases *leases) {
  if (++leases->calls == 0) {
    leases->calls = 1;
  }
  return leases->calls;
}

static size_t next(const struct leases *leases, size_t i) {
  return (i + 1) & (leases->room - 1);
}

/* Linear probing without graves: what stands behind the hole and may stand in
** it moves there, and leaves the next hole. */
void lease_remove(struct leases *leases, struct lease *lease) {
  size_t mask = leases->room - 1;
  size_t hole = (size_t)(lease - leases->slots);
  for (size_t i = next(leases, hole); leases->slots[i].held;
       i = next(leases, i)) {
    size_t home = hash_key(leases->slots[i].key) & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      leases->slots[hole] = leases->slots[i];
      hole = i;
    }
  }
  memset(&leases->slots[hole], 0, sizeof leases->slots[hole]);
  leases->used--;
}

int lease_reserve(struct leases *leases, struct env *env, size_t n) {
  if ((leases->used + n) * 2 <= leases->room) {
    return EMB_OK;
  }
  size_t room = ROOM_MIN;
  while (room < (leases->used + n) * 4) {
    room *= 2;
  }
  struct lease *slots = env->allocate(env, room * sizeof *slots);
  if (!slots) {
    return EMB_NOMEM;
  }
  for (size_t i = 0; i < leases->room; i++) {
    const struct lease *lease = &leases->slots[i];
    if (lease->held) {
      size_t at = hash_key(lease->key) & (room - 1);
      while (slots[at].held) {
        at = (at + 1) & (room - 1);
      }
      slots[at] = *lease;
    }
  }
  env->release(env, leases->slots);
  leases->slots = slots;
  leases->room = room;
  return EMB_OK;
}
