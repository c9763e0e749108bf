/* SPDX-License-Identifier: MIT
**
** observe.h -- calls to features that maintain state about each row.
**
** Every change of a row goes through row_write.h, which calls the observers:
** the notes of a snapshot (notes.c), the watch of scans (watch.c), and any
** observer that a feature registers, for example for a second index.
**
**   changed   the key now has this record: it was added, or has another value,
**             in place or at another address
**   moved     the same value at another log address (compaction)
**   removed   deleted, expired or evicted; from 0: the key did not exist, as
**             when a transaction adds a key and deletes it again
**   ended     the change is visible to all sessions; for an observer that holds
**             a lock from one of the three calls above to here
**   reset     all rows are gone because the store is being reloaded: by an
**             open, by a reader process that sees a newer checkpoint, or by
**             recovery.  The loaded rows follow as `changed`.
**
** WHEN      With the key's latch held, inside the epoch, after the record was
**           filled and before the key's word names it; readers may have seen
**           the value of a change in place a moment before.  So the events of
**           one key come one by one, in the order of its changes; the events
**           of two keys may come at the same time, from several threads.  A
**           transaction is reported by its commit, each key once; savepoints
**           and rollbacks are not reported.  While the store is loaded the
**           caller has the store to itself.
** MAY       Read the event and allocate.  Take a lock of its own that is held
**           for a few instructions only, and never while waiting for a latch,
**           the epoch, a frame or the disk.  It must not call the store.
** FAILURE   There is none: the row changes in any case.  An observer that runs
**           out of memory records that it is incomplete, as notes and scans
**           do.
** RECORD    event.record is the new record, complete (value and version), valid
**           during the call.  NULL if there is none, or if it is only on disk:
**           rows loaded from a checkpoint, and rows of a large transaction
**           whose log has left memory.
** COST      Without observers, one predicted branch per change.  Observers
**           without `all` add nothing to changes in place.
*/
#ifndef EMB_KERNEL_OBSERVE_H
#define EMB_KERNEL_OBSERVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/spin.h"
#include "engine/storage/rec/rec.h"

#define OBSERVERS_MAX 8

struct core;

/* The kind of change, for observers that treat training steps more loosely than
** puts. */
enum row_cause {
  ROW_PUT,
  ROW_STEP,
  ROW_MOVED,
  ROW_REMOVED, /* by a delete; the next two are removals, too */
  ROW_EXPIRED,
  ROW_EVICTED
};

struct row_event {
  int64_t key;
  uint64_t from, to; /* log addresses before and after, 0: absent */
  const struct rec *record;
  const void *session;  /* the session whose transaction commits, or NULL */
  enum row_cause cause; /* ROW_STEP: a gradient, or a value added to a row */
};

typedef void (*observe_row)(void *arg, const struct row_event *event);

struct observer {
  const char *name;
  observe_row changed, moved, removed, ended; /* each may be NULL */
  void (*reset)(void *arg);                   /* or NULL */
  void *arg;
  /* 1: every change is reported; 0: all except those that leave no old address
  ** behind: rows added outside a transaction, and changes in place. */
  int all;
  uint32_t slot; /* used by observe.c */
};

struct observers {
  /* A bit per slot: the observers that are called, and among these those called
  ** for every change.  Written by observe__on (release) and observe__off, read
  ** inside the epoch by every change of a row (acquire). */
  _Atomic uint32_t active, all;
  spin_lock lock;                        /* for the use of slots */
  struct observer *slots[OBSERVERS_MAX]; /* not read unless active says so */
};

/* Once this returns, all changes are reported.  Existing rows are not: a
** feature registers before the store is loaded (begin in store/feature.h).
** Call outside any epoch.  EMB_FULL: there are OBSERVERS_MAX already. */
int observe_begin(struct core *core, struct observer *observer);
/* Once this returns, nothing is reported. */
void observe_end(struct core *core, struct observer *observer);

/* The steps of the two functions above, for an observer that is switched on and
** off: add gives it a slot until the core is freed; on and off take full effect
** once every session has left the epoch. */
int observe__add(struct core *core, struct observer *observer);
void observe__on(struct core *core, const struct observer *observer);
void observe__off(struct core *core, const struct observer *observer);

static inline uint32_t observers_active(const struct observers *observers) {
  return atomic_load_explicit(&observers->active, memory_order_acquire);
}
static inline uint32_t observers_of_all(const struct observers *observers) {
  return atomic_load_explicit(&observers->all, memory_order_acquire);
}
static inline int observe_is_on(const struct observers *observers,
                                const struct observer *observer) {
  return observers_active(observers) >> observer->slot & 1;
}

/* Called by row_write.c only.  slots: bits of the observers to call. */
enum observe_kind { OBSERVE_CHANGED, OBSERVE_MOVED, OBSERVE_REMOVED };
void observe__notify(const struct observers *observers, uint32_t slots,
                     enum observe_kind kind, const struct row_event *event);
void observe__ended(const struct observers *observers, uint32_t slots,
                    const struct row_event *event);
void observe__reset(const struct observers *observers);

#endif
