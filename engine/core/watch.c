/* SPDX-License-Identifier: MIT
**
** watch.c -- see watch.h.
*/
#include "watch.h"

void watch_open(struct core *core, struct scan_watch *watch) {
  pthread_mutex_lock(&core->scan_lock);
  watch->cursor = 0;
  watch->end = 0; /* nothing is reported yet */
  watch->next = core->scans;
  core->scans = watch;
  atomic_fetch_add(&core->scan_count, 1);
  pthread_mutex_unlock(&core->scan_lock);
  /* Moves that did not see the count are over after this. */
  epoch_wait(&core->epoch);
  pthread_mutex_lock(&core->scan_lock);
  watch->end = layout_address(&core->layout, atomic_load(&core->log.tail), 0);
  pthread_mutex_unlock(&core->scan_lock);
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
}

void watch_moved(struct core *core, int64_t key, uint64_t from,
                 const void *session, int others) {
  for (struct scan_watch *w = core->scans; w; w = w->next) {
    if (session && (w->session == session) == others) {
      continue;
    }
    if (from < w->cursor || from >= w->end) {
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
      w->aborted = 1;
    }
  }
  pthread_mutex_unlock(&core->scan_lock);
}
