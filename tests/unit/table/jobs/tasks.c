/* SPDX-License-Identifier: MIT
**
** tasks.c -- the list of background tasks: when a pass begins, what ends it,
** and what emb_stats reports for each task.  Only the test moves the clock.
*/
#include "forget_help.h"
#include "engine/table/jobs/tasks.h"

#include "engine/table/session/session.h"

enum { DIM = 30, ROWS = 500, DAY = 86400 };

static int64_t pieces(emb_store *store, const char *task) {
  char name[64];
  (void)snprintf(name, sizeof name, "task_%s_pieces", task);
  return help_stat(store, name);
}

static int open_store(const emb_config *config, emb_store **store,
                      emb_session **s) {
  forget_begin();
  return help_open(help_path("store"), config, store, s);
}

static void close_store(emb_store *store, emb_session *s) {
  help_close(store, s);
  forget_end();
}

TEST(what_is_said_of_a_task) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  c.track = EMB_TRACK_WALL;
  c.ttl = "1d";
  if (!open_store(&c, &store, &s))
    return;
  CHECK_EQ_INT(help_stat(store, "task_expire_ms_ago"), -1);
  CHECK_EQ_INT(pieces(store, "expire"), 0);
  help_put_rows(s, 1, 1, ROWS, 1);
  forget_steps(store);
  CHECK_EQ_INT(help_stat(store, "task_expire_ms_ago"), -1);
  forget_env.still_wall_s += 2 * DAY;
  forget_steps(store);
  CHECK_EQ_INT(emb_count(s), 0);
  CHECK(pieces(store, "expire") > 0);
  failing_pass(&forget_env, 5000000);
  int64_t ago = help_stat(store, "task_expire_ms_ago");
  CHECK(ago >= 5000);
  failing_pass(&forget_env, 7000000);
  CHECK_EQ_INT(help_stat(store, "task_expire_ms_ago"), ago + 7000);
  CHECK_EQ_INT(pieces(store, "evict"), 0);
  CHECK_EQ_INT(help_stat(store, "task_evict_ms_ago"), -1);
  close_store(store, s);
}

/* A pass that found nothing to do is not repeated until something has been
** written and the checkpoint is late. */
TEST(nothing_to_do_and_a_late_checkpoint) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  if (!open_store(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  forget_steps(store);
  int64_t before = pieces(store, "checkpoint");
  int64_t begun = help_stat(store, "checkpoints");
  failing_pass(&forget_env, 30000000);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before);
  failing_pass(&forget_env, 40000000);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before + 1);
  CHECK_EQ_INT(help_stat(store, "checkpoints"), begun + 1);
  failing_pass(&forget_env, 400000000);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before + 1);
  help_put_rows(s, 1, 1, 1, 1);
  failing_pass(&forget_env, 70000000);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before + 2);
  close_store(store, s);
}

/* Passes that follow each other immediately compact wasted space and free it by
** a checkpoint; then the file is shortened. */
TEST(compaction_and_what_follows) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  static int64_t keys[ROWS];
  if (!open_store(&c, &store, &s))
    return;
  for (int from = 0; from < 200 * ROWS; from += ROWS)
    help_put_rows(s, from, 1, ROWS, 1);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "compact"), 0);
  for (int from = 0; from < 200 * ROWS; from += ROWS) {
    size_t n = 0;
    for (int i = 0; i < ROWS; i++)
      if ((from + i) % 8)
        keys[n++] = from + i;
    OK(s, emb_delete(s, keys, n, NULL));
  }
  int64_t bytes = help_stat(store, "log_bytes");
  forget_steps(store);
  CHECK(pieces(store, "compact") > 0);
  CHECK(pieces(store, "checkpoint") > 0);
  CHECK(pieces(store, "shorten") > 0);
  CHECK(help_stat(store, "log_bytes") < bytes / 2);
  int64_t compacted = pieces(store, "compact");
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "compact"), compacted);
  help_verify(s);
  close_store(store, s);
}

