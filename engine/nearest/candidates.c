/* SPDX-License-Identifier: MIT
**
** candidates.c -- see candidates.h.
*/
#include "candidates.h"

#include "../emb.h"

/* Queries for which it is worth to start a thread. */
#define QUERIES_PER_THREAD 8
#define FINDERS_MAX 64

struct finding {
  const struct ask *ask;
  struct ivf *ivf;
  struct candidates *all;
  size_t n;
  uint32_t most;
  int few;
  /* The next query; taken by all threads, relaxed. */
  _Atomic size_t next;
  _Atomic int failed; /* one had no memory; relaxed */
};

static int is_admitted(void *arg, int64_t key) { return ask__admits(arg, key); }

/* The filter first, of all keys of a block: what it lets in is asked for the
** rest. */
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

static void find_some(void *arg) {
  struct finding *f = arg;
  const struct ask *ask = f->ask;
  int limited = ask->how.flags & (EMB_NEAREST_RANGE | EMB_NEAREST_KEYS) ||
                ask->how.filter;
  struct ivf_search search;
  int good = ivf_search_init(&search, f->ivf);
  size_t i;
  while (good && (i = atomic_fetch_add_explicit(&f->next, 1,
                                                memory_order_relaxed)) < f->n) {
    struct candidates *to = &f->all[i];
    const struct ivf_asked asked = {
        .query = ask->queries + to->query * ask->segment->dim,
        .probes = to->probes,
        .most = f->most,
        .admits = limited ? is_admitted : NULL,
        .admitted = limited && f->few ? are_admitted : NULL,
        .arg = (void *)(uintptr_t)ask};
    good = !ivf_search(&search, &asked) && keep_found(f->ivf->env, &search, to);
  }
  if (!good) {
    atomic_store_explicit(&f->failed, 1, memory_order_relaxed);
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

/* Threads that cannot be had are done without. */
int candidates__find(const struct ask *ask, struct ivf *ivf,
                     struct candidates *all, size_t n, uint32_t most, int few) {
  struct env *env = ask->s->core->env;
  struct finding f = {
      .ask = ask, .ivf = ivf, .all = all, .n = n, .most = most, .few = few};
  void *threads[FINDERS_MAX];
  size_t wanted = count_finders(ask, n), started = 0;
  while (started + 1 < wanted &&
         !env->thread_start(env, find_some, &f, &threads[started])) {
    started++;
  }
  find_some(&f);
  for (size_t i = 0; i < started; i++) {
    env->thread_join(env, threads[i]);
  }
  return atomic_load(&f.failed)
             ? session_error(ask->s, EMB_NOMEM, "out of memory")
             : EMB_OK;
}
