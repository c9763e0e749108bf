/* SPDX-License-Identifier: MIT
**
** async_valid.c -- each assertion about a session's batches and look-aheads
** fires.
*/
#include "engine/features/lookahead/async.h"

#include "death.h"
#include "store_help.h"

enum { DIM = 60, ROWS = 3000, BATCH = 200 };

static emb_store *store;
static emb_session *s;
static struct job *batch, *ahead;

/* Opens a store larger than memory, with two prefetches and a look-ahead into
** the session's memory. */
static int begin(void) {
  emb_config c = {
      .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static float vector[DIM], vectors[BATCH * DIM];
  int64_t keys[BATCH];
  uint64_t ticket;
  emb_ahead info;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  for (int64_t key = 0; key < ROWS; key++) {
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  if (!help_close(store, s) || !help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  for (int64_t i = 0; i < BATCH; i++) {
    keys[i] = i;
  }
  const emb_rows to = {.vectors = vectors};
  OK(s, emb_lookahead(s, keys, BATCH, EMB_AHEAD_CACHE, &info));
  for (int i = 0; i < 2; i++) {
    OK(s, emb_prefetch(s, keys, BATCH, &to, &ticket));
  }
  batch = s->tickets.first;
  ahead = s->ahead.list->jobs[info.number % AHEADS];
  return CHECK(batch && batch->sibling && ahead && ahead->kept_bytes) &&
         CHECK(async_tickets_valid(s) && async_aheads_valid(s));
}

TEST(batches) {
  if (!begin()) {
    return;
  }
  CHECK_FIRES(batch->session = NULL; async_tickets_valid(s));
  CHECK_FIRES(batch->kind = JOB_KEEP; async_tickets_valid(s));
  CHECK_FIRES(batch->number = s->tickets.last + 1; async_tickets_valid(s));
  CHECK_FIRES(batch->number = batch->sibling->number; async_tickets_valid(s));
  CHECK_FIRES(atomic_store(&store->sessions.tickets, 1);
              async_tickets_valid(s));
  help_close(store, s);
}

TEST(aheads) {
  if (!begin()) {
    return;
  }
  CHECK_FIRES(ahead->number++; async_aheads_valid(s));
  CHECK_FIRES(ahead->kind = JOB_READ; async_aheads_valid(s));
  CHECK_FIRES(ahead->kept = NULL; async_aheads_valid(s));
  CHECK_FIRES(ahead->kept = NULL; ahead->kept_bytes = 0; ahead->merged = 1;
              async_aheads_valid(s));
  CHECK_FIRES(ahead->kept_left = ahead->key_count + 1; async_aheads_valid(s));
  CHECK_FIRES(s->ahead.list->kept_bytes++; async_aheads_valid(s));
  CHECK_ALL_FIRED("engine/features/lookahead/async_valid.c");
  help_close(store, s);
}
