/* SPDX-License-Identifier: MIT
**
** sweep.h -- goes through the records of some pages, in memory or from disk,
** and removes rows: what expiry (expire.h) and eviction (evict.h) share.
**
** REMOVAL   is a deletion like any other, under the key's latch, if the row
**           still agrees there; its tombstone lies in a page with a flag that
**           says why.  Recovery and scans treat both alike.
** LATER     What an open transaction holds or has written waits for its end.
** THREADS   Under ckpt_lock, outside any epoch.
*/
#ifndef EMB_RETENTION_SWEEP_H
#define EMB_RETENTION_SWEEP_H

#include "engine/storage/kernel/core.h"

struct sweep {
  struct core *core;
  struct epoch_slot *slot;
  /* Of each slot that was used, whether it is its key's latest record or not.
  ** Inside an epoch; LOG_ROOM: again after making room. */
  int (*look)(struct sweep *sweep, const struct rec *rec, int64_t key,
              uint64_t address);
  /* Of sweep__remove: asked with the present value, in `value`. */
  int (*agrees)(struct sweep *sweep, int64_t key, uint64_t version);
  uint32_t reason; /* PAGE_EXPIRED, PAGE_EVICTED */
  void *arg;
  char *value;        /* of one record, by sweep__value */
  char *buffer;       /* of an extent's size, once something was read */
  uint64_t from, end; /* pages that it holds */
};

/* EMB_NOMEM; sweep__free takes what is there. */
int sweep__init(struct sweep *sweep, struct core *core, struct epoch_slot *slot,
                emb_err *err);
void sweep__free(struct sweep *sweep);
/* Pages [from, end) of one extent. */
int sweep__pages(struct sweep *sweep, uint64_t from, uint64_t end,
                 emb_err *err);

/* Is the record at the address the key's?  Inside an epoch. */
int sweep__is_live(struct core *core, int64_t key, uint64_t address);
/* The value of the record as it is now, for it may be changed in place, into
** sweep->value; 0: it is not the key's any more. */
int sweep__value(struct sweep *sweep, const struct rec *rec, int64_t key,
                 uint64_t *version);
/* Removes the key if its record is the one at `address` (rec: a copy of it) and
** sweep->agrees says so. */
enum { SWEEP_REMOVED, SWEEP_STAYS, SWEEP_HELD, SWEEP_GONE };
int sweep__remove(struct sweep *sweep, const struct rec *rec, int64_t key,
                  uint64_t address, int *outcome);

#endif
