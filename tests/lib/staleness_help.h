/* SPDX-License-Identifier: MIT
**
** staleness_help.h -- shared by the tests of bounded stores: a store with
** three sessions, calls on one key, and keys that were paged out to disk.
*/
#ifndef EMB_STALENESS_HELP_H
#define EMB_STALENESS_HELP_H

#include "store_help.h"

#include <pthread.h>

enum {
  DIM = 64,
  CHUNK = 256,
  /* Records for three times the smallest memory: most of them are on disk. */
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
int bounded_open(struct bounded *x, uint32_t bound, uint64_t timeout_ms,
                 uint32_t flags);

int bounded_close(struct bounded *x);

/* ---- one key ------------------------------------------------------------- */

/* Get; *value (or NULL) is the value of help_vector. */
int get_one(emb_session *s, int64_t key, int32_t *value);

int pending_of(emb_session *s, int64_t key);

/* ---- many keys ----------------------------------------------------------- */

/* Gets this key, which is on disk, until the cache has made room for it: a
** thread provides that room. */
int get_until_cached(struct bounded *x, int64_t key);

/* How many of the keys have a different number of pending reads. */
int pending_other_than(emb_session *s, const int64_t *keys, size_t n,
                       uint32_t expected);

/* ---- threads ------------------------------------------------------------- */

/* Calls that a session makes while it waits, for emb_session_interrupt.  The
** session's thread adds, the test reads; relaxed. */
struct waiting {
  _Atomic int asked;
  int stop_after; /* 0: never */
};

int waiting_ask(void *arg);

/* Returns when the session waits; 0 if it did not within half a minute. */
int waiting_began(struct waiting *w);

#endif
