/* SPDX-License-Identifier: MIT
**
** checkpoint.h -- making the current state the one that the next open finds.
**
**   0  check that this process still owns the files            [identity.h]
**   1  close the open pages and wait until every session has left the epoch
**      once; replay = the tail at that point, or the first page of an open
**      transaction if lower.  Records below it stay mutable
**   2  mark the extents below replay without live records as dead
**   3  write the hot set and the admission counts, and dump the index while
**      readers and writers run             [save, dump__write]
**   4  seal, flush and sync the log once: everything the dump can name is
**      durable.  Then append the list of extents to the index file, and sync it
**   5  write and sync one manifest slot: the checkpoint is valid.  Then the
**      other slot: neither names the previous checkpoint any more
**   6  free dead extents, except those other processes are reading [readers.h];
**      the next index will be written over the old index file
**
** INVARIANT P1  A manifest names only durable pages and an index file that has
**               already been synced.
**           P2  Space that a valid manifest slot or its replay may read is not
**               freed until both slots name a later checkpoint.  So the store
**               can be opened from either slot, whenever a crash occurs.
**           P3  The owner overwrites only its own manifest (identity.h).
** FAILURE   Until step 5 the old checkpoint stays valid and nothing is freed.
**           A failed write or sync of the manifest fails the store.
** SPACE     Uses only space reserved in advance (kernel/reserve.h), because a
**           checkpoint is what frees space.
*/
#ifndef EMB_CKPT_CHECKPOINT_H
#define EMB_CKPT_CHECKPOINT_H

#include "manifest.h"

struct checkpoint {
  struct manifest manifest; /* of the newest valid checkpoint */
  uint64_t dead_bytes;      /* freed by the last checkpoint; for statistics */
  uint64_t version;         /* core's version; later changes are not in it */
  int (*interrupt)(void *); /* or NULL; non-zero aborts a running checkpoint */
  void *interrupt_arg;      /*   with EMB_INTERRUPT */
  /* Writes the other files of each checkpoint, before its index.  They may
  ** reflect an earlier state than the index. */
  int (*save)(struct core *, struct epoch_slot *, emb_err *);
};

/* Under ckpt_lock, outside any epoch.  clean: this process will write nothing
** after it. */
int checkpoint_take(struct core *core, struct epoch_slot *slot,
                    struct checkpoint *checkpoint, int clean, emb_err *err);
/* Fills in the store's schema and sizes. */
void checkpoint_describe(const struct core *core, struct manifest *manifest);
/* Records in the manifest that a process owns the store for writing. */
int checkpoint_claim(struct core *core, struct checkpoint *checkpoint,
                     emb_err *err);

#endif
