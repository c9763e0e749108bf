/* SPDX-License-Identifier: MIT
**
** observe.h -- calls to a feature that keeps something about each row.
**
** Every change of a row goes through row_write.h, which calls the observers:
** the notes of a snapshot (notes.c), the watch of scans (watch.c), and whatever
** a feature registers, a second index for example.
**
**   changed   the key has this record now: it was added, or has another value,
**             in place or at another address
**   moved     the same value at another log address (compaction)
**   removed   deleted, expired or evicted; from 0: it was not there, which a
**             transaction does that adds a key and deletes it
**   ended     the change is visible to all sessions; for an observer that holds
**             a lock from one of the three above to here
**   reset     no row is there any more, because the store is loaded anew: by an
**             open, by a process that reads and sees a newer checkpoint, by
**             recovery.  What is loaded follows as `changed`.
**
** WHEN      With the key's latch held, inside the epoch, after the record was
**           filled and before the key's word names it; the value of a change in
**           record may have been read a moment before.  So of one key the
**           events come one by one, in the order of its changes; of two keys
**           they come at the same time, from several threads.  A transaction is
**           reported by its commit, each key once; its savepoints and a
**           rollback are not.  While the store is loaded the caller is alone
**           with it.
** MAY       Read the event and allocate.  Take a lock of its own that is held
**           for a few instructions only, and never while waiting for a latch,
**           the epoch, a frame or the disk.  It calls nothing of the store.
** FAILURE   There is none: the row changes all the same.  An observer that runs
**           out of memory records that it is incomplete, as notes and scans do.
** RECORD    event.record is the new one, complete, for the time of the call:
**           value and version.  NULL where there is none, and where it is on
**           disk only: rows loaded from a checkpoint, and those of a large
**           transaction whose log has left memory.
** COST      Without observers one predicted branch for each change.  Those that
**           are not asked for `all` cost changes in place nothing.
*/
#ifndef EMB_KERNEL_OBSERVE_H
#define EMB_KERNEL_OBSERVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/spin.h"
#include "engine/storage/rec/rec.h"

#define OBSERVERS_MAX 8

struct core;

/* What a change was, for those that follow steps of training more loosely than
** what was put. */
enum row_cause { ROW_PUT, ROW_STEP, ROW_MOVED, ROW_REMOVED };

struct row_event {
  int64_t key;
  uint64_t from, to; /* log addresses before and after, 0: absent */
  const struct rec *record;
  const void *session;  /* whose transaction commits it, or NULL */
  enum row_cause cause; /* ROW_STEP: a gradient, or what is added to a row */
};

typedef void (*observe_row)(void *arg, const struct row_event *event);

struct observer {
  const char *name;
  observe_row changed, moved, removed, ended; /* each may be NULL */
  void (*reset)(void *arg);                   /* or NULL */
  void *arg;
  /* 1: every change is reported; 0: not those that leave no address behind:
  ** rows that are added at once, and changes in place. */
  int all;
  uint32_t slot; /* observe.c's */
};

struct observers {
  /* A bit for each slot: those that are called, and of these those that are
  ** called for every change.  Written by observe__on (release) and
  *observe__off,
  ** read inside the epoch by whatever changes a row (acquire). */
  _Atomic uint32_t active, all;
  spin_lock lock;                        /* of the slots' use */
  struct observer *slots[OBSERVERS_MAX]; /* not read unless active says so */
};

/* From the return on all changes are reported.  Rows that are there already are
** not: a feature registers before the store is loaded (begin in
** store/feature.h).  Outside any epoch.  EMB_FULL: there are OBSERVERS_MAX. */
int observe_begin(struct core *core, struct observer *observer);
/* From the return on nothing is reported. */
void observe_end(struct core *core, struct observer *observer);

/* The parts of the two, for an observer that comes and goes: a slot, which it
** has until the core is freed, and being called, which is certain once every
** session has left the epoch. */
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

/* row_write.c's.  slots: bits of those that are called. */
enum observe_kind { OBSERVE_CHANGED, OBSERVE_MOVED, OBSERVE_REMOVED };
void observe__notify(const struct observers *observers, uint32_t slots,
                     enum observe_kind kind, const struct row_event *event);
void observe__ended(const struct observers *observers, uint32_t slots,
                    const struct row_event *event);
void observe__reset(const struct observers *observers);

#endif
