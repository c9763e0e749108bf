/* SPDX-License-Identifier: MIT
**
** store_space.c -- how much a store may occupy, on disk and in memory.
**
** DISK    However often a table was rewritten, its directory holds at most
**         twice its live data, plus SLACK_BYTES, once the background work is
**         idle, and after closing.  A table without rows holds SLACK_BYTES.
** LIMIT   Above how many bytes of log compaction works.
** MEMORY  The process grows by the budget, 24 bytes per key, 24 bytes per key
**         that the open transaction has changed, and CONSTANT_BYTES, whatever
**         is done to a table thirty times its budget.
*/
#include "engine/storage/kernel/space.h"
#include "engine/table/session/session.h"
#include "store_help.h"

enum {
  DIM = 64,
  REC_BYTES = 4096 / 15, /* on disk, with its share of the page */
  BATCH = 256,
  SLACK_BYTES = 3 << 20,    /* extents that are not worth compacting, index */
  CONSTANT_BYTES = 4 << 20, /* session buffers, queues, stacks, C library */
};

static float vectors[BATCH * DIM];
static int64_t keys[BATCH];

static void fill(int64_t from, size_t n, int32_t value) {
  for (size_t i = 0; i < n; i++) {
    keys[i] = from + (int64_t)i;
    help_vector(vectors + i * DIM, DIM, keys[i], value);
  }
}

typedef int (*writer)(emb_session *, const int64_t *, size_t, const float *);

static int delete_keys(emb_session *s, const int64_t *k, size_t n,
                       const float *v) {
  (void)v;
  return emb_delete(s, k, n, NULL);
}

static int txn_delete_keys(emb_session *s, const int64_t *k, size_t n,
                           const float *v) {
  (void)v;
  return emb_txn_delete(s, k, n, NULL);
}

static int put_keys(emb_session *s, const int64_t *k, size_t n,
                    const float *v) {
  return emb_put(s, k, n, v, NULL);
}

/* Every key of the table once. */
static int each_batch(emb_session *s, writer write, int64_t n, int32_t value) {
  for (int64_t at = 0; at < n; at += BATCH) {
    size_t m = (size_t)(n - at < BATCH ? n - at : BATCH);
    fill(at, m, value);
    if (!OK(s, write(s, keys, m, vectors)))
      return 0;
  }
  return 1;
}

static int all_are(emb_session *s, int64_t n, int32_t value) {
  float got[DIM];
  uint8_t found;
  int good = CHECK_EQ_INT(emb_count(s), value == INT32_MIN ? 0 : n);
  for (int64_t key = 0; good && key < n; key += 97) {
    good = OK(s, emb_get(s, &key, 1, got, &found, NULL)) &&
           CHECK_EQ_INT(found, value != INT32_MIN) &&
           (!found || CHECK_EQ_INT(help_value(got, DIM, key), value));
  }
  return good;
}

/* ---- disk ---------------------------------------------------------------- */

static void holds_at_most(const char *dir, uint64_t live, const char *when) {
  uint64_t bytes = help_disk_bytes(dir);
  (void)test_check(bytes <= 2 * live + SLACK_BYTES, __FILE__, __LINE__,
                   "%s: %" PRIu64 " KB on disk for %" PRIu64 " KB", when,
                   bytes >> 10, live >> 10);
}

/* The threads free the last little space only when nothing was written for a
** second; on a busy machine they take longer. */
static void await_idle(const char *dir, uint64_t live) {
  struct timespec pause = {0, 20000000};
  for (int i = 0; i < 1500 && help_disk_bytes(dir) > 2 * live + SLACK_BYTES;
       i++)
    (void)nanosleep(&pause, NULL);
}

enum { IMMEDIATE, TRANSACTION, REINSERT, MANY_SMALL, WAYS };