/* Dropping a snapshot causes a pass, though nothing is written: the space that
** the snapshot kept is freed. */
TEST(a_dropped_snapshot_lets_go) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  if (!open_store(&c, &store, &s))
    return;
  for (int from = 0; from < 100 * ROWS; from += ROWS)
    help_put_rows(s, from, 1, ROWS, 1);
  OK(s, emb_snapshot(s, "all"));
  for (int from = 0; from < 100 * ROWS; from += ROWS)
    help_put_rows(s, from, 1, ROWS, 1);
  forget_steps(store);
  int64_t kept = help_stat(store, "kept_bytes");
  int64_t freed = pieces(store, "checkpoint");
  CHECK(kept > 0);
  OK(s, emb_snapshot_drop(s, "all"));
  forget_steps(store);
  CHECK_EQ_INT(help_stat(store, "kept_bytes"), 0);
  CHECK(pieces(store, "checkpoint") > freed);
  CHECK(help_stat(store, "dead_bytes") < kept);
  close_store(store, s);
}

/* A failed attempt does not count as a piece, and is tried again. */
TEST(a_task_that_fails) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  int more;
  if (!open_store(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  forget_steps(store);
  failing_pass(&forget_env, 70000000);
  int64_t before = pieces(store, "checkpoint");
  failing_arm(&forget_env, FAILING_BIT(FAILING_MAP), 1, 1, ENOMEM);
  CHECK_EQ_INT(emb_step(store, &more), EMB_NOMEM);
  CHECK(forget_env.fired > 0);
  failing_disarm(&forget_env);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before);
  CHECK(help_stat(store, "task_checkpoint_ms_ago") >= 0);
  forget_steps(store);
  CHECK_EQ_INT(pieces(store, "checkpoint"), before + 1);
  close_store(store, s);
}

/* Does the thread's work without the thread: passes, then the pause asked for.
 */
static void act_as_thread(emb_store *store, uint64_t us) {
  uint64_t begun = forget_env.env.now_us(&forget_env.env), pause_us;
  int more;
  while (forget_env.env.now_us(&forget_env.env) - begun < us) {
    (void)tasks_pass(store, LANE_WORK, 1, &more, NULL);
    (void)tasks_pass(store, LANE_AFTER, 1, &more, NULL);
    uint64_t rest = tasks_rest_us(store, &pause_us);
    failing_pass(&forget_env, rest && rest < pause_us ? rest : pause_us);
  }
}

