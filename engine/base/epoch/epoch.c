/* SPDX-License-Identifier: MIT
**
** epoch.c -- see epoch.h.  The argument in short: epoch_wait raises `now` and
** then looks at every slot.  A session whose slot shows 0 or the new number
** enters, or has entered, after the raise, so it finds the pointers already
** unlinked; epoch_wait waits for every other session.  Both the raise and the
** entry are seq_cst, so one of the two sees the other.
*/
#include "epoch.h"
#include "engine/base/seed.h"

#if EMB_DEBUG > 0
_Thread_local int epoch_stays;
#endif

void epoch_init(struct epoch *epoch, struct env *env) {
  epoch->env = env;
  atomic_init(&epoch->now, 1);
  atomic_init(&epoch->closed, 0);
  atomic_init(&epoch->slots, NULL);
}

void epoch_free(struct epoch *epoch) {
  struct epoch_slot *slot = atomic_load(&epoch->slots);
  while (slot) {
    struct epoch_slot *next = slot->next;
    epoch->env->unmap(epoch->env, slot, sizeof *slot);
    slot = next;
  }
  atomic_store(&epoch->slots, NULL);
}

struct epoch_slot *epoch_join(struct epoch *epoch) {
  struct epoch_slot *slot = atomic_load(&epoch->slots);
  for (; slot; slot = slot->next) {
    uint32_t expected = 0;
    if (atomic_compare_exchange_strong(&slot->taken, &expected, 1)) {
      return slot;
    }
  }
  slot = epoch->env->map(epoch->env, sizeof *slot, 0);
  if (!slot) {
    return NULL;
  }
  atomic_init(&slot->inside, 0);
  atomic_init(&slot->taken, 1);
  slot->next = atomic_load(&epoch->slots);
  while (!atomic_compare_exchange_weak(&epoch->slots, &slot->next, slot)) {
  }
  return slot;
}

void epoch_part(struct epoch_slot *slot) {
  emb_assert(atomic_load(&slot->inside) == 0); /* E2 */
  atomic_store(&slot->taken, 0);
}

/* Short waits spin: a batch in memory takes microseconds.  Longer ones sleep,
** so that a preempted session gets its processor. */
static void pause_a_little(struct env *env, unsigned *spins) {
  if (*spins < 256) {
    spin_pause(spins);
  } else {
    env->sleep_us(env, 50);
  }
}

void epoch_enter_slow(struct epoch *epoch, struct epoch_slot *slot) {
  unsigned spins = 0;
  for (;;) {
    atomic_store(&slot->inside, 0);
    while (atomic_load(&epoch->closed)) {
      pause_a_little(epoch->env, &spins);
    }
    atomic_store(&slot->inside, atomic_load(&epoch->now));
    if (!atomic_load(&epoch->closed)) {
      return;
    }
  }
}

void epoch_wait(struct epoch *epoch) {
  emb_assert(epoch_outside());
  uint64_t target = atomic_fetch_add(&epoch->now, 1) + 1;
  struct epoch_slot *slot = atomic_load(&epoch->slots);
  for (; slot; slot = slot->next) {
    unsigned spins = 0;
    for (;;) {
      uint64_t inside = atomic_load(&slot->inside);
      if (inside == 0 || inside >= target) {
        break;
      }
      pause_a_little(epoch->env, &spins);
    }
  }
}

uint64_t epoch_oldest(struct epoch *epoch) {
  uint64_t oldest = atomic_fetch_add(&epoch->now, 1) + 1;
  struct epoch_slot *slot = atomic_load(&epoch->slots);
  for (; slot; slot = slot->next) {
    uint64_t inside = atomic_load(&slot->inside);
    if (inside && inside < oldest &&
        !EMB_SEED(SEED_SESSION_INSIDE_OVERLOOKED)) {
      oldest = inside;
    }
  }
  return oldest;
}

void epoch_close(struct epoch *epoch) {
  emb_assert(epoch_outside() && !atomic_load(&epoch->closed));
  atomic_store(&epoch->closed, 1);
  epoch_wait(epoch);
}

void epoch_open(struct epoch *epoch) {
  emb_assert(atomic_load(&epoch->closed));
  atomic_store(&epoch->closed, 0);
}
