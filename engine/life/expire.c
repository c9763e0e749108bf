/* SPDX-License-Identifier: MIT
**
** expire.c -- see expire.h.
**
** EXACTLY   While an extent is gone through its time is "never", and writers
**           lower it as they fill slots.  Everybody leaves the epoch once in
**           between: whoever lowered it before has published what he filled, so
**           it is seen here; who comes later lowers the new time.  A record
**           that an open transaction has filled is not live and counts all the
**           same.
*/
#include "expire.h"

#include "../emb.h"
#include "sweep.h"

#define SLACK_PART 16

struct expiry {
  uint32_t now, retry;
  uint64_t open; /* first page of an open transaction, 0: none */
  uint32_t due;  /* of the record that was asked for last */
  uint64_t *removed;
};

uint32_t expire_slack(const struct core *core) {
  return ttl_least(&core->schema.ttl) / SLACK_PART;
}

uint64_t expire_choose(struct core *core, uint32_t now, uint32_t slack) {
  struct log *log = &core->log;
  uint64_t bits = core->layout.extent_bits, first = 0;
  uint64_t open = atomic_load(&core->txn_first_page);
  uint32_t least = now > slack ? now - slack : 0;
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  uint64_t tail = atomic_load(&log->tail);
  uint64_t end =
      open ? open >> bits : (tail + core->layout.extent_pages - 1) >> bits;
  for (uint64_t e = log->first; e < end; e++) {
    const struct extent *extent = log_extent(log, e);
    uint32_t due = atomic_load_explicit(&extent->due, memory_order_relaxed);
    if (due <= least && extent_phys(extent) != EXTENT_NOWHERE &&
        atomic_load_explicit(&extent->live, memory_order_relaxed) > 0 &&
        (!first || due < atomic_load_explicit(&log_extent(log, first)->due,
                                              memory_order_relaxed))) {
      first = e;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return first;
}

static int is_due(struct sweep *w, int64_t key, uint64_t version) {
  struct expiry *x = w->arg;
  (void)version;
  x->due = schema_due(&w->core->schema, key, w->value);
  return x->due <= x->now || EMB_SEED(70);
}

/* One record. */
static int look_at(struct sweep *w, const struct rec *rec, int64_t key,
                   uint64_t address) {
  struct core *core = w->core;
  struct expiry *x = w->arg;
  uint64_t version;
  int outcome, live = sweep_is_live(core, key, address);
  if ((!live && (!x->open || layout_page(&core->layout, address) < x->open)) ||
      !sweep_value(w, rec, key, &version)) {
    return EMB_OK;
  }
  x->due = schema_due(&core->schema, key, w->value);
  if (live && (x->due <= x->now || EMB_SEED(70))) {
    int rc = sweep_remove(w, rec, key, address, PAGE_EXPIRED, is_due, &outcome);
    if (rc) {
      return rc;
    }
    if (outcome == SWEEP_REMOVED) {
      count_add(&core->counters.expired_keys, 1);
      ++*x->removed;
    }
    x->due = outcome == SWEEP_HELD    ? x->retry
             : outcome == SWEEP_STAYS ? x->due
                                      : TTL_NEVER;
  }
  if (!EMB_SEED(78)) {
    log_due(&core->log, address, x->due);
  }
  return EMB_OK;
}

int expire_extent(struct core *core, struct epoch_slot *slot, uint64_t number,
                  uint32_t now, uint32_t retry, uint64_t *removed,
                  emb_err *err) {
  struct expiry x = {.now = now, .retry = retry, .removed = removed};
  struct sweep w = {.look = look_at, .arg = &x};
  uint64_t first = number << core->layout.extent_bits;
  epoch_enter(&core->epoch, slot); /* the table stays */
  uint32_t before =
      atomic_exchange(&log_extent(&core->log, number)->due, EXTENT_NEVER);
  epoch_leave(slot);
  epoch_wait(&core->epoch);
  x.open = atomic_load(&core->txn_first_page);
  int rc = sweep_init(&w, core, slot, err);
  rc = rc ? rc : sweep_pages(&w, first, first + core->layout.extent_pages, err);
  sweep_free(&w);
  if (rc) { /* what was not looked at may be due */
    epoch_enter(&core->epoch, slot);
    log_due(&core->log, layout_address(&core->layout, first, 0), before);
    epoch_leave(slot);
  }
  return rc;
}
