/* SPDX-License-Identifier: MIT
**
** lease.c -- see lease.h.
*/
#include "lease.h"

#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "engine/emb.h"

#define ROOM_MIN 64

static void lease_set_slots(struct leases *leases, struct env *env,
                            struct lease *slots, size_t room) {
  spin_acquire(&leases->look);
  struct lease *old = leases->slots;
  leases->slots = slots;
  leases->room = room;
  spin_release(&leases->look);
  env->release(env, old);
}

void lease_free(struct leases *leases, struct env *env) {
  lease_set_slots(leases, env, NULL, 0);
  leases->used = leases->held = 0;
}

#define AGE UINT32_C(0x20000000)
#define AGE_EVERY UINT32_C(0x40000000)

/* Ages the leases of calls finished long ago: when the call numbers wrap to a
** lease's number, or half a round later, when it compares as newer, the lease
** would be mistaken for one counted by a current call. */
static void leases_age(struct leases *leases) {
  for (size_t i = 0; i < leases->room; i++) {
    struct lease *lease = &leases->slots[i];
    lease->marked = lease_marked(leases, lease) & LEASE_MAX;
    if (lease->held && leases->calls - lease->call > AGE) {
      lease->call = leases->calls - AGE;
      lease->put = 1;
    }
  }
  /* May be one ahead, the next call's number: compare signed. */
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
    leases_age(leases);
  }
  return leases->calls;
}

static size_t lease_next(const struct leases *leases, size_t i) {
  return (i + 1) & (leases->room - 1);
}

/* Linear probing without tombstones: a slot behind the hole that may be in the
** hole moves there, and leaves the next hole. */
void lease_remove(struct leases *leases, struct lease *lease) {
  size_t mask = leases->room - 1;
  size_t hole = (size_t)(lease - leases->slots);
  for (size_t i = lease_next(leases, hole); leases->slots[i].held;
       i = lease_next(leases, i)) {
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
  lease_set_slots(leases, env, slots, room);
  emb_check(lease_valid(leases));
  return EMB_OK;
}

/* ---- for other sessions -------------------------------------------------- */

void lease_batch_begin(struct leases *leases, uint32_t call, uint64_t ticket,
                       uint64_t now_us) {
  spin_acquire(&leases->look);
  for (int i = 0; i < LEASE_BATCHES; i++) {
    if (!leases->batches[i].call) {
      leases->batches[i] = (struct lease_batch){call, ticket, now_us};
      break;
    }
  }
  spin_release(&leases->look);
}

void lease_batch_end(struct leases *leases, uint32_t call) {
  spin_acquire(&leases->look);
  for (int i = 0; i < LEASE_BATCHES; i++) {
    if (leases->batches[i].call == call) {
      leases->batches[i] = (struct lease_batch){0};
    }
  }
  spin_release(&leases->look);
}

/* Reads a slot while the session may write it: each word is read whole, and the
** words belong together if the key was there before and after.  Formally this
** is a data race, so ThreadSanitizer is turned off here. */
__attribute__((no_sanitize("thread"), noinline)) static int
lease_read_slot(const volatile struct lease *slot, int64_t key, uint32_t *held,
                uint32_t *call) {
  int64_t before = slot->key;
  *held = slot->held;
  *call = slot->call;
  return *held && before == key && slot->key == key;
}

int lease_look(struct leases *leases, int64_t key, uint64_t hash,
               struct lease_seen *seen) {
  uint32_t call = 0;
  memset(seen, 0, sizeof *seen);
  spin_acquire(&leases->look);
  for (size_t n = 0; n < leases->room; n++) {
    uint32_t held;
    size_t i = (hash + n) & (leases->room - 1);
    if (lease_read_slot(&leases->slots[i], key, &held, &call)) {
      seen->held = held;
      break;
    }
    if (!held) {
      break;
    }
  }
  seen->since_us =
      atomic_load_explicit(&leases->since_us, memory_order_relaxed);
  for (int i = 0; seen->held && i < LEASE_BATCHES; i++) {
    if (leases->batches[i].call == call && call) {
      seen->ticket = leases->batches[i].ticket;
      seen->since_us = leases->batches[i].since_us;
    }
  }
  spin_release(&leases->look);
  return seen->held != 0;
}
