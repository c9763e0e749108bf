/* SPDX-License-Identifier: MIT
**
** candidates.c -- see candidates.h.
*/
#include "candidates.h"

#include "engine/emb.h"

/* Queries that justify another thread. */
#define QUERIES_PER_THREAD 8
#define FINDERS_MAX 64

struct finding {
  const struct ask *ask;
  struct ivf *ivf;
  struct candidates *all;
  size_t n;
  struct candidates_how how;
  /* The next query to take, by any thread; relaxed. */
  _Atomic size_t next;
  _Atomic int rc; /* EMB_NOMEM, EMB_INTERRUPT; relaxed */
};

/* One thread of a search.  The first is the caller's and polls for an
** interrupt. */
struct finder {
  struct finding *f;
  int is_caller;
  void *thread;
};

static int is_admitted(void *arg, int64_t key) { return ask__admits(arg, key); }

/* Tests all keys of a block against the filter first; only keys that it admits
** are tested against the other conditions. */
static uint32_t are_admitted(void *arg, const int64_t *keys, uint32_t live) {
  const struct ask *ask = arg;
  const struct emb_filter *filter = ask->how.filter;
  uint32_t fit = 0, admitted = 0;
  for (uint32_t left = live; left; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(left);
    fit |= (uint32_t)filter__admits(filter, keys[i]) << i;
  }
  for (; fit; fit &= fit - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(fit);
    admitted |= (uint32_t)ask__admits(ask, keys[i]) << i;
  }
  return admitted;
}

static int keep_found(struct env *env, const struct ivf_search *search,
                      struct candidates *to) {
  if (search->n > to->room) {
    void *larger = env->resize(env, to->keys, search->n * sizeof *to->keys);
    if (!larger) {
      return 0;
    }
    to->keys = larger;
    to->room = search->n;
  }
  to->n = search->n;
  for (size_t i = 0; i < to->n; i++) {
    to->keys[i] = search->found[i].key;
  }
  to->sampled = search->sampled;
  to->admitted = search->admitted;
  return 1;
}

/* Takes the next query, *i.  0: there is none left, or the search failed. */
static int find_next(struct finder *finder, size_t *i) {
  struct finding *f = finder->f;
  if (finder->is_caller && session_poll(f->ask->s)) {
    atomic_store_explicit(&f->rc, EMB_INTERRUPT, memory_order_relaxed);
  }
  if (atomic_load_explicit(&f->rc, memory_order_relaxed)) {
    return 0;
  }
  *i = atomic_fetch_add_explicit(&f->next, 1, memory_order_relaxed);
  return *i < f->n;
}

static void find_some(void *arg) {
  struct finder *finder = arg;
  struct finding *f = finder->f;
  const struct ask *ask = f->ask;
  int limited = ask->how.flags & (EMB_NEAREST_RANGE | EMB_NEAREST_KEYS) ||
                ask->how.filter;
  struct ivf_search search;
  int good = ivf_search_init(&search, f->ivf);
  size_t i;
  while (good && find_next(finder, &i)) {
    struct candidates *to = &f->all[i];
    const struct ivf_asked asked = {
        .query = ask->queries + to->query * ask->segment->dim,
        .probes = to->probes,
        .most = f->how.most,
        .order = f->how.order,
        .admits = limited ? is_admitted : NULL,
        .admitted = limited && f->how.few ? are_admitted : NULL,
        .arg = (void *)(uintptr_t)ask};
    good = !ivf_search(&search, &asked) && keep_found(f->ivf->env, &search, to);
  }
  if (!good) {
    atomic_store_explicit(&f->rc, EMB_NOMEM, memory_order_relaxed);
  }
  ivf_search_free(&search);
}

static size_t count_finders(const struct ask *ask, size_t n) {
  struct core *core = ask->s->core;
  size_t most =
      ask->how.threads ? ask->how.threads : core->env->processors(core->env);
  most = most < n / QUERIES_PER_THREAD ? most : n / QUERIES_PER_THREAD;
  most = most < FINDERS_MAX ? most : FINDERS_MAX;
  return core->step_mode || !most ? 1 : most;
}

/* If a thread cannot be started, the search runs with fewer. */
int candidates__find(const struct ask *ask, struct ivf *ivf,
                     struct candidates *all, size_t n,
                     const struct candidates_how *how) {
  struct env *env = ask->s->core->env;
  struct finding f = {.ask = ask, .ivf = ivf, .all = all, .n = n, .how = *how};
  struct finder finders[FINDERS_MAX] = {{.f = &f, .is_caller = 1}};
  size_t wanted = count_finders(ask, n), ready = 1;
  emb_assert(n > 0 && how->most > 0);
  for (; ready < wanted; ready++) {
    struct finder *finder = &finders[ready];
    finder->f = &f;
    if (env->thread_start(env, find_some, finder, &finder->thread)) {
      break;
    }
  }
  find_some(&finders[0]);
  for (size_t i = 1; i < ready; i++) {
    env->thread_join(env, finders[i].thread);
  }
  int rc = atomic_load(&f.rc);
  return rc == EMB_NOMEM ? session_error(ask->s, rc, "out of memory") : rc;
}
