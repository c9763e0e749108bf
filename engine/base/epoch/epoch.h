/* SPDX-License-Identifier: MIT
**
** epoch.h -- when may memory that a reader might still be using be reused?
**
** ROLE      Every access to frames, buckets and words happens between
**           epoch_enter and epoch_leave of the session's own slot.  After
**           unlinking memory, a caller calls epoch_wait, which returns when
**           every session that was inside at that time has left.
** INVARIANT E1  No session waits (for disk, a lock that may be held across a
**               wait, or another session) between enter and leave: the model
**               checker shows the deadlock otherwise.
**           E2  A slot is 0 outside; inside, the global epoch seen at entry.
** CHECKED   Every function that waits asserts epoch_outside() (base/debug.h).
** THREADS   A slot belongs to one session; epoch_wait may be called by any
**           thread that is itself outside.
*/
#ifndef EMB_EPOCH_H
#define EMB_EPOCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"

struct epoch_slot {
  /* Written by the session (seq_cst at entry, release at exit), read by
  ** epoch_wait (seq_cst). */
  _Alignas(64) _Atomic uint64_t inside;
  struct epoch_slot *next;
  /* 0 free, 1 taken; claimed by compare-and-swap, released by its session. */
  _Atomic uint32_t taken;
  char pad[44];
};

struct epoch {
  struct env *env;
  /* Incremented by epoch_wait and epoch_oldest; read at every entry. */
  _Alignas(64) _Atomic uint64_t now;
  /* Set while epoch_close keeps all sessions out; read at every entry. */
  _Atomic uint32_t closed;
  /* Push-only list of all slots ever made; freed by epoch_free. */
  _Atomic(struct epoch_slot *) slots;
};

void epoch_init(struct epoch *epoch, struct env *env);
void epoch_free(struct epoch *epoch);

/* A slot for a session; NULL when out of memory. */
struct epoch_slot *epoch_join(struct epoch *epoch);
void epoch_part(struct epoch_slot *slot);

/* For E1: 1 while this thread is inside an epoch, else 0. */
#if EMB_DEBUG > 0
extern _Thread_local int epoch_stays;
static inline void epoch_count(int change) { epoch_stays += change; }
static inline int epoch_outside(void) { return epoch_stays == 0; }
#else
static inline void epoch_count(int change) { (void)change; }
int epoch_outside(void); /* for assertions only */
#endif

void epoch_enter_slow(struct epoch *epoch, struct epoch_slot *slot);

static inline void epoch_enter(struct epoch *epoch, struct epoch_slot *slot) {
  /* E1 here, too: entering may wait for epoch_open. */
  emb_assert(epoch_outside());
  emb_assert(atomic_load(&slot->inside) == 0 && atomic_load(&slot->taken));
  epoch_count(1);
  atomic_store(&slot->inside, atomic_load(&epoch->now));
  if (__builtin_expect(atomic_load(&epoch->closed) != 0, 0)) {
    epoch_enter_slow(epoch, slot);
  }
}

static inline void epoch_leave(struct epoch_slot *slot) {
  emb_assert(atomic_load(&slot->inside) != 0);
  epoch_count(-1);
  atomic_store_explicit(&slot->inside, 0, memory_order_release);
}

/* Returns when every session inside at the time of the call has left once. */
void epoch_wait(struct epoch *epoch);
/* The epoch of the session that has been inside longest, or the current one if
** none is inside.  Memory unlinked in an earlier epoch can be reused. */
uint64_t epoch_oldest(struct epoch *epoch);
/* Keeps every session out, and returns when all have left; for restructuring
** that cannot run while readers do.  epoch_open lets them in again.  Calls do
** not nest; the caller serialises them. */
void epoch_close(struct epoch *epoch);
void epoch_open(struct epoch *epoch);

#endif
