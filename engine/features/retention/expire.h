/* SPDX-License-Identifier: MIT
**
** expire.h -- removes rows that were not updated for their time to live.
**
** A row is due at updated_at + ttl of its key.  For each extent memory holds
** the time when its first record is due, or an earlier time (log.h).  Extents
** that are not due are not looked at, so the cost grows with the old rows, not
** with the table.  A step takes the extent that is due first, in memory or
** from disk, removes its due rows, and then knows the exact time of the next
** one.
**
** Background steps let an extent be overdue by a sixteenth of the shortest time
** to live, in order to find more due rows in it in one pass.  A row therefore
** lives at most seventeen sixteenths of its time, if steps keep up, and can be
** read until it is removed.  emb_expire removes all due rows.
**
** REMOVAL   and waiting: see sweep.h.
** THREADS   Under ckpt_lock, outside any epoch.
*/
#ifndef EMB_RETENTION_EXPIRE_H
#define EMB_RETENTION_EXPIRE_H

#include "engine/storage/kernel/core.h"

/* Time by which background steps let an extent be overdue. */
uint32_t expire__slack(const struct core *core);
/* Returns the extent that is due first, and *when; 0: none is ever due. */
uint64_t expire__first(struct core *core, uint32_t *when);
/* Returns the first extent to look at of those due at now - slack; 0: none. */
uint64_t expire__choose(struct core *core, uint32_t now, uint32_t slack);
struct expire_pass {
  uint64_t extent;
  uint32_t now;
  uint32_t retry;   /* when the extent is due again because of rows held by a
                       transaction */
  uint64_t removed; /* grows by the rows removed */
};
/* Removes the rows of one extent that are due at `now`. */
int expire__extent(struct core *core, struct epoch_slot *slot,
                   struct expire_pass *pass, emb_err *err);

#endif
