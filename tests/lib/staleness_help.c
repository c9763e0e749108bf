/* SPDX-License-Identifier: MIT
**
** staleness_help.c -- calls on stores with a bound: see staleness_help.h.
*/
#include "staleness_help.h"

int bounded_open(struct bounded *x, uint32_t bound, uint64_t timeout_ms,
                 uint32_t flags) {
  emb_err err;
  x->config = (emb_config){.dim = DIM,
                           .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED | flags,
                           .memory_bytes = 1,
                           .timeout_ms = timeout_ms,
                           .staleness = bound};
  const char *dir =
      flags & EMB_OPEN_TEMPORARY ? test_dir() : help_path("store");
  return help_open(dir, &x->config, &x->store, &x->a) &&
         CHECK_EQ_INT(emb_session_open(x->store, &x->b, &err), EMB_OK) &&
         CHECK_EQ_INT(emb_session_open(x->store, &x->c, &err), EMB_OK);
}

int bounded_close(struct bounded *x) {
  emb_session_close(x->b);
  emb_session_close(x->c);
  return help_close(x->store, x->a);
}

/* ---- one key ------------------------------------------------------------- */

int get_one(emb_session *s, int64_t key, int32_t *value) {
  float vector[DIM];
  uint8_t found = 2;
  int rc = emb_get(s, &key, 1, vector, &found, NULL);
  if (rc == EMB_OK && CHECK_EQ_INT(found, 1)) {
    int32_t whole = help_value(vector, DIM, key);
    CHECK(whole != INT32_MIN);
    if (value != NULL)
      *value = whole;
  }
  return rc;
}

int pending_of(emb_session *s, int64_t key) {
  uint32_t pending = UINT32_MAX;
  CHECK(OK(s, emb_clocks(s, &key, 1, &pending)));
  return (int)pending;
}

/* ---- many keys ----------------------------------------------------------- */

int get_until_cached(struct bounded *x, int64_t key) {
  struct timespec pause = {0, 1000000};
  int64_t before = help_stat(x->store, "get_cache");
  for (int i = 0; i < 30000; i++) {
    if (!OK(x->a, get_one(x->a, key, NULL)) ||
        !CHECK_EQ_INT(emb_release(x->a), 1))
      return 0;
    if (help_stat(x->store, "get_cache") > before)
      return 1;
    (void)nanosleep(&pause, NULL);
  }
  return test_check(0, __FILE__, __LINE__, "nothing enters the cache");
}

int pending_other_than(emb_session *s, const int64_t *keys, size_t n,
                       uint32_t expected) {
  uint32_t *pending = malloc((n + 1) * sizeof *pending);
  int other = 0;
  if (CHECK(pending != NULL) && CHECK(OK(s, emb_clocks(s, keys, n, pending))))
    for (size_t i = 0; i < n; i++)
      other += pending[i] != expected;
  free(pending);
  return other;
}

/* ---- threads ------------------------------------------------------------- */

int waiting_ask(void *arg) {
  struct waiting *w = arg;
  int n = 1 + atomic_fetch_add_explicit(&w->asked, 1, memory_order_relaxed);
  return w->stop_after && n >= w->stop_after;
}

int waiting_began(struct waiting *w) {
  struct timespec pause = {0, 1000000};
  for (int i = 0; i < 30000; i++) {
    if (atomic_load_explicit(&w->asked, memory_order_relaxed) > 1)
      return 1;
    (void)nanosleep(&pause, NULL);
  }
  return test_check(0, __FILE__, __LINE__, "the session never waited");
}
