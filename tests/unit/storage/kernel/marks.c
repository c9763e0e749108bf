/* SPDX-License-Identifier: MIT
**
** marks.c -- marks around the end of a transaction.
**
** A prepared transaction has all its pages; its commit writes none.  So a mark
** taken between prepare and commit and a mark taken after the commit are at the
** same place in the log if nothing else is written.  A copy that has reached
** the first mark must not mistake the second mark for it: the rows would never
** come, or only with the next write.
**
** Nothing is written here after the commit.  The copy reaches the first mark by
** a delta or a snapshot; the commit follows immediately, after the store was
** reopened, or in recovery.
*/
#include "store_help.h"

#include "files.h"

enum { DIM = 8, KEYS = 40 };

static struct {
  emb_store *source, *copy, *late;
  emb_session *s, *to, *to_late;
} at;

static void put(emb_session *s, int64_t from, int64_t to, int32_t value) {
  float row[DIM];
  for (int64_t key = from; key < to; key++) {
    help_vector(row, DIM, key, value);
    OK(s, emb_in_transaction(s) ? emb_txn_put(s, &key, 1, row)
                                : emb_put(s, &key, 1, row, NULL));
  }
}

static void check_equal(emb_session *a, emb_session *b) {
  for (int64_t key = 0; key < KEYS; key++)
    if (!test_check(help_peek(a, key) == help_peek(b, key), __FILE__, __LINE__,
                    "key %d is %d, and %d in the copy", (int)key,
                    (int)help_peek(a, key), (int)help_peek(b, key)))
      break;
}

/* Returns the mark at which the delta ends. */
static uint64_t hand_on(emb_session *from, const char *consumer,
                        emb_session *to) {
  emb_delta_file about = {0};
  const char *path = help_path("delta");
  if (OK(from, emb_delta_export(from, consumer, path, NULL, &about)) &&
      OK(to, emb_delta_apply(to, path, NULL, NULL)))
    OK(from, emb_delta_ack(from, consumer, about.to));
  return about.to;
}

static int open_both(void) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  if (!help_open(help_path("source"), &config, &at.source, &at.s) ||
      !help_open(help_path("copy"), &config, &at.copy, &at.to) ||
      !help_open(help_path("late"), &config, &at.late, &at.to_late))
    return 0;
  put(at.s, 0, KEYS / 2, 1);
  hand_on(at.s, "c", at.to);
  OK(at.s, emb_delta_begin(at.s, "old", EMB_DELTA_NOW, 0));
  return 1;
}

static void close_both(void) {
  help_verify(at.s);
  help_close(at.source, at.s);
  help_close(at.copy, at.to);
  help_close(at.late, at.to_late);
}

/* New, changed and deleted rows, prepared by another session. */
static emb_session *prepare(int deletes) {
  emb_session *s = NULL;
  uint64_t number;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(at.source, &s, &err), EMB_OK);
  OK(s, emb_begin(s));
  put(s, 10, 30, 2);
  for (int64_t key = 0; deletes && key < 5; key++)
    OK(s, emb_txn_delete(s, &key, 1, NULL));
  OK(s, emb_prepare(s, &number));
  return s;
}

static void commit(emb_session *s) {
  OK(s, emb_commit(s));
  emb_session_close(s);
}

TEST(delta_before_and_after_a_commit) {
  for (int deletes = 0; deletes < 2; deletes++) {
    if (!open_both())
      return;
    emb_session *s = prepare(deletes);
    hand_on(at.s, "c", at.to);
    CHECK_EQ_INT(help_peek(at.to, 20), INT32_MIN);
    hand_on(at.s, "c", at.to); /* again: nothing is new */
    commit(s);
    hand_on(at.s, "c", at.to);
    check_equal(at.s, at.to);
    close_both();
    test_remove_dir();
  }
}

TEST(undone_after_a_mark) {
  if (!open_both())
    return;
  emb_session *s = prepare(1);
  hand_on(at.s, "c", at.to);
  emb_rollback(s);
  emb_session_close(s);
  hand_on(at.s, "c", at.to);
  check_equal(at.s, at.to);
  close_both();
}

/* A copy that began with a snapshot takes deltas of an older consumer. */
TEST(snapshot_before_a_delta_after_a_commit) {
  if (!open_both())
    return;
  const char *path = help_path("snapshot");
  emb_session *s = prepare(1);
  OK(at.s, emb_snapshot(at.s, "s"));
  OK(at.s, emb_snapshot_export(at.s, "s", path, NULL, NULL, NULL));
  OK(at.to_late, emb_snapshot_restore(at.to_late, path, NULL));
  CHECK_EQ_INT(help_peek(at.to_late, 20), INT32_MIN);
  commit(s);
  hand_on(at.s, "old", at.to_late);
  check_equal(at.s, at.to_late);
  close_both();
}

/* The reverse: the delta does not have the transaction, the snapshot does. */
TEST(delta_before_a_snapshot_after_a_commit) {
  if (!open_both())
    return;
  const char *path = help_path("snapshot");
  emb_session *s = prepare(1);
  hand_on(at.s, "c", at.to);
  commit(s);
  OK(at.s, emb_snapshot(at.s, "s"));
  OK(at.s, emb_snapshot_export(at.s, "s", path, NULL, NULL, NULL));
  OK(at.to_late, emb_snapshot_restore(at.to_late, path, NULL));
  hand_on(at.s, "old", at.to_late); /* nothing new for this copy */
  check_equal(at.s, at.to_late);
  hand_on(at.s, "c", at.to);
  check_equal(at.s, at.to);
  close_both();
}

/* The process dies between a mark and the commit: the coordinator decides. */
TEST(commit_after_a_crash) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  emb_err err;
  if (!open_both())
    return;
  emb_session *preparing = prepare(1);
  hand_on(at.s, "c", at.to);
  CHECK(files_copy_dir(help_path("crashed"), help_path("source")));
  if (help_open(help_path("crashed"), &config, &store, &s)) {
    CHECK(emb_in_doubt(store) != 0);
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, &err), EMB_OK);
    CHECK_EQ_INT(help_peek(s, 20), 2);
    hand_on(s, "c", at.to);
    check_equal(s, at.to);
    help_close(store, s);
  }
  commit(preparing);
  close_both();
}

/* Repeated deltas during a prepared transaction write nothing; other sessions'
** writes in the meantime are delivered. */
TEST(many_marks) {
  if (!open_both())
    return;
  emb_session *s = prepare(1);
  for (int32_t round = 0; round < 3; round++) {
    uint64_t mark = hand_on(at.s, "c", at.to);
    for (int i = 0; i < 5; i++)
      CHECK_EQ_INT(hand_on(at.s, "c", at.to), mark);
    put(at.s, 30, 40, 10 + round);
    CHECK(hand_on(at.s, "c", at.to) > mark);
    CHECK_EQ_INT(help_peek(at.to, 35), 10 + round);
  }
  commit(s);
  hand_on(at.s, "c", at.to);
  check_equal(at.s, at.to);
  close_both();
}
