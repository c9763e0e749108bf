/* SPDX-License-Identifier: MIT
**
** expire.h -- rows that were not updated for their time to live are removed.
**
** A row is due at updated_at + ttl of its key.  Each extent has in memory the
** time when the first of its records is due, or an earlier one (log.h): what is
** not due is not looked at, so the cost follows what is old and not the table.
** A step takes the extent that is due first, in memory or from disk, removes
** the rows in it that are due, and then has the exact time of the next one.
**
** Background steps let an extent be overdue by a sixteenth of the shortest time
** to live, and find more in it at once.  So a row is there for at most
** seventeen sixteenths of its time, as far as steps keep up, and can be read
** until it is removed.  emb_expire removes all that is due.
**
** REMOVAL   and what waits: see sweep.h.
** THREADS   Under ckpt_lock, outside any epoch.
*/
#ifndef EMB_RETENTION_EXPIRE_H
#define EMB_RETENTION_EXPIRE_H

#include "engine/storage/kernel/core.h"

/* How long background steps let an extent be overdue. */
uint32_t expire__slack(const struct core *core);
/* The extent that is due first, and when; 0: none ever is. */
uint64_t expire__first(struct core *core, uint32_t *when);
/* The extent to be looked at first of those that are due at now - slack; 0:
** there is none. */
uint64_t expire__choose(struct core *core, uint32_t now, uint32_t slack);
struct expire_pass {
  uint64_t extent;
  uint32_t now;
  uint32_t retry;   /* when the extent is due again for the sake of rows that a
                       transaction holds */
  uint64_t removed; /* grows by the rows */
};
/* Removes what is due at `now` in one extent. */
int expire__extent(struct core *core, struct epoch_slot *slot,
                   struct expire_pass *pass, emb_err *err);

#endif
