/* SPDX-License-Identifier: MIT
**
** checkpoint.h -- making the present state the one that an open finds.
**
**   0  make sure that the files are still this process's own   [identity.h]
**   1  close the open pages and wait until each session has left the epoch
**      once; replay = the tail then, or the first page of an open transaction
**      if that is lower.  Records below stay mutable
**   2  extents below replay that hold no live record are dead
**   3  write what is hot and what admission has counted, and dump the index
**      beside readers and writers     [save, dump__write]
**   4  seal, flush and sync, once: everything the dump can name is durable.
**      Then the index file gets its list of extents, and is synced
**   5  write and sync one slot of the manifest: the checkpoint is valid; then
**      the other one: no slot names the checkpoint before any more
**   6  free dead extents, but for what other processes are reading [readers.h];
**      the old index file is where the next index goes
**
** INVARIANT P1  A manifest names only durable pages and an index file that was
**               synced before.
**           P2  Space that a valid slot of the manifest or its replay may read
**               is not freed before both slots name something later.  So the
**               store can be opened from either slot, whenever it is cut off.
**           P3  A manifest is written only over the owner's own (identity.h).
** FAILURE   Before step 5 the old checkpoint stays valid and nothing was
**           freed; a failed write or sync of the manifest fails the store.
** SPACE     None that was not taken before (kernel/reserve.h): a checkpoint is
**           what gives space back.
*/
#ifndef EMB_CKPT_CHECKPOINT_H
#define EMB_CKPT_CHECKPOINT_H

#include "manifest.h"

struct checkpoint {
  struct manifest manifest; /* of the newest valid one */
  uint64_t dead_bytes;      /* freed by the last one; for statistics */
  uint64_t version;         /* core's: what came later is not in it */
  int (*interrupt)(void *); /* or NULL; non-zero ends the one that is taken */
  void *interrupt_arg;      /*   with EMB_INTERRUPT */
  /* What else is written with each, before its index: files of the store that
  ** may be of an older moment. */
  int (*save)(struct core *, struct epoch_slot *, emb_err *);
};

/* Under ckpt_lock, outside any epoch.  clean: nothing will be written after
** it by this process. */
int checkpoint_take(struct core *core, struct epoch_slot *slot,
                    struct checkpoint *checkpoint, int clean, emb_err *err);
/* Fills in what the store is like: schema and sizes. */
void checkpoint_describe(const struct core *core, struct manifest *manifest);
/* Says in the manifest that a process owns the store for writing. */
int checkpoint_claim(struct core *core, struct checkpoint *checkpoint,
                     emb_err *err);

#endif
