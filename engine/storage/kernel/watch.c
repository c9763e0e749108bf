/* SPDX-License-Identifier: MIT
**
** watch.c -- see watch.h.
*/
#include "watch.h"

#include "engine/emb.h"

/* Turns reports off if no scan is open.  Under scan_lock. */
static void end_unused(struct core *core) {
  if (!core->scans) {
    observe__off(core, &core->watch);
  }
}

int watch_open(struct core *core, struct scan_watch *watch, uint64_t *first) {
  const struct layout *l = &core->layout;
  int rc = EMB_OK;
  emb_assert(epoch_outside()); /* E1 */
  pthread_mutex_lock(&core->scan_lock);
  observe__on(core, &core->watch); /* before the pages are closed */
  watch->cursor = 0;
  uint64_t end = log_cut(&core->log, first);
  watch->end = layout_address(l, end, 0);
  if (watch->skip_txn) {
    uint64_t from = layout_page(l, watch->skip_from);
    watch->settled =
        core->env->allocate(core->env, (end > from ? end - from : 0) / 8 + 1);
    rc = watch->settled ? EMB_OK : EMB_NOMEM;
  }
  if (!rc) {
    watch->next = core->scans;
    core->scans = watch;
  }
  end_unused(core);
  pthread_mutex_unlock(&core->scan_lock);
  if (!rc) {
    epoch_wait(&core->epoch);
  }
  return rc;
}

void watch_close(struct core *core, struct scan_watch *watch) {
  pthread_mutex_lock(&core->scan_lock);
  for (struct scan_watch **at = &core->scans; *at; at = &(*at)->next) {
    if (*at == watch) {
      *at = watch->next;
      break;
    }
  }
  end_unused(core);
  pthread_mutex_unlock(&core->scan_lock);
  core->env->release(core->env, watch->settled);
}

/* Returns the bit in `settled` for an address below end; 0: it has none. */
static uint8_t settled_bit(const struct core *core, const struct scan_watch *w,
                           uint64_t address, uint8_t **byte) {
  uint64_t page = layout_page(&core->layout, address);
  uint64_t from = layout_page(&core->layout, w->skip_from);
  if (!w->settled || page < from) {
    return 0;
  }
  *byte = &w->settled[(page - from) / 8];
  return (uint8_t)(1u << (page - from) % 8);
}

int watch_covers(const struct core *core, const struct scan_watch *w,
                 uint64_t address) {
  uint8_t *byte;
  if (!address || address >= w->end) {
    return 0;
  }
  uint8_t bit = settled_bit(core, w, address, &byte);
  return !bit || !(*byte & bit);
}

/* Notes a key for a delta that gathers deletions.  covered: watch_covers of
** event->from. */
static void note_removal(struct scan_watch *w, const struct row_event *event,
                         int covered) {
  struct watch_removal removal = {event->key, event->cause};
  int rc = EMB_OK;
  if (covered && event->from < w->cursor) {
    rc = spill_push(&w->passed, &event->key, NULL);
  } else if (event->from && !event->to &&
             !EMB_SEED(SEED_REMOVED_ROW_NOT_IN_DELTA)) {
    rc = spill_push(&w->removed, &removal, NULL);
  }
  w->failed |= rc != EMB_OK;
}

/* As notify_scans, for one scan. */
static void notify_scan(struct core *core, struct scan_watch *w,
                        const struct row_event *event, int others) {
  uint64_t from = event->from, to = event->to;
  int covered = watch_covers(core, w, from);
  uint8_t *byte,
      bit = to && to < w->end && others ? settled_bit(core, w, to, &byte) : 0;
  if (w->deletions) {
    note_removal(w, event, covered);
  }
  if (bit) {
    *byte |= bit;
  } else if (to < w->end) {
    return; /* removed, or the scan finds it at its new address */
  }
  if (covered && from >= w->cursor &&
      spill_push(&w->moved, &event->key, NULL)) {
    w->failed = 1;
  }
}

/* Reports that the record of a key goes from one log address to another (0:
** none).  Reports only to the scans of event->session (a transaction's own
** write), or with `others` to all scans except those (its commit); session
** NULL: to all.  Under scan_lock. */
static void notify_scans(struct core *core, const struct row_event *event,
                         int others) {
  emb_assert(!event->to || event->to > event->from); /* K1: only forward */
  for (struct scan_watch *w = core->scans; w; w = w->next) {
    if (!event->session || (w->session == event->session) != others) {
      notify_scan(core, w, event, others);
    }
  }
}

static void row_moves(void *arg, const struct row_event *event) {
  struct core *core = arg;
  pthread_mutex_lock(&core->scan_lock);
  notify_scans(core, event, event->session != NULL);
}

static void row_has_moved(void *arg, const struct row_event *event) {
  struct core *core = arg;
  (void)event;
  pthread_mutex_unlock(&core->scan_lock);
}

void watch_own_write(struct core *core, int64_t key, uint64_t from, uint64_t to,
                     const void *session) {
  struct row_event event = {key, from, to, NULL, session, ROW_PUT};
  pthread_mutex_lock(&core->scan_lock);
  notify_scans(core, &event, 0);
  pthread_mutex_unlock(&core->scan_lock);
}

/* Ends the scans of a session, or all scans. */
static void abort_scans(struct core *core, const void *session, int why) {
  pthread_mutex_lock(&core->scan_lock);
  for (struct scan_watch *w = core->scans; w; w = w->next) {
    if (!session || w->session == session) {
      w->aborted = why;
    }
  }
  pthread_mutex_unlock(&core->scan_lock);
}

void watch_abort(struct core *core, const void *session) {
  abort_scans(core, session, WATCH_ROLLBACK);
}

/* The store is being reloaded. */
static void rows_are_gone(void *arg) { abort_scans(arg, NULL, WATCH_LOADED); }

void watch_init(struct core *core) {
  core->watch = (struct observer){.name = "scans",
                                  .changed = row_moves,
                                  .moved = row_moves,
                                  .removed = row_moves,
                                  .ended = row_has_moved,
                                  .reset = rows_are_gone,
                                  .arg = core};
  observe__add(core, &core->watch);
}
