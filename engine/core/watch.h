/* SPDX-License-Identifier: MIT
**
** watch.h -- how a scan in log order sees every key exactly once while
** records move.
**
** A scan walks the log addresses [start, end), end being the tail when it
** began, and delivers the records that are live when it passes.  A record that
** is moved away (to the tail) before the scan reaches it would be missed; so
** whoever moves a record of that range tells the scan, which delivers the key
** at the end.  A record that is moved after the scan passed it was delivered
** already, and its new place is at or above end.
**
** A transaction that was open when the scan began has records below `end`
** that only become visible when it commits.  The scan leaves its pages out
** (skip_txn), and the commit reports the moves; to a scan of the
** transaction's own session its writes are visible, and reported, at once.
**
** THREADS  Moving a record and noting it, or testing which records of a page
** are live and passing it, happens under core->scan_lock; it is only taken
** while a scan is open.  A scan is opened with epoch_wait in between, so every
** move in progress has seen it or finished before `end` was read.
*/
#ifndef EMB_CORE_WATCH_H
#define EMB_CORE_WATCH_H

#include "../base/err.h"
#include "core.h"
#include "spill.h"

struct scan_watch {
  struct scan_watch *next;
  const void *session;
  uint64_t cursor; /* addresses below were passed */
  uint64_t end;
  uint64_t skip_txn;  /* records in pages of this transaction do not count */
  uint64_t skip_from; /* from this address on */
  struct spill moved; /* keys, 8 bytes each */
  int failed;         /* a moved key could not be noted */
  int aborted;        /* the session rolled back */
};

/* Adds the watch to the list and sets end; outside any epoch. */
void watch_open(struct core *core, struct scan_watch *watch);
void watch_close(struct core *core, struct scan_watch *watch);
static inline int watch_any(const struct core *core) {
  return atomic_load_explicit(&core->scan_count, memory_order_acquire) != 0;
}
/* The key's record leaves log address `from`.  Under scan_lock.  session:
** only scans of this session (a transaction's own write), or with `others`
** set all scans but those of this session (its commit); NULL: all. */
void watch_moved(struct core *core, int64_t key, uint64_t from,
                 const void *session, int others);
/* The session's transaction is undone; NULL: the store was loaded anew. */
void watch_abort(struct core *core, const void *session);

#endif
