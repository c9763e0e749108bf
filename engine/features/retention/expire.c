/* SPDX-License-Identifier: MIT
**
** expire.c -- see expire.h.
**
** EXACTLY   While an extent is being scanned its due time is "never", and
**           writers lower it as they fill slots.  Every session leaves the
**           epoch once after the time is set: a session that lowered the old
**           time has by then published the slots it filled, so the scan sees
**           them; a later one lowers the new time.  A record that an open
**           transaction has filled is not live, but still counts.
*/
#include "expire.h"

#include "engine/emb.h"
#include "sweep.h"

#define SLACK_PART 16

struct expiry {
  struct expire_pass *pass;
  uint64_t open; /* first page of an open transaction, 0: none */
  uint32_t due;  /* of the record last examined */
};

uint32_t expire__slack(const struct core *core) {
  return ttl_least(&core->schema.ttl) / SLACK_PART;
}

uint64_t expire__first(struct core *core, uint32_t *when) {
  struct log *log = &core->log;
  uint64_t bits = core->layout.extent_bits, first = 0;
  uint64_t open = atomic_load(&core->txn_first_page);
  *when = EXTENT_NEVER;
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  uint64_t tail = atomic_load(&log->tail);
  uint64_t end =
      open ? open >> bits : (tail + core->layout.extent_pages - 1) >> bits;
  for (uint64_t e = log->first; e < end; e++) {
    const struct extent *extent = log_extent(log, e);
    uint32_t due = atomic_load_explicit(&extent->due, memory_order_relaxed);
    if (due < *when && extent_phys(extent) != EXTENT_NOWHERE &&
        atomic_load_explicit(&extent->live, memory_order_relaxed) > 0) {
      first = e;
      *when = due;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return first;
}

uint64_t expire__choose(struct core *core, uint32_t now, uint32_t slack) {
  uint32_t when;
  uint64_t first = expire__first(core, &when);
  return when <= (now > slack ? now - slack : 0) ? first : 0;
}

static int is_due(struct sweep *w, int64_t key, uint64_t version) {
  struct expiry *x = w->arg;
  (void)version;
  x->due = schema_due(&w->core->schema, key, w->value);
  return x->due <= x->pass->now || EMB_SEED(SEED_EXPIRY_TOO_EARLY);
}

/* Examines one record, and removes its row if due. */
static int expire_look_at(struct sweep *w, const struct rec *rec, int64_t key,
                          uint64_t address) {
  struct core *core = w->core;
  struct expiry *x = w->arg;
  uint64_t version;
  int outcome, live = sweep__is_live(core, key, address);
  if ((!live && (!x->open || layout_page(&core->layout, address) < x->open)) ||
      !sweep__value(w, rec, key, &version)) {
    return EMB_OK;
  }
  x->due = schema_due(&core->schema, key, w->value);
  if (live && (x->due <= x->pass->now || EMB_SEED(SEED_EXPIRY_TOO_EARLY))) {
    int rc = sweep__remove(w, rec, key, address, &outcome);
    if (rc) {
      return rc;
    }
    if (outcome == SWEEP_REMOVED) {
      count_add(&core->counters.expired_keys, 1);
      x->pass->removed++;
    }
    x->due = outcome == SWEEP_HELD    ? x->pass->retry
             : outcome == SWEEP_STAYS ? x->due
                                      : TTL_NEVER;
  }
  if (!EMB_SEED(SEED_EXPIRY_DUE_LOST)) {
    log_due(&core->log, address, x->due);
  }
  return EMB_OK;
}

int expire__extent(struct core *core, struct epoch_slot *slot,
                   struct expire_pass *pass, emb_err *err) {
  struct expiry x = {.pass = pass};
  struct sweep w = {.look = expire_look_at,
                    .agrees = is_due,
                    .reason = PAGE_EXPIRED,
                    .arg = &x};
  uint64_t first = pass->extent << core->layout.extent_bits;
  emb_assert(debug_is_locked(&core->ckpt_lock)); /* the extent stays */
  emb_assert(epoch_outside());                   /* E1 */
  epoch_enter(&core->epoch, slot);               /* keeps the table in place */
  uint32_t before =
      atomic_exchange(&log_extent(&core->log, pass->extent)->due, EXTENT_NEVER);
  epoch_leave(slot);
  epoch_wait(&core->epoch);
  x.open = atomic_load(&core->txn_first_page);
  int rc = sweep__init(&w, core, slot, err);
  rc =
      rc ? rc : sweep__pages(&w, first, first + core->layout.extent_pages, err);
  sweep__free(&w);
  if (rc) { /* records not yet examined may be due */
    epoch_enter(&core->epoch, slot);
    log_due(&core->log, layout_address(&core->layout, first, 0), before);
    epoch_leave(slot);
  }
  return rc;
}
