/* SPDX-License-Identifier: MIT
**
** watch.h -- how a scan in log order sees every key exactly once while
** records move.
**
** A scan walks the log addresses [start, end) and delivers the records that are
** live when it passes.  Opening the scan closes the open pages: from then on
** slots are handed out at or above end only.  A record moved away before the
** scan reaches it would be missed, so a move of a record from that range to
** beyond end is reported to the scan, which delivers the key at the end.  A
** record moved after the scan passed it has already been delivered.  Deletions
** are not reported: if the key is added again it is a different row.
**
** A delta that gathers deletions is also told
**
**   passed    of keys that leave the part it has passed.  Such a key existed at
**             the delta's mark, and was delivered if it belongs to the delta.
**             So a later deletion of the key belongs to the next delta,
**             whatever older deletions this delta passes
**   removed   of all other removals: of rows that the scan did not reach, and
**             of rows that moved beyond end before
**
** A transaction of another session that was open when the scan began has
** records below `end` that become visible only when it commits.  The scan
** skips the transaction's pages (skip_txn).  The commit reports moves into them
** like moves beyond end, and marks each page in `settled`: records that leave
** such a page later were delivered.  A scan of the transaction's own session
** sees the writes immediately, and they are reported to it immediately.
**
** The watch is an observer (observe.h), called for changes while a scan is
** open.
**
** THREADS  core->scan_lock is held while a record moves and the move is noted,
** and while a scan tests which records of a page are live and passes the page;
** the observer takes it when called and releases it when the move has ended.
** A session that does not see that a scan is open took its slot before the
** pages were closed, and so below `end`; watch_open waits for the epoch, so
** that the session's move is over when the scan begins.
*/
#ifndef EMB_KERNEL_WATCH_H
#define EMB_KERNEL_WATCH_H

#include "engine/base/err.h"
#include "core.h"
#include "engine/base/mem/spill.h"

/* Why a scan cannot go on. */
enum { WATCH_ROLLBACK = 1, WATCH_LOADED = 2 };

struct watch_removal {
  int64_t key;
  uint64_t cause; /* enum row_cause */
};

struct scan_watch {
  struct scan_watch *next;
  const void *session;
  uint64_t cursor; /* addresses below it were passed */
  uint64_t end;
  uint64_t skip_txn;    /* records in pages of this transaction are skipped */
  uint64_t skip_from;   /* from this address on */
  uint8_t *settled;     /* bit per page from skip_from's to end: see above */
  struct spill moved;   /* keys, 8 bytes each */
  int deletions;        /* a delta that gathers deletions; as long as it does */
  struct spill passed;  /* keys that left the part already passed */
  struct spill removed; /* struct watch_removal */
  int failed;           /* a moved key could not be noted */
  int aborted;          /* WATCH_ROLLBACK or WATCH_LOADED, or 0 */
};

/* Registers the core's observer; call before any other observer is
** registered. */
void watch_init(struct core *core);
/* Adds the watch to the list and sets end; outside any epoch.  skip_txn and
** skip_from name the transaction whose pages to skip, if any.  *first: the page
** to begin with.  EMB_NOMEM: nothing is open. */
int watch_open(struct core *core, struct scan_watch *watch, uint64_t *first);
void watch_close(struct core *core, struct scan_watch *watch);
/* Does the scan pass the record at this address, if it is still live by then?
** 0 for a record added since the scan began, and for address 0.  Under
** scan_lock. */
int watch_covers(const struct core *core, const struct scan_watch *watch,
                 uint64_t address);
static inline int watch_any(const struct core *core) {
  return observe_is_on(&core->observers, &core->watch);
}
/* Reports a write of the session's transaction, which the session's own scans
** see immediately: the key's record goes from one log address to another. */
void watch_own_write(struct core *core, int64_t key, uint64_t from, uint64_t to,
                     const void *session);
/* Ends the session's scans: its transaction was rolled back. */
void watch_abort(struct core *core, const void *session);

#endif
