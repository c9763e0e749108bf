/* SPDX-License-Identifier: MIT
**
** sweep.h -- goes through the records of some pages, in memory or from disk,
** and removes rows: the common part of expiry (expire.h) and eviction
** (evict.h).
**
** REMOVAL   is a deletion like any other, under the key's latch, if the row
**           still agrees there; its tombstone is in a page with a flag for the
**           reason.  Recovery and scans treat both alike.
** LATER     A row that an open transaction holds or has written waits for the
**           transaction's end.
** THREADS   Under ckpt_lock, outside any epoch.
*/
#ifndef EMB_RETENTION_SWEEP_H
#define EMB_RETENTION_SWEEP_H

#include "engine/storage/kernel/core.h"

struct sweep {
  struct core *core;
  struct epoch_slot *slot;
  /* Called for each used slot, whether or not it is its key's latest record.
  ** Inside an epoch; LOG_ROOM: called again after making room. */
  int (*look)(struct sweep *sweep, const struct rec *rec, int64_t key,
              uint64_t address);
  /* Called by sweep__remove with the current value, in `value`. */
  int (*agrees)(struct sweep *sweep, int64_t key, uint64_t version);
  uint32_t reason; /* PAGE_EXPIRED, PAGE_EVICTED */
  void *arg;
  char *value;        /* of one record, by sweep__value */
  char *buffer;       /* of an extent's size, once a page was read */
  uint64_t from, end; /* pages that the buffer holds */
};

/* EMB_NOMEM; sweep__free releases whatever was allocated. */
int sweep__init(struct sweep *sweep, struct core *core, struct epoch_slot *slot,
                emb_err *err);
void sweep__free(struct sweep *sweep);
/* Goes through the pages [from, end) of one extent. */
int sweep__pages(struct sweep *sweep, uint64_t from, uint64_t end,
                 emb_err *err);

/* Does the buffer hold what its fields say?  Only in self-checking builds. */
int sweep_valid(const struct sweep *sweep);

/* Is this address that of the key's record?  Inside an epoch. */
int sweep__is_live(struct core *core, int64_t key, uint64_t address);
/* Copies the record's current value, which may be changed in place, into
** sweep->value; returns 0 if the record is no longer the key's. */
int sweep__value(struct sweep *sweep, const struct rec *rec, int64_t key,
                 uint64_t *version);
/* Removes the key if its record is the one at `address` (rec: a copy of it) and
** sweep->agrees says so. */
enum { SWEEP_REMOVED, SWEEP_STAYS, SWEEP_HELD, SWEEP_GONE };
int sweep__remove(struct sweep *sweep, const struct rec *rec, int64_t key,
                  uint64_t address, int *outcome);

#endif
