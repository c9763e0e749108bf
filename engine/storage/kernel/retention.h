/* SPDX-License-Identifier: MIT
**
** retention.h -- what still needs old parts of the log.
**
** An extent whose records were all replaced is freed by the next checkpoint,
** unless a retention hold needs it: a snapshot names records in it, or a
** consumer of deltas has not seen the deletions in it.  An extent that is kept
** does not count as waste: compaction leaves it alone, since copying the live
** records in it would free nothing.
**
** THREADS  The list changes under ckpt_lock and log.lock together, so either of
**          them is enough to look at it.
*/
#ifndef EMB_KERNEL_RETENTION_H
#define EMB_KERNEL_RETENTION_H

#include "core.h"

struct retention {
  struct retention *next;
  /* Asked under one of the locks; does not wait. */
  int (*needs)(const struct retention *hold, uint64_t extent);
  /* The lowest extent that it may need, or NULL: any.  Likewise. */
  uint64_t (*floor)(const struct retention *hold);
  /* Before a checkpoint chooses what it frees, under ckpt_lock alone: gives up
  ** what is beyond a limit.  Or NULL. */
  void (*settle)(struct retention *hold);
};

/* Under ckpt_lock. */
void retention_begin(struct core *core, struct retention *hold);
void retention_end(struct core *core, struct retention *hold);
void retention_settle(struct core *core);

/* The lowest extent that a hold may need. */
uint64_t retention__floor(const struct core *core);

static inline int retention_needed(const struct core *core, uint64_t extent) {
  for (const struct retention *k = core->retentions; k; k = k->next) {
    if (k->needs(k, extent) && !EMB_SEED(SEED_SNAPSHOT_EXTENT_FREED)) {
      return 1;
    }
  }
  return 0;
}

/* For assertions: no hold needs the extent.  Under one of the locks. */
int retention_allows(const struct core *core, uint64_t extent);

#endif
