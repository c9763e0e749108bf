/* SPDX-License-Identifier: MIT
**
** recover.h -- rebuilds the last committed state, or a checkpoint, from the
** files.  README.md has the steps of a recovery.
**
** The log ends at the first page with a wrong checksum.  Such a page is a torn
** tail unless something proves that it had been durable; in that case
** corruption is reported.  The proof is the manifest's tail, or evidence
** further up that a prepare had returned: a synced transaction end (SYNCED) and
** a page of a later transaction.  A synced end alone is no proof: its prepare
** may have been writing when the power failed, and pages reach the disk in any
** order.  That transaction is in doubt like any other prepared transaction.
** But if its coordinator decided to commit it, then the prepare had returned,
** and the commit reports the corruption.  If the transaction before it is
** undecided as well (its abort page may be torn too), the earlier one is in
** doubt and the torn one is dropped; a coordinator that had decided to commit
** the torn one sees that emb_committed falls short.
**
** New extents get numbers above every number that may ever have been written,
** found or not: the remains of an extent whose first page did not reach the
** disk must not appear to continue a new extent with the same number.
**
** DECISIONS  A transaction is applied if it is complete (LAST) and no abort
** page follows.  The last one, if it was prepared (SYNCED) and is newer than
** the manifest's txn_committed, is in doubt: its coordinator knows.  Any other
** prepared transaction was decided before the next began, and left an abort
** page if it was undone.
*/
#ifndef EMB_CKPT_RECOVER_H
#define EMB_CKPT_RECOVER_H

#include "checkpoint.h"

struct seen_range {
  uint64_t from, to;
};

struct seen_txn { /* a transaction found in the replayed part of the log */
  uint64_t number;
  uint64_t first, last; /* pages */
  int complete, synced, aborted;
  struct seen_range *voids;
  size_t void_count, void_room;
};

struct recovery {
  struct core *core;
  const struct manifest *manifest;
  struct seen_txn *txns;
  size_t txn_count, txn_room;
  uint64_t end;      /* first page not replayed */
  uint64_t highest;  /* no extent in the file has a higher number */
  uint64_t in_doubt; /* number of the transaction in doubt, or 0 */
  uint64_t torn;     /* transaction whose synced end is beyond `end`, or 0 */
  char *buffer;      /* one extent */
  emb_err *err;
};

/* Loads the checkpoint of `manifest`, the state at the manifest's tail, into an
** empty core.  With `replay`, also replays the log beyond the tail.  *recovery
** is not NULL only if a transaction is in doubt. */
int recover(struct core *core, const struct manifest *manifest, int replay,
            struct recovery **recovery, emb_err *err);
/* Applies the transaction in doubt.  EMB_CORRUPT: part of the transaction is
** damaged. */
int recover_commit(struct recovery *recovery, emb_err *err);
void recovery_free(struct recovery *recovery);

#endif