/* The thread's pauses grow while its passes fail, whatever is written in
** between, and emb_stats reports the failure. */
TEST(pauses_after_errors) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  int more;
  if (!open_store(&c, &store, &s))
    return;
  help_put_rows(s, 1, 1, ROWS, 1);
  forget_steps(store);
  CHECK_EQ_INT(help_stat(store, "background_errors"), 0);
  CHECK_EQ_INT(help_stat(store, "background_error_ms_ago"), -1);
  CHECK(strcmp(help_stat_text(store, "background_error"), "") == 0);
  help_put_rows(s, 1, 1, ROWS, 1);
  failing_pass(&forget_env, 70000000);
  failing_arm(&forget_env, FAILING_BIT(FAILING_OPEN), 1, 1, EIO);
  static const uint64_t pauses_ms[] = {50,   100,  200,  400,  800,
                                       1600, 3200, 5000, 5000, 5000};
  for (size_t i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
    uint64_t fired = forget_env.fired, pause_us;
    CHECK_EQ_INT(tasks_pass(store, LANE_WORK, 1, &more, NULL), EMB_IOERR);
    CHECK_EQ_INT(more, 0);
    CHECK(forget_env.fired > fired);
    fired = forget_env.fired;
    help_put_rows(s, 1, 1, 1, 1);
    CHECK_EQ_INT(tasks_rest_us(store, &pause_us), 0);
    CHECK_EQ_INT(pause_us, pauses_ms[i] * 1000);
    failing_pass(&forget_env, pause_us - 1);
    CHECK_EQ_INT(tasks_pass(store, LANE_WORK, 1, &more, NULL), EMB_OK);
    CHECK_EQ_INT(forget_env.fired, fired);
    failing_pass(&forget_env, 1);
  }
  CHECK_EQ_INT(help_stat(store, "background_errors"), 10);
  CHECK(help_stat(store, "background_error_ms_ago") >= 5000);
  const char *text = help_stat_text(store, "background_error");
  CHECK(strncmp(text, "checkpoint: cannot ", 19) == 0);
  CHECK(strstr(text, "Input/output error") != NULL);
  /* A minute of failures is a dozen passes. */
  int64_t errors = help_stat(store, "background_errors");
  act_as_thread(store, 60000000);
  errors = help_stat(store, "background_errors") - errors;
  CHECK(errors > 0 && errors <= 13);
  failing_disarm(&forget_env);
  failing_pass(&forget_env, 5000000);
  int64_t before = help_stat(store, "checkpoints");
  CHECK_EQ_INT(tasks_pass(store, LANE_WORK, 1, &more, NULL), EMB_OK);
  CHECK_EQ_INT(help_stat(store, "checkpoints"), before + 1);
  /* The old error is still reported, and the next pause is short again. */
  CHECK(strncmp(help_stat_text(store, "background_error"),
                "checkpoint: ", 12) == 0);
  help_put_rows(s, 1, 1, ROWS, 1);
  forget_steps(store); /* which see the new checkpoint */
  failing_pass(&forget_env, 70000000);
  failing_arm(&forget_env, FAILING_BIT(FAILING_OPEN), 1, 1, EIO);
  uint64_t pause_us;
  CHECK_EQ_INT(tasks_pass(store, LANE_WORK, 1, &more, NULL), EMB_IOERR);
  (void)tasks_rest_us(store, &pause_us);
  CHECK_EQ_INT(pause_us, 50000);
  failing_disarm(&forget_env);
  close_store(store, s);
}

/* A store whose directory is gone reports one error and then does no more work,
** however much there is to compact. */
TEST(a_store_that_has_gone_is_left_alone) {
  emb_config c = forget_config(DIM);
  emb_store *store;
  emb_session *s;
  emb_err err;
  int more;
  if (!open_store(&c, &store, &s))
    return;
  for (int from = 0; from < 100 * ROWS; from += ROWS)
    help_put_rows(s, from, 1, ROWS, 1);
  OK(s, emb_checkpoint(s));
  CHECK(rename(help_path("store"), help_path("away")) == 0);
  for (int64_t key = 0; key < 100 * ROWS; key++)
    if (key % 8 && !OK(s, emb_delete(s, &key, 1, NULL)))
      break;
  act_as_thread(store, 1000000);
  CHECK_EQ_INT(help_stat(store, "failed"), EMB_FAILED);
  CHECK_EQ_INT(help_stat(store, "background_errors"), 1);
  int64_t compacted = pieces(store, "compact");
  uint64_t calls = FAILING_IO & ~FAILING_BIT(FAILING_IDENTITY), pause_us;
  failing_arm(&forget_env, (uint32_t)calls, UINT64_MAX, 0, EIO);
  for (int i = 0; i < 100; i++) {
    CHECK_EQ_INT(tasks_pass(store, LANE_WORK, 1, &more, NULL), EMB_OK);
    CHECK_EQ_INT(more, 0);
    CHECK(tasks_rest_us(store, &pause_us) > 0);
  }
  CHECK_EQ_INT(forget_env.calls, 0);
  failing_disarm(&forget_env);
  CHECK_EQ_INT(pieces(store, "compact"), compacted);
  CHECK_EQ_INT(help_stat(store, "background_errors"), 1);
  emb_session_close(s);
  CHECK_EQ_INT(emb_close(store, &err), EMB_FAILED);
  forget_end();
}
