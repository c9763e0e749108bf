/* SPDX-License-Identifier: MIT
**
** lease.c -- see lease.h.
*/
#include "lease.h"

#include <string.h>

#include "../base/debug.h"
#include "../base/hash.h"
#include "../emb.h"

#define ROOM_MIN 64

void lease_free(struct leases *leases, struct env *env) {
  env->release(env, leases->slots);
  leases->slots = NULL;
  leases->room = leases->used = leases->held = 0;
}

#define AGE UINT32_C(0x20000000)
#define AGE_EVERY UINT32_C(0x40000000)

/* Leases of calls that are long over: a number that is reached again, or that
** half the round later looks like one to come, would have them counted. */
static void age(struct leases *leases) {
  for (size_t i = 0; i < leases->room; i++) {
    struct lease *lease = &leases->slots[i];
    lease->marked = lease_marked(leases, lease) & LEASE_MAX;
    if (lease->held && leases->calls - lease->call > AGE) {
      lease->call = leases->calls - AGE;
      lease->put = 1;
    }
  }
  /* It may be that of the next call. */
  if ((int32_t)(leases->calls - leases->statement_call) > (int32_t)AGE) {
    leases->statement_call = leases->calls - AGE;
  }
  if ((int32_t)(leases->calls - leases->since) > (int32_t)AGE) {
    leases->since = leases->calls - AGE;
  }
}

uint32_t lease_next_call(struct leases *leases) {
  if (++leases->calls == 0) {
    leases->calls = 1;
  }
  if (leases->calls % AGE_EVERY == 0) {
    age(leases);
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
  emb_assert(leases->used > 0);
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
  emb_check(lease_valid(leases));
  return EMB_OK;
}
