/* SPDX-License-Identifier: MIT
**
** observe.c -- see observe.h.
**
** Slots do not move, and a change reads the set of active slots once.  So
** `ended` reaches the observers called before, whichever observers begin or
** end in between.
*/
#include "observe.h"

#include "engine/emb.h"
#include "core.h"

int observe__add(struct core *core, struct observer *observer) {
  struct observers *o = &core->observers;
  uint32_t slot = 0;
  spin_acquire(&o->lock);
  while (slot < OBSERVERS_MAX && o->slots[slot]) {
    slot++;
  }
  if (slot < OBSERVERS_MAX) {
    o->slots[slot] = observer;
    observer->slot = slot;
  }
  spin_release(&o->lock);
  return slot < OBSERVERS_MAX ? EMB_OK : EMB_FULL;
}

void observe__on(struct core *core, const struct observer *observer) {
  struct observers *o = &core->observers;
  atomic_fetch_or(&o->active, UINT32_C(1) << observer->slot);
  if (observer->all) {
    atomic_fetch_or(&o->all, UINT32_C(1) << observer->slot);
  }
}

void observe__off(struct core *core, const struct observer *observer) {
  struct observers *o = &core->observers;
  atomic_fetch_and(&o->all, ~(UINT32_C(1) << observer->slot));
  atomic_fetch_and(&o->active, ~(UINT32_C(1) << observer->slot));
}

int observe_begin(struct core *core, struct observer *observer) {
  int rc = observe__add(core, observer);
  if (!rc) {
    observe__on(core, observer);
    epoch_wait(&core->epoch);
  }
  return rc;
}

void observe_end(struct core *core, struct observer *observer) {
  struct observers *o = &core->observers;
  observe__off(core, observer);
  epoch_wait(&core->epoch);
  spin_acquire(&o->lock);
  o->slots[observer->slot] = NULL;
  spin_release(&o->lock);
}

/* The watch of scans has the first slot (watch_init) and is called last, so
** that no observer is called under the lock that the watch holds until
** `ended`. */
void observe__notify(const struct observers *observers, uint32_t slots,
                     enum observe_kind kind, const struct row_event *event) {
  while (slots) {
    uint32_t slot = 31 - (uint32_t)__builtin_clz(slots);
    const struct observer *o = observers->slots[slot];
    observe_row notify = kind == OBSERVE_CHANGED ? o->changed
                         : kind == OBSERVE_MOVED ? o->moved
                                                 : o->removed;
    if (notify) {
      notify(o->arg, event);
    }
    slots &= ~(UINT32_C(1) << slot);
  }
}

void observe__ended(const struct observers *observers, uint32_t slots,
                    const struct row_event *event) {
  for (; slots; slots &= slots - 1) {
    const struct observer *o = observers->slots[__builtin_ctz(slots)];
    if (o->ended) {
      o->ended(o->arg, event);
    }
  }
}

void observe__reset(const struct observers *observers) {
  uint32_t slots = observers_active(observers);
  for (uint32_t slot = 0; slot < OBSERVERS_MAX; slot++) {
    if (slots >> slot & 1 && observers->slots[slot]->reset) {
      observers->slots[slot]->reset(observers->slots[slot]->arg);
    }
  }
}
