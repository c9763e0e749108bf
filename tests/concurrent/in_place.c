/* SPDX-License-Identifier: MIT
**
** in_place.c -- a table in memory comes back to writing in place after
** checkpoints, at whatever moments they were taken.
**
** A checkpoint makes every row read-only, so that its next write goes to the
** tail.  Writers of random keys then leave the older parts of the log half
** dead; checkpoints that free a little of them make all rows read-only again,
** and so on for good.
**
** The older parts also take memory: rows that fit into it only if they lie
** closely together are compacted, and not paged out.  Once writes pause, all
** rows lie closely.
*/
#include "store_help.h"

enum { DIM = 64, KEYS = 60000, BATCH = 500, ROUNDS = KEYS / BATCH };

struct table {
  emb_store *store;
  emb_session *s;
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
};

static void put_keys(struct table *t, size_t batches, int random) {
  for (size_t i = 0; i < batches; i++) {
    for (int64_t k = 0; k < BATCH; k++)
      t->keys[k] =
          random ? (int64_t)(test_random() % KEYS) : (int64_t)i * BATCH + k;
    OK(t->s, emb_put(t->s, t->keys, BATCH, t->vectors, NULL));
  }
}

/* Writes all keys often enough for the store to settle, then looks at where the
** next ten writes of each go.  `parts`: of the first writes, with a checkpoint
** after each. */
static void write_after_checkpoints(uint64_t memory, int parts) {
  static struct table t;
  const emb_config c = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = memory};
  if (!help_open(help_path("store"), &c, &t.store, &t.s))
    return;
  put_keys(&t, ROUNDS, 0);
  for (int i = 0; i < parts; i++) {
    OK(t.s, emb_checkpoint(t.s));
    put_keys(&t, ROUNDS * 2 / 3, 1);
  }
  put_keys(&t, (size_t)10 * ROUNDS, 1);
  int64_t before = help_stat(t.store, "put_in_place");
  put_keys(&t, (size_t)10 * ROUNDS, 1);
  int64_t in_place = help_stat(t.store, "put_in_place") - before;
  test_check(in_place > 7 * KEYS, __FILE__, __LINE__,
             "%d checkpoints: only %" PRId64 " of %d puts in place", parts,
             in_place, 10 * KEYS);
  help_close(t.store, t.s);
  test_remove_dir();
}

TEST(writes_return_to_their_place) {
  for (int parts = 0; parts <= 4; parts++)
    write_after_checkpoints(100 << 20, parts);
}

/* Twice the rows. */
TEST(writes_return_to_their_place_in_little_memory) {
  for (int parts = 0; parts <= 4; parts++)
    write_after_checkpoints(40 << 20, parts);
}

/* Everything is written and sealed, as after opening; then two thirds of the
** rows are written again, and so lie elsewhere. */
TEST(rows_that_fit_stay_in_memory) {
  static struct table t;
  const emb_config c = {.dim = DIM,
                        .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                        .memory_bytes = 24 << 20}; /* 1.45 times the rows */
  if (!help_open(help_path("store"), &c, &t.store, &t.s))
    return;
  put_keys(&t, ROUNDS, 0);
  OK(t.s, emb_checkpoint(t.s));
  for (int i = 0; i < ROUNDS; i++) {
    put_keys(&t, 1, 1);
    for (int more = 1; more;)
      OK(NULL, emb_step(t.store, &more));
  }
  CHECK_EQ_INT(help_stat(t.store, "rows_in_memory"), KEYS);
  help_close(t.store, t.s);
}

static void extents_hold_few_dead_rows(emb_store *store) {
  enum { PAGE_BYTES = 4096, PAGE_ROWS = 15, FEW_BYTES = 1 << 20 };
  int64_t live = KEYS / PAGE_ROWS * PAGE_BYTES;
  int64_t most = live / 5 * 6 + live / 16 + FEW_BYTES;
  int64_t bytes = help_stat(store, "log_bytes");
  test_check(bytes <= most, __FILE__, __LINE__,
             "%" PRId64 " bytes of log for %" PRId64 " live ones", bytes, live);
}

/* Two thirds of the rows are written again after a checkpoint, so that each of
** the older extents is one third live. */
TEST(rows_lie_closely_once_writes_pause) {
  static struct table t;
  const emb_config c = {.dim = DIM,
                        .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                        .memory_bytes = 100 << 20};
  if (!help_open(help_path("store"), &c, &t.store, &t.s))
    return;
  put_keys(&t, ROUNDS, 0);
  OK(t.s, emb_checkpoint(t.s));
  put_keys(&t, ROUNDS, 1);
  help_settle(t.store);
  extents_hold_few_dead_rows(t.store);
  CHECK_EQ_INT(help_stat(t.store, "rows_in_memory"), KEYS);
  CHECK_EQ_INT(help_stat(t.store, "read_bytes"), 0); /* none from disk */
  help_close(t.store, t.s);
}
