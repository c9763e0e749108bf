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

/* The table begins with this many elements, or as many as there is room for. */
#define TABLE_MIN 4096

static void lease_set_slots(struct leases *leases, struct env *env,
                            struct lease *slots, size_t room) {
  spin_acquire(&leases->look);
  struct lease *old = leases->slots;
  leases->slots = slots;
  leases->room = room;
  spin_release(&leases->look);
  env->release(env, old);
}

static void lease_set_table(struct leases *leases, struct env *env,
                            uint32_t *table) {
  env->release(env, leases->table);
  leases->table = table;
  leases->table_mask = leases->listed = 0;
}

void lease_free(struct leases *leases, struct env *env) {
  lease_set_slots(leases, env, NULL, 0);
  lease_set_table(leases, env, NULL);
  leases->count = leases->next = leases->used = leases->held = 0;
}

#define AGE UINT32_C(0x20000000)
#define AGE_EVERY UINT32_C(0x40000000)

/* Ages the leases of calls finished long ago: when the call numbers wrap to a
** lease's number, or half a round later, when it compares as newer, the lease
** would be mistaken for one counted by a current call. */
static void leases_age(struct leases *leases) {
  for (size_t i = 0; i < leases->count; i++) {
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

/* ---- the table ----------------------------------------------------------- */

/* Enters a slot.  An empty slot of the key, if any, leaves the table: the table
** has one element per key, however often the key comes and goes. */
static void lease_enter(struct leases *leases, size_t at) {
  const struct lease *lease = &leases->slots[at];
  size_t i = hash_key(lease->key) & leases->table_mask;
  while (leases->table[i] &&
         leases->slots[leases->table[i] - 1].key != lease->key) {
    i = (i + 1) & leases->table_mask;
  }
  emb_assert(!leases->table[i] || !leases->slots[leases->table[i] - 1].held);
  leases->table[i] = (uint32_t)at + 1;
}

/* Enters the slots that are not in the table yet. */
static void leases_list(struct leases *leases) {
  if (leases->count * LEASE_TABLE > leases->table_mask + 1) {
    size_t size = leases->room * LEASE_TABLE;
    size = size < TABLE_MIN ? size : TABLE_MIN;
    while (size < leases->count * LEASE_TABLE) {
      size *= 2;
    }
    emb_assert(size <= leases->room * LEASE_TABLE);
    memset(leases->table, 0, size * sizeof *leases->table);
    leases->table_mask = size - 1;
    leases->listed = 0;
  }
  for (; leases->listed < leases->count; leases->listed++) {
    if (leases->slots[leases->listed].held) {
      lease_enter(leases, leases->listed);
    }
  }
}

struct lease *lease__search(struct leases *leases, int64_t key, uint64_t hash) {
  leases_list(leases);
  for (size_t i = hash & leases->table_mask; leases->table[i];
       i = (i + 1) & leases->table_mask) {
    struct lease *lease = &leases->slots[leases->table[i] - 1];
    if (lease->key == key) {
      if (!lease->held) {
        return NULL;
      }
      leases->next = leases->table[i];
      return lease;
    }
  }
  return NULL;
}

void lease__none_left(struct leases *leases) {
  leases->count = leases->next = leases->listed = leases->table_mask = 0;
}

/* ---- room ---------------------------------------------------------------- */

/* Moves the slots that are not empty together, to `to`, in their order. */
static void lease_move(struct leases *leases, struct lease *to) {
  size_t n = 0, next = 0;
  for (size_t i = 0; i < leases->count; i++) {
    next = i == leases->next ? n : next;
    if (leases->slots[i].held) {
      to[n++] = leases->slots[i];
    }
  }
  emb_assert(n == leases->used);
  leases->next = leases->next < leases->count ? next : n;
  leases->count = n;
}

/* Removes the empty slots. */
static void lease_compact(struct leases *leases) {
  size_t before = leases->count;
  spin_acquire(&leases->look);
  lease_move(leases, leases->slots);
  memset(leases->slots + leases->count, 0,
         (before - leases->count) * sizeof *leases->slots);
  spin_release(&leases->look);
  leases->table_mask = leases->listed = 0;
}

int lease_reserve(struct leases *leases, struct env *env, size_t n) {
  if (leases->count + n <= leases->room) {
    return EMB_OK;
  }
  if ((leases->used + n) * 2 <= leases->room) {
    lease_compact(leases); /* the next time is room / 2 leases away */
    emb_check(lease_valid(leases));
    return EMB_OK;
  }
  size_t room = ROOM_MIN;
  while (room < (leases->used + n) * 2) {
    room *= 2;
  }
  struct lease *slots = env->allocate(env, room * sizeof *slots);
  uint32_t *table = slots && room < UINT32_MAX
                        ? env->allocate(env, room * LEASE_TABLE * sizeof *table)
                        : NULL;
  if (!table) {
    env->release(env, slots);
    return EMB_NOMEM;
  }
  lease_move(leases, slots);
  lease_set_slots(leases, env, slots, room);
  lease_set_table(leases, env, table);
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

int lease_look(struct leases *leases, int64_t key, struct lease_seen *seen) {
  uint32_t call = 0;
  memset(seen, 0, sizeof *seen);
  spin_acquire(&leases->look);
  for (size_t i = 0; i < leases->room && !seen->held; i++) {
    uint32_t held;
    if (lease_read_slot(&leases->slots[i], key, &held, &call)) {
      seen->held = held;
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
