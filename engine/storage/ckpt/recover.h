/* SPDX-License-Identifier: MIT
**
** recover.h -- from the files to the last commit or checkpoint.
**
**   1  the newest valid manifest, its index file             [dump__load]
**   2  extents that were written after it: the checksum of a first page shows
**      which extent a file slot holds                        [find_extents]
**   3  first pass over the pages from `replay` on: where the log ends, and
**      which transactions are complete, undone or in doubt    [survey_page]
**   4  second pass: applies records and deletions; of all records of a key the
**      highest address wins                                   [recover_apply]
**
** The log ends at the first page whose checksum is wrong.  That is a torn tail
** unless something proves that the page had been durable.  Then it is
** corruption, and said so.  Proof is the manifest's tail, or a sign further up
** that a prepare had returned: a synced transaction end (SYNCED) and a page of
** a later transaction.  A synced end alone is no proof: its prepare may have
** been writing when the power failed, and pages reach the disk in any order.
** That transaction is in doubt like any other that was prepared; only, if its
** coordinator decided for it, then the prepare had returned, and the commit
** reports the corruption.  If the one before it is undecided as well (what
** undid it may be torn too), that one is in doubt and the torn one is dropped;
** a coordinator that had decided for it sees that emb_committed falls short.
**
** New extents get numbers above all that may ever have been written, found or
** not: the rest of an extent whose first page did not reach the disk must not
** continue a new extent of the same number.
**
** DECISIONS  A transaction is applied if it is complete (LAST) and no abort
** page follows.  The last one, if it was prepared (SYNCED) and is newer than
** the manifest's txn_committed, is in doubt: its coordinator knows.  Any other
** prepared one was decided before the next began, and left an abort page if it
** was undone.
*/
#ifndef EMB_CKPT_RECOVER_H
#define EMB_CKPT_RECOVER_H

#include "checkpoint.h"

struct seen_range {
  uint64_t from, to;
};

struct seen_txn { /* a transaction met in the replayed part of the log */
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
  uint64_t end;      /* first page that is not replayed */
  uint64_t highest;  /* no extent in the file has a higher number */
  uint64_t in_doubt; /* number of the transaction in doubt, or 0 */
  uint64_t torn;     /* transaction whose synced end lies beyond `end`, or 0 */
  char *buffer;      /* one extent */
  emb_err *err;
};

/* Loads the checkpoint of `manifest` into an empty core, which is the state at
** the manifest's tail; with `replay` also what the log holds beyond it.  The
** recovery is kept (not NULL) only while a transaction is in doubt. */
int recover(struct core *core, const struct manifest *manifest, int replay,
            struct recovery **recovery, emb_err *err);
/* Applies the transaction in doubt.  EMB_CORRUPT: part of it is damaged. */
int recover_commit(struct recovery *recovery, emb_err *err);
void recovery_free(struct recovery *recovery);

#endif
