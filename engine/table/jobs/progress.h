/* SPDX-License-Identifier: MIT
**
** progress.h -- how far the calls are that take long; see progress.c.
*/
#ifndef EMB_JOBS_PROGRESS_H
#define EMB_JOBS_PROGRESS_H

#include "engine/table/session/session.h"

/* A call that takes long begins: 1, or 0 where it is a part of another one.
** The caller that got 1 ends it. */
int progress_begin(emb_session *s, const char *what, const char *unit,
                   uint64_t total);
void progress_end(emb_session *s, int begun);
/* It is so far; only of the outermost call, which is begun. */
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
/* Which store the row is of. */
void progress_name(emb_progress *row, const emb_store *store);
/* What takes long in a session of this process, "" nothing. */
void progress_of_owner(emb_store *store, char *to, size_t size);

#endif
