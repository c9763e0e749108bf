/* SPDX-License-Identifier: MIT
**
** keep.h -- who still needs old parts of the log.
**
** An extent whose records were all replaced is freed by the next checkpoint,
** unless a keeper needs it: a snapshot names records in it, or a consumer of
** deltas has not seen the deletions in it.  An extent that is kept is no waste:
** compaction leaves it alone, since copying what lives in it would free
** nothing.
**
** THREADS  The list changes under ckpt_lock and log.lock together, so either of
**          them is enough to look at it.
*/
#ifndef EMB_CORE_KEEP_H
#define EMB_CORE_KEEP_H

#include "core.h"

struct keeper {
  struct keeper *next;
  /* Asked under one of the locks; does not wait. */
  int (*needs)(const struct keeper *keeper, uint64_t extent);
  /* The lowest extent that it may need, or NULL: any.  Likewise. */
  uint64_t (*floor)(const struct keeper *keeper);
  /* Before a checkpoint chooses what it frees, under ckpt_lock alone: gives up
  ** what is beyond a limit.  Or NULL. */
  void (*settle)(struct keeper *keeper);
};

/* Under ckpt_lock. */
void keep_begin(struct core *core, struct keeper *keeper);
void keep_end(struct core *core, struct keeper *keeper);
void keep_settle(struct core *core);

/* The lowest extent that somebody may need. */
uint64_t keep_floor(const struct core *core);

static inline int keep_needed(const struct core *core, uint64_t extent) {
  for (const struct keeper *k = core->keepers; k; k = k->next) {
    if (k->needs(k, extent) && !EMB_SEED(62)) {
      return 1;
    }
  }
  return 0;
}

#endif
