/* SPDX-License-Identifier: MIT
**
** progress.c -- how far the calls are that take long.
**
** A session is in one call at a time, so its progress is a part of the session;
** of calls within calls the outermost one is reported.  It may be read from any
** thread: the metrics are single numbers that only grow, and need not be of one
** moment.
*/
#include <string.h>

#include "registry.h"

int progress_begin(emb_session *s, const char *what, const char *unit,
                   uint64_t total) {
  struct progress *p = &s->progress;
  struct env *env = s->core->env;
  if (atomic_load_explicit(&p->what, memory_order_relaxed)) {
    return 0;
  }
  atomic_store_explicit(&p->unit, unit, memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  atomic_store_explicit(&p->total, total, memory_order_relaxed);
  atomic_store_explicit(&p->since_us, env->now_us(env), memory_order_relaxed);
  atomic_store_explicit(&p->what, what, memory_order_release);
  return 1;
}

void progress_end(emb_session *s, int begun) {
  if (begun) {
    atomic_store_explicit(&s->progress.what, NULL, memory_order_release);
  }
}

struct progress_listing {
  emb_progress *list;
  size_t max, n;
};

/* The end of a path says more than its beginning. */
static void copy_end(char *to, size_t size, const char *path) {
  size_t n = strlen(path);
  memcpy(to, n < size ? path : path + n - size + 1, n < size ? n + 1 : size);
}

static void list_session(struct progress_listing *l, const emb_session *s) {
  const struct progress *p = &s->progress;
  struct env *env = s->core->env;
  const char *what = atomic_load_explicit(&p->what, memory_order_acquire);
  if (!what) {
    return;
  }
  if (l->n < l->max) {
    emb_progress *to = &l->list[l->n];
    copy_end(to->dir, sizeof to->dir, s->core->dir);
    to->what = what;
    to->unit = atomic_load_explicit(&p->unit, memory_order_relaxed);
    to->done = atomic_load_explicit(&p->done, memory_order_relaxed);
    to->total = atomic_load_explicit(&p->total, memory_order_relaxed);
    to->total = to->total && to->total < to->done ? to->done : to->total;
    to->seconds =
        (double)(env->now_us(env) -
                 atomic_load_explicit(&p->since_us, memory_order_relaxed)) /
        1e6;
  }
  l->n++;
}

static void list_store(void *arg, emb_store *store) {
  struct progress_listing *l = arg;
  pthread_mutex_lock(&store->session_lock);
  for (emb_session *s = store->session_list; s; s = s->next) {
    list_session(l, s);
  }
  pthread_mutex_unlock(&store->session_lock);
}

size_t emb_progress_list(emb_progress *list, size_t max) {
  struct progress_listing l = {list, max, 0};
  registry__each(list_store, &l);
  return l.n;
}

int emb_progress_begin(emb_session *session, const char *what, const char *unit,
                       uint64_t total) {
  return progress_begin(session, what, unit, total);
}

void emb_progress_at(emb_session *session, uint64_t done) {
  progress_at(session, 1, done);
}

void emb_progress_end(emb_session *session) { progress_end(session, 1); }
