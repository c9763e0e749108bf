/* SPDX-License-Identifier: MIT
**
** watch.h -- how a scan in log order sees every key exactly once while
** records move.
**
** A scan walks the log addresses [start, end) and delivers the records that are
** live when it passes.  When it began, the open pages were closed: from then on
** slots are handed out at or above end only.  A record that is moved away
** before the scan reaches it would be missed; so a move of a record of that
** range beyond end is reported to the scan, which delivers the key at the end.
** A record that is moved after the scan passed it was delivered already.  A
** deletion is not reported: if the key comes back it is another one.
**
** A delta that gathers deletions also gets reports of what leaves the part that
** it has passed: such a key was there at its mark, so what deletes it later
** belongs to the next delta, whatever older deletions this one passes.
**
** A transaction of another session that was open when the scan began has
** records below `end` that only become visible when it commits.  The scan
** leaves its pages out (skip_txn).  The commit reports the moves into them like
** moves beyond end, and marks the page in `settled`: what leaves it later was
** delivered.  To a scan of the transaction's own session its writes are
** visible, and reported, at once.
**
** The watch is an observer (observe.h) that is called for changes while a scan
** is open.
**
** THREADS  Moving a record and noting it, or testing which records of a page
** are live and passing it, happens under core->scan_lock; the observer takes it
** when it is called, and releases it when the move has ended.  A session that
** does not see that a scan is open took its slot before the pages were closed,
** so below `end`; watch_open waits for the epoch, so that its move is over when
** the scan begins.
*/
#ifndef EMB_KERNEL_WATCH_H
#define EMB_KERNEL_WATCH_H

#include "engine/base/err.h"
#include "core.h"
#include "engine/base/mem/spill.h"

/* Why a scan cannot go on. */
enum { WATCH_ROLLBACK = 1, WATCH_LOADED = 2 };

struct scan_watch {
  struct scan_watch *next;
  const void *session;
  uint64_t cursor; /* addresses below were passed */
  uint64_t end;
  uint64_t skip_txn;   /* records in pages of this transaction do not count */
  uint64_t skip_from;  /* from this address on */
  uint8_t *settled;    /* bit per page from skip_from's to end: see above */
  struct spill moved;  /* keys, 8 bytes each */
  int deletions;       /* a delta that gathers them; `passed` is open */
  struct spill passed; /* keys that left the part that was passed */
  int failed;          /* a moved key could not be noted */
  int aborted;         /* WATCH_ROLLBACK or WATCH_LOADED, or 0 */
};

/* Makes the core's observer; before any other is registered. */
void watch_init(struct core *core);
/* Adds the watch to the list and sets end; outside any epoch.  skip_txn and
** skip_from say which transaction's pages do not count, if any.  *first: the
** page to begin with.  EMB_NOMEM: nothing is open. */
int watch_open(struct core *core, struct scan_watch *watch, uint64_t *first);
void watch_close(struct core *core, struct scan_watch *watch);
static inline int watch_any(const struct core *core) {
  return observe_is_on(&core->observers, &core->watch);
}
/* A write of the session's transaction, which its own scans see at once: the
** key's record goes from one log address to another. */
void watch_own_write(struct core *core, int64_t key, uint64_t from, uint64_t to,
                     const void *session);
/* The session's transaction is undone. */
void watch_abort(struct core *core, const void *session);

#endif