static int rewrite(emb_session *s, int way, int64_t n, int32_t round) {
  switch (way) {
  case IMMEDIATE:
    return each_batch(s, put_keys, n, round);
  case TRANSACTION: {
    uint64_t number;
    return OK(s, emb_begin(s)) && each_batch(s, emb_txn_put, n, round) &&
           (round % 2 || OK(s, emb_prepare(s, &number))) &&
           OK(s, emb_commit(s));
  }
  case REINSERT:
    return each_batch(s, delete_keys, n, 0) &&
           each_batch(s, put_keys, n, round);
  default: /* a rollback, and single rows in random order */
    if (!OK(s, emb_begin(s)) || !each_batch(s, emb_txn_put, n / 4, -1))
      return 0;
    emb_rollback(s);
    if (round % 5 == 0 && !each_batch(s, put_keys, n, round))
      return 0;
    for (int64_t i = 0; i < n; i++) {
      fill((int64_t)(test_random() % (uint64_t)n), 1, (round + 4) / 5 * 5);
      if (!OK(s, emb_put(s, keys, 1, vectors, NULL)))
        return 0;
    }
    return 1;
  }
}

static void ten_rewrites(int way, uint32_t flags) {
  enum { KEYS = 60000, ROUNDS = 10 }; /* 16 MB */
  uint64_t live = (uint64_t)KEYS * REC_BYTES;
  char dir[512];
  emb_config config = {
      .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_CREATE | flags};
  emb_store *store;
  emb_session *s;
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!help_open(dir, &config, &store, &s) || !each_batch(s, put_keys, KEYS, 0))
    return;
  for (int32_t round = 1; round <= ROUNDS; round++) {
    if (!rewrite(s, way, KEYS, round))
      return;
    /* Without threads the caller must run the work. */
    if (flags & EMB_OPEN_STEP)
      help_settle(store);
  }
  help_settle(store);
  if (!(flags & EMB_OPEN_STEP))
    await_idle(dir, live);
  holds_at_most(dir, live, "idle");
  if (!all_are(s, KEYS, ROUNDS) || !help_verify(s) || !help_close(store, s))
    return;
  holds_at_most(dir, live, "closed");

  if (!help_open(dir, &config, &store, &s) || !all_are(s, KEYS, ROUNDS))
    return;
  if (way == TRANSACTION)
    CHECK(OK(s, emb_begin(s)) && each_batch(s, txn_delete_keys, KEYS, 0) &&
          OK(s, emb_commit(s)));
  else
    CHECK(each_batch(s, delete_keys, KEYS, 0));
  all_are(s, KEYS, INT32_MIN);
  if (flags & EMB_OPEN_STEP) {
    help_settle(store);
    holds_at_most(dir, 0, "emptied, idle");
  }
  help_close(store, s);
  holds_at_most(dir, 0, "emptied, closed");
}

TEST(space_immediate) { ten_rewrites(IMMEDIATE, EMB_OPEN_STEP); }
TEST(space_transaction) { ten_rewrites(TRANSACTION, EMB_OPEN_STEP); }
TEST(space_reinsert) { ten_rewrites(REINSERT, EMB_OPEN_STEP); }
TEST(space_small) { ten_rewrites(MANY_SMALL, EMB_OPEN_STEP); }
TEST(space_threads) { ten_rewrites(MANY_SMALL, 0); }

/* A temporary store also compacts; its file has no name. */
/* ---- limit --------------------------------------------------------------- */

static int is_wasted(const emb_store *store, double log, int is_quiet) {
  const uint64_t live = UINT64_C(1) << 30;
  const struct space space = {.used = (uint64_t)(log * (double)live),
                              .live = live};
  return space_wasted(&store->core, &space, is_quiet);
}

/* The live rows take 1 GiB.  With memory for `memory` GiB, compaction works
** if they take more than `limit` during writes, `pause` once writes pause. */
static void limit_with(double memory, double limit, double pause) {
  const emb_config c = {.dim = DIM,
                        .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                        .memory_bytes =
                            (uint64_t)(memory * (double)(UINT64_C(1) << 30))};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  CHECK(!is_wasted(store, limit - 0.03, 0));
  CHECK(is_wasted(store, limit + 0.03, 0));
  CHECK(!is_wasted(store, pause - 0.03, 1));
  CHECK(is_wasted(store, pause + 0.03, 1));
  help_close(store, s);
  test_remove_dir();
}

