/* SPDX-License-Identifier: MIT
**
** progress.h -- the progress of long calls; see progress.c.
*/
#ifndef EMB_JOBS_PROGRESS_H
#define EMB_JOBS_PROGRESS_H

#include "engine/table/session/session.h"

/* Begins a long call.  Returns 1, or 0 if the call is part of another one that
** is reported.  A caller that got 1 must end it (progress_end). */
int progress_begin(emb_session *s, const char *what, const char *unit,
                   uint64_t total);
void progress_end(emb_session *s, int begun);
/* Reports progress.  `begun`, from progress_begin: only the outermost call
** reports. */
static inline void progress_at(emb_session *s, int begun, uint64_t done) {
  if (begun) {
    atomic_store_explicit(&s->progress.done, done, memory_order_relaxed);
  }
}
static inline void progress_of(emb_session *s, int begun, uint64_t total) {
  if (begun) {
    atomic_store_explicit(&s->progress.total, total, memory_order_relaxed);
  }
}
/* Puts the store's directory into the row. */
void progress_name(emb_progress *row, const emb_store *store);
/* Name of a long call in one of this process's own sessions; "" if none. */
void progress_of_owner(emb_store *store, char *to, size_t size);

#endif
