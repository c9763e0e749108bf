/* SPDX-License-Identifier: MIT
**
** staleness_help.h -- what the tests of bounded stores share: a store with
** three sessions, calls on one key, and keys that were pushed out to disk.
*/
#ifndef EMB_STALENESS_HELP_H
#define EMB_STALENESS_HELP_H

#include "store_help.h"

#include <pthread.h>

enum {
  DIM = 64,
  CHUNK = 256,
  /* Records of three times the smallest memory: most of them are on disk. */
  MANY = 48000,
};

/* Long enough that no test waits for it, short enough for a hang to show. */
#define FOR_EVER 600000

struct bounded {
  emb_store *store;
  emb_session *a, *b, *c;
  emb_config config;
};

/* The store "store" of this test, or a temporary one.  1 when it is open. */
static inline int bounded_open(struct bounded *x, uint32_t bound,
                               uint64_t timeout_ms, uint32_t flags) {
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

static inline int bounded_close(struct bounded *x) {
  emb_session_close(x->b);
  emb_session_close(x->c);
  return help_close(x->store, x->a);
}

/* ---- one key ------------------------------------------------------------- */

/* Get; *value (or NULL) is that of help_vector. */
static inline int get_one(emb_session *s, int64_t key, int32_t *value) {
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

static inline int put_one(emb_session *s, int64_t key, int32_t value) {
  float vector[DIM];
  help_vector(vector, DIM, key, value);
  return emb_put(s, &key, 1, vector, NULL);
}

/* What a peek finds; INT32_MIN: nothing. */
static inline int32_t peek_one(emb_session *s, int64_t key) {
  float vector[DIM];
  uint8_t found = 2;
  if (!OK(s, emb_peek(s, &key, 1, vector, &found, NULL)) || !found)
    return INT32_MIN;
  int32_t value = help_value(vector, DIM, key);
  CHECK(value != INT32_MIN);
  return value;
}

static inline int clock_of(emb_session *s, int64_t key) {
  uint32_t clock = UINT32_MAX;
  CHECK(OK(s, emb_clocks(s, &key, 1, &clock)));
  return (int)clock;
}

/* ---- many keys ----------------------------------------------------------- */

/* Puts the keys from, from + step, ...: n of them. */
static inline int put_many(emb_session *s, int64_t from, int64_t step, int n,
                           int32_t value) {
  int64_t keys[CHUNK];
  float *vectors = malloc(sizeof(float[CHUNK][DIM]));
  int good = CHECK(vectors != NULL);
  for (int at = 0; good && at < n; at += CHUNK) {
    int m = n - at < CHUNK ? n - at : CHUNK;
    for (int i = 0; i < m; i++) {
      keys[i] = from + (at + i) * step;
      help_vector(vectors + i * DIM, DIM, keys[i], value);
    }
    good = OK(s, emb_put(s, keys, (size_t)m, vectors, NULL));
  }
  free(vectors);
  return good;
}

/* Gets of this key, which is on disk, until the cache has given it room: what
** that needs comes from a thread. */
static inline int get_until_cached(struct bounded *x, int64_t key) {
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

/* How many of the keys have another clock than this. */
static inline int clocks_other_than(emb_session *s, const int64_t *keys,
                                    size_t n, uint32_t clock) {
  uint32_t *clocks = malloc((n + 1) * sizeof *clocks);
  int other = 0;
  if (CHECK(clocks != NULL) && CHECK(OK(s, emb_clocks(s, keys, n, clocks))))
    for (size_t i = 0; i < n; i++)
      other += clocks[i] != clock;
  free(clocks);
  return other;
}

/* ---- threads ------------------------------------------------------------- */

/* Calls that a session makes while it waits, for emb_session_interrupt.  The
** session's thread adds, the test reads; relaxed. */
struct waiting {
  _Atomic int asked;
  int stop_after; /* 0: never */
};

static inline int waiting_ask(void *arg) {
  struct waiting *w = arg;
  int n = 1 + atomic_fetch_add_explicit(&w->asked, 1, memory_order_relaxed);
  return w->stop_after && n >= w->stop_after;
}

/* Until the session waits; 0 if it did not within half a minute. */
static inline int waiting_began(struct waiting *w) {
  struct timespec pause = {0, 1000000};
  for (int i = 0; i < 30000; i++) {
    if (atomic_load_explicit(&w->asked, memory_order_relaxed) > 1)
      return 1;
    (void)nanosleep(&pause, NULL);
  }
  return test_check(0, __FILE__, __LINE__, "the session never waited");
}

#endif
