/* SPDX-License-Identifier: MIT
**
** watch.h -- how a scan in log order sees every key exactly once while
** records move.
**
** A scan walks the log addresses [start, end) and delivers the records that are
** live when it passes.  When it began, the open pages were closed: from then on
** slots are handed out at or above end only.  A record that is moved away
** before the scan reaches it would be missed; so whoever moves a record of that
** range beyond end tells the scan, which delivers the key at the end.  A record
** that is moved after the scan passed it was delivered already.  A key that is
** deleted is not told: if it comes back it is another one.
**
** A transaction of another session that was open when the scan began has
** records below `end` that only become visible when it commits.  The scan
** leaves its pages out (skip_txn).  The commit reports the moves into them like
** moves beyond end, and marks the page in `settled`: what leaves it later was
** delivered.  To a scan of the transaction's own session its writes are
** visible, and reported, at once.
**
** THREADS  Moving a record and noting it, or testing which records of a page
** are live and passing it, happens under core->scan_lock; it is only taken
** while a scan is open.  Whoever does not see that a scan is open took his slot
** before the pages were closed, so below `end`; watch_open waits for the epoch,
** so that his move is over when the scan begins.
*/
#ifndef EMB_CORE_WATCH_H
#define EMB_CORE_WATCH_H

#include "../base/err.h"
#include "core.h"
#include "spill.h"

/* Why a scan cannot go on. */
enum { WATCH_ROLLBACK = 1, WATCH_LOADED = 2 };

struct scan_watch {
  struct scan_watch *next;
  const void *session;
  uint64_t cursor; /* addresses below were passed */
  uint64_t end;
  uint64_t skip_txn;  /* records in pages of this transaction do not count */
  uint64_t skip_from; /* from this address on */
  uint8_t *settled;   /* bit per page from skip_from's to end: see above */
  struct spill moved; /* keys, 8 bytes each */
  int failed;         /* a moved key could not be noted */
  int aborted;        /* WATCH_ROLLBACK or WATCH_LOADED, or 0 */
};

/* Adds the watch to the list and sets end; outside any epoch.  skip_txn and
** skip_from say which transaction's pages do not count, if any.  *first: the
** page to begin with.  EMB_NOMEM: nothing is open. */
int watch_open(struct core *core, struct scan_watch *watch, uint64_t *first);
void watch_close(struct core *core, struct scan_watch *watch);
static inline int watch_any(const struct core *core) {
  return atomic_load_explicit(&core->scan_count, memory_order_acquire) != 0;
}
/* The key's record goes from one log address to another (0: none).  Under
** scan_lock.  session:
** only scans of this session (a transaction's own write), or with `others`
** set all scans but those of this session (its commit); NULL: all. */
void watch_moved(struct core *core, int64_t key, uint64_t from, uint64_t to,
                 const void *session, int others);
/* The session's transaction is undone; NULL: the store is loaded anew, which
** ends all scans. */
void watch_abort(struct core *core, const void *session);

#endif
