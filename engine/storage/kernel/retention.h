/* SPDX-License-Identifier: MIT
**
** retention.h -- the holds that keep old parts of the log.
**
** The next checkpoint frees an extent whose records were all replaced, unless a
** retention hold needs the extent: a snapshot names records in it, or a
** consumer of deltas has not seen the deletions in it.  A kept extent does not
** count as waste: compaction leaves it alone, since copying its live records
** would free nothing.
**
** THREADS  The list changes under ckpt_lock and log.lock together, so either
**          lock is enough to read it.
*/
#ifndef EMB_KERNEL_RETENTION_H
#define EMB_KERNEL_RETENTION_H

#include "core.h"

struct retention {
  struct retention *next;
  /* Does the hold need the extent?  Called under one of the locks; must not
  ** wait. */
  int (*needs)(const struct retention *hold, uint64_t extent);
  /* Returns the lowest extent that the hold may need; NULL: it may need any.
  ** Called under one of the locks; must not wait. */
  uint64_t (*floor)(const struct retention *hold);
  /* Called under ckpt_lock alone, before a checkpoint chooses the extents to
  ** free: gives up whatever exceeds a limit.  Or NULL. */
  void (*settle)(struct retention *hold);
};

/* Under ckpt_lock. */
void retention_begin(struct core *core, struct retention *hold);
void retention_end(struct core *core, struct retention *hold);
void retention_settle(struct core *core);

/* Returns the lowest extent that any hold may need. */
uint64_t retention__floor(const struct core *core);

static inline int retention_needed(const struct core *core, uint64_t extent) {
  for (const struct retention *k = core->retentions; k; k = k->next) {
    if (k->needs(k, extent) && !EMB_SEED(SEED_SNAPSHOT_EXTENT_FREED)) {
      return 1;
    }
  }
  return 0;
}

/* For assertions: does no hold need the extent?  Under one of the locks. */
int retention_allows(const struct core *core, uint64_t extent);

#endif
