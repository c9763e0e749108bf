/* SPDX-License-Identifier: MIT
**
** progress.c -- the progress of long calls.
**
** A session runs one call at a time, so its progress is part of the session; of
** nested calls, the outermost one is reported.  Any thread may read it: the
** metrics are single numbers that only grow, and need not be of one moment.
*/
#include <stdio.h>
#include <string.h>

#include "engine/table/owner/registry.h"
#include "progress.h"

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

void emb_session_progress(emb_session *s, const char *what, const char *unit,
                          uint64_t done, uint64_t total) {
  if (store_check(s->store, NULL)) {
    return;
  }
  if (what) {
    (void)progress_begin(s, what, unit, total);
  }
  progress_at(s, what != NULL, done);
  progress_end(s, what == NULL);
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

void progress_name(emb_progress *row, const emb_store *store) {
  copy_end(row->dir, sizeof row->dir, store->core.dir);
}

static void list_session(struct progress_listing *l, const emb_session *s) {
  const struct progress *p = &s->progress;
  struct env *env = s->core->env;
  const char *what = atomic_load_explicit(&p->what, memory_order_acquire);
  if (!what) {
    return;
  }
  if (l->n < l->max) { /* others may write to the list: do not read from it */
    emb_progress *to = &l->list[l->n];
    uint64_t since = atomic_load_explicit(&p->since_us, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&p->done, memory_order_relaxed);
    uint64_t total = atomic_load_explicit(&p->total, memory_order_relaxed);
    progress_name(to, s->store);
    snprintf(to->what, sizeof to->what, "%s", what);
    snprintf(to->unit, sizeof to->unit, "%s",
             atomic_load_explicit(&p->unit, memory_order_relaxed));
    to->done = done;
    to->total = total && total < done ? done : total;
    to->seconds = (double)(env->now_us(env) - since) / 1e6;
    to->process = !s->client.process      ? s->store->process
                  : s->client.process > 0 ? s->client.process
                                          : 0;
  }
  l->n++;
}

static void list_store(void *arg, emb_store *store) {
  struct progress_listing *l = arg;
  pthread_mutex_lock(&store->sessions.lock);
  for (emb_session *s = store->sessions.list; s; s = s->next) {
    list_session(l, s);
  }
  pthread_mutex_unlock(&store->sessions.lock);
}

size_t emb_progress_list(emb_progress *list, size_t max) {
  struct progress_listing l = {list, max, 0};
  registry_each(list_store, &l);
  return l.n;
}

size_t local_progress_of(emb_store *store, emb_progress *list, size_t max) {
  struct progress_listing l = {list, max, 0};
  if (store_check(store, NULL)) {
    return 0;
  }
  list_store(&l, store);
  return l.n;
}

void progress_of_owner(emb_store *store, char *to, size_t size) {
  to[0] = '\0';
  pthread_mutex_lock(&store->sessions.lock);
  for (emb_session *s = store->sessions.list; s && !to[0]; s = s->next) {
    const char *what =
        atomic_load_explicit(&s->progress.what, memory_order_acquire);
    snprintf(to, size, "%s", what && !s->client.process ? what : "");
  }
  pthread_mutex_unlock(&store->sessions.lock);
}
