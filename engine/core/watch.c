/* SPDX-License-Identifier: MIT
**
** watch.c -- see watch.h.
*/
#include "watch.h"

#include "../emb.h"

int watch_open(struct core *core, struct scan_watch *watch, uint64_t *first) {
  const struct layout *l = &core->layout;
  int rc = EMB_OK;
  pthread_mutex_lock(&core->scan_lock);
  atomic_fetch_add(&core->scan_count, 1);
  watch->cursor = 0;
  uint64_t end = log_cut(&core->log, first);
  watch->end = layout_address(l, end, 0);
  if (watch->skip_txn) {
    uint64_t from = layout_page(l, watch->skip_from);
    watch->settled =
        core->env->allocate(core->env, (end > from ? end - from : 0) / 8 + 1);
    rc = watch->settled ? EMB_OK : EMB_NOMEM;
  }
  if (rc) {
    atomic_fetch_sub(&core->scan_count, 1);
  } else {
    watch->next = core->scans;
    core->scans = watch;
  }
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
      atomic_fetch_sub(&core->scan_count, 1);
      break;
    }
  }
  pthread_mutex_unlock(&core->scan_lock);
  core->env->release(core->env, watch->settled);
}

/* The bit of an address below end in `settled`; 0: it has none. */
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

void watch_moved(struct core *core, int64_t key, uint64_t from, uint64_t to,
                 const void *session, int others) {
  for (struct scan_watch *w = core->scans; w; w = w->next) {
    if (session && (w->session == session) == others) {
      continue;
    }
    uint8_t *byte,
        bit = to && to < w->end && others ? settled_bit(core, w, to, &byte) : 0;
    if (bit) {
      *byte |= bit;
    } else if (to < w->end) {
      continue; /* gone, or found where it is now */
    }
    if (!from || from < w->cursor || from >= w->end) {
      continue;
    }
    bit = settled_bit(core, w, from, &byte);
    if (bit && (*byte & bit)) {
      continue;
    }
    if (spill_push(&w->moved, &key, NULL)) {
      w->failed = 1;
    }
  }
}

void watch_abort(struct core *core, const void *session) {
  pthread_mutex_lock(&core->scan_lock);
  for (struct scan_watch *w = core->scans; w; w = w->next) {
    if (!session || w->session == session) {
      w->aborted = session ? WATCH_ROLLBACK : WATCH_LOADED;
    }
  }
  pthread_mutex_unlock(&core->scan_lock);
}