/* An eighth of the memory and a little more is kept for other things. */
TEST(limit_in_much_memory) { limit_with(4, 1.55, 1.2); }
TEST(limit_if_rows_then_fit) { limit_with(1.5, 1.3, 1.2); }
TEST(limit_in_little_memory) { limit_with(0.5, 1.55, 1.55); }

TEST(space_temporary) {
  enum { KEYS = 60000, ROUNDS = 5 };
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  if (!help_open(test_dir(), &config, &store, &s))
    return;
  for (int32_t round = 0; round <= ROUNDS; round++) {
    if (!each_batch(s, put_keys, KEYS, round))
      return;
    help_settle(store);
  }
  CHECK(help_stat(store, "log_bytes") <=
        2 * (int64_t)KEYS * REC_BYTES + SLACK_BYTES);
  all_are(s, KEYS, ROUNDS);
  help_close(store, s);
  CHECK_EQ_INT(help_entries(test_dir()), 0);
}

/* ---- memory -------------------------------------------------------------- */

static int64_t base;

static void grew_at_most(int64_t bytes, const char *when) {
  int64_t grown = help_rss() - base;
  (void)test_check(grown <= bytes, __FILE__, __LINE__,
                   "%s: memory grew by %" PRId64 " KB, allowed %" PRId64, when,
                   grown >> 10, bytes >> 10);
}

static void scan_all(emb_session *s, int order, int64_t n, int64_t allowed) {
  emb_scan *scan;
  size_t got;
  int64_t seen = 0;
  if (!OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, order, &scan)))
    return;
  do {
    if (!OK(s, emb_scan_next(scan, BATCH, keys, vectors, NULL, &got)))
      break;
    seen += (int64_t)got;
  } while (got > 0);
  grew_at_most(allowed, order == EMB_SCAN_ANY ? "scan" : "ordered scan");
  emb_scan_close(scan);
  CHECK_EQ_INT(seen, n);
}

TEST(space_memory) {
  if (SANITIZED)
    SKIP("a sanitizer has memory of its own");
  enum { KEYS = 480000, BUDGET = 4 << 20 }; /* 131 MB */
  emb_config config = {
      .dim = DIM, .memory_bytes = BUDGET, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  base = help_rss();
  int64_t allowed = BUDGET + KEYS * INT64_C(24) + CONSTANT_BYTES;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !each_batch(s, put_keys, KEYS, 1))
    return;
  grew_at_most(allowed, "load");
  if (!each_batch(s, put_keys, KEYS, 2))
    return;
  grew_at_most(allowed, "update");
  if (!OK(s, emb_begin(s)) || !each_batch(s, emb_txn_put, KEYS, 3))
    return;
  grew_at_most(allowed + KEYS * INT64_C(24), "update in a transaction");
  if (!OK(s, emb_savepoint(s, 1)) || !each_batch(s, emb_txn_put, KEYS, 4))
    return;
  grew_at_most(allowed + KEYS * INT64_C(24), "update after a savepoint");
  if (!OK(s, emb_rollback_to(s, 1)) || !OK(s, emb_commit(s)))
    return;
  all_are(s, KEYS, 3);
  grew_at_most(allowed, "after the transaction");
  scan_all(s, EMB_SCAN_ANY, KEYS, allowed);
  scan_all(s, EMB_SCAN_ASC, KEYS, allowed);
  grew_at_most(allowed, "after scans");
  CHECK(OK(s, emb_checkpoint(s)));
  grew_at_most(allowed, "checkpoint");
  help_close(store, s);
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  grew_at_most(allowed, "opening");
  all_are(s, KEYS, 3);
  help_close(store, s);
}
