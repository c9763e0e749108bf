/* SPDX-License-Identifier: MIT
**
** checkpoint.h -- making the current state the one that the next open finds.
** README.md has the steps of a checkpoint.
**
** INVARIANT P1  A manifest names only durable pages and an index file that has
**               already been synced.
**           P2  Space that a valid manifest slot or its replay may read is not
**               freed until both slots name a later checkpoint.  So the store
**               can be opened from either slot, whenever a crash occurs.
**           P3  The owner overwrites only its own manifest (identity.h).
** FAILURE   Until the manifest is written (step 5) the old checkpoint stays
**           valid and nothing is freed.
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
