/* SPDX-License-Identifier: MIT
**
** full.c -- a full disk: nothing is lost, everything can be read, dead space
** is given back, and rows can be deleted.
**
** The disk is env_memory with a limit, so it is full to the block.  A kill
** means that every call of the operating system fails from some moment on,
** including those that close the store.  MODEL: the value that a read of each
** key must give; a checkpoint before each kill makes it durable.
*/
#include "store_help.h"

#include "engine/storage/kernel/reserve.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"
#include "failing.h"

enum {
  DIM = 64,
  KEYS = 60000,
  BATCH = 512,
  DISK = 8 << 20,
};
#define DIR_NAME "/full"

static struct failing f;
static emb_store *store;
static emb_session *s;
static int32_t model[KEYS]; /* 0: absent */
static int32_t value;

static int start(uint64_t space) {
  failing_init(&f, env_memory(), test_state.seed);
  env_set_default(&f.env);
  memset(model, 0, sizeof model);
  value = 0;
  env_memory_space(space);
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP, .memory_bytes = 1};
  return help_open(DIR_NAME, &config, &store, &s);
}

static int again(void) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_STEP, .memory_bytes = 1};
  return help_open(DIR_NAME, &config, &store, &s);
}

static void end(void) {
  (void)help_close(store, s);
  CHECK_EQ_INT(failing_out(&f), 0);
  env_memory_space(0);
  env_memory_clear();
  env_set_default(&env_posix);
  failing_free(&f);
}

static void kill_it(void) {
  emb_err err;
  failing_arm(&f, FAILING_IO, 1, 1, EIO);
  emb_session_close(s);
  (void)emb_close(store, &err);
  failing_disarm(&f);
  CHECK_EQ_INT(failing_out(&f), 0);
}

/* All rows agree with the model. */
static int holds(const char *when) {
  static float rows[BATCH * DIM];
  int64_t keys[BATCH], n = 0;
  uint8_t found[BATCH];
  for (int64_t at = 0; at < KEYS; at += BATCH) {
    size_t m = (size_t)(KEYS - at < BATCH ? KEYS - at : BATCH);
    for (size_t i = 0; i < m; i++)
      keys[i] = at + (int64_t)i;
    if (!OK(s, emb_peek(s, keys, m, rows, found, NULL)))
      return 0;
    for (size_t i = 0; i < m; i++) {
      int32_t is = found[i] ? help_value(rows + i * DIM, DIM, keys[i]) : 0;
      n += model[keys[i]] != 0;
      if (!test_check(is == model[keys[i]], __FILE__, __LINE__,
                      "%s: key %d has %d, not %d", when, (int)keys[i], is,
                      model[keys[i]]))
        return 0;
    }
  }
  return CHECK_EQ_INT(emb_count(s), n);
}

/* EMB_OK, or EMB_FULL with a text that says where, and what to do. */
static int is_full_or_good(int rc) {
  const char *text = rc ? emb_errmsg(s) : "";
  return test_check(rc == EMB_OK || (rc == EMB_FULL && strstr(text, DIR_NAME) &&
                                     strstr(text, "free disk space")),
                    __FILE__, __LINE__, "%d: %s", rc, text);
}

typedef int put_function(emb_session *, const int64_t *, size_t, const float *);
static int put_now(emb_session *session, const int64_t *keys, size_t n,
                   const float *rows) {
  return emb_put(session, keys, n, rows, NULL);
}

/* Puts rows from `from` on, until there are n or no space; returns how many. */
static int64_t put(put_function *call, int64_t from, int64_t n) {
  float row[DIM];
  int64_t done = 0;
  int rc = EMB_OK;
  value = value % 1900 + 1;
  for (; done < n && rc == EMB_OK; done += rc == EMB_OK) {
    int64_t key = from + done;
    help_vector(row, DIM, key, value);
    rc = call(s, &key, 1, row);
    if (rc == EMB_OK && call == put_now)
      model[key] = value;
  }
  (void)is_full_or_good(rc);
  return done;
}

static void fill(void) {
  CHECK(put(put_now, 0, KEYS) < KEYS); /* the disk fills up before */
}

/* Deletes rows, n at a time; must always be possible. */
static void drop(int64_t from, int64_t n, int in_txn) {
  uint64_t number;
  int64_t key;
  if (in_txn && !OK(s, emb_begin(s)))
    return;
  for (int64_t i = from; i < from + n && i < KEYS; i++) {
    key = i;
    if (!OK(s, in_txn ? emb_txn_delete(s, &key, 1, NULL)
                      : emb_delete(s, &key, 1, NULL)))
      break;
    model[i] = 0;
  }
  if (in_txn) {
    OK(s, emb_prepare(s, &number));
    OK(s, emb_commit(s));
  }
}

/* A load that the disk cannot hold leaves nothing. */
static void load_too_much(void) {
  if (!OK(s, emb_begin(s)))
    return;
  int64_t n = put(emb_txn_put, 0, KEYS);
  CHECK(n < KEYS);
  if (n == KEYS)
    return;
  emb_rollback(s);
  (void)holds("after a load that failed");
}

/* ---- tests --------------------------------------------------------------- */

TEST(deletions_empty_a_full_disk) {
  if (!start(DISK))
    return;
  fill();
  (void)holds("full");
  uint64_t before = env_memory_used();
  drop(100, 6000, 0);
  OK(s, emb_checkpoint(s));
  for (int more = 1; more;) /* the extents above move down */
    OK(s, emb_step(store, &more));
  CHECK(env_memory_used() + (1 << 20) < before);
  (void)holds("6000 rows fewer");
  CHECK_EQ_INT(put(put_now, 100, 3000), 3000);
  OK(s, emb_checkpoint(s));
  (void)holds("3000 of them again");
  CHECK(help_verify(s));
  end();
}

/* Deletes a part of each extent: rows must be moved before any extent is
** free. */
TEST(scattered_deletions_do_too) {
  if (!start(DISK))
    return;
  fill();
  int64_t live = emb_count(s), left = live;
  for (int64_t i = 0; i < live; i++)
    if (i % 4) {
      drop(i, 1, 0);
      left--;
    }
  (void)holds("a quarter is left");
  /* Half of the deleted rows find room again, in any order. */
  CHECK_EQ_INT(put(put_now, live, (live - left) / 2), (live - left) / 2);
  (void)holds("and more");
  OK(s, emb_optimize(s));
  CHECK(help_verify(s));
  end();
}

/* The file's free space is in parts without blocks, given up so that SQLite
** could write.  The rest is as good as on a disk with room. */
TEST(free_slots_with_blocks_are_found) {
  if (!start(DISK))
    return;
  fill();
  drop(100, 6000, 0);
  OK(s, emb_checkpoint(s));
  struct log *log = &store->core.log;
  for (int i = 0; i < 2; i++) { /* the second time the lowest are ready */
    CHECK_EQ_INT(log_make_ready(log, 2), 0);
    while (log->ready_count)
      log_yield(log);
  }
  env_memory_space(env_memory_used());
  CHECK_EQ_INT(put(put_now, 100, 4000), 4000);
  (void)holds("the disk is full, and the file is not");
  env_memory_space(DISK);
  CHECK(help_verify(s));
  end();
}

TEST(a_load_that_failed_leaves_its_space) {
  if (!start(DISK))
    return;
  CHECK_EQ_INT(put(put_now, 0, 3000), 3000);
  OK(s, emb_checkpoint(s));
  uint64_t before = env_memory_used();
  for (int i = 0; i < 3; i++) {
    load_too_much();
    CHECK_EQ_INT(put(put_now, 3000, 2000), 2000); /* without reopening */
    drop(3000, 2000, 1);
  }
  OK(s, emb_checkpoint(s));
  CHECK(env_memory_used() < before + (2 << 20));
  (void)holds("after three such loads");
  end();
}

/* The owner died within a load: the next owner gives back the space that the
** load took. */
TEST(a_load_that_was_killed_leaves_its_space) {
  if (!start(32 << 20))
    return;
  CHECK_EQ_INT(put(put_now, 0, 3000), 3000);
  OK(s, emb_checkpoint(s));
  uint64_t before = env_memory_used();
  for (int i = 0; i < 2; i++) {
    if (!OK(s, emb_begin(s)))
      return;
    CHECK_EQ_INT(put(emb_txn_put, 0, KEYS), KEYS);
    CHECK(env_memory_used() > before + (10 << 20));
    kill_it();
    if (!again())
      return;
    OK(s, emb_checkpoint(s));
    uint64_t now = env_memory_used();
    (void)test_check(now < before + (1 << 20), __FILE__, __LINE__,
                     "%d bytes before, %d after", (int)before, (int)now);
    (void)holds("after a load that was killed");
  }
  end();
}

static int asked, drop_when;

/* All rows are deleted while the index that names them is being written. */
static int drops(void *arg) {
  emb_session *other = arg;
  if (++asked == drop_when)
    for (int64_t key = 0; key < KEYS; key++) {
      if (model[key])
        OK(other, emb_delete(other, &key, 1, NULL));
      model[key] = 0;
    }
  return 0;
}

TEST(rows_that_go_within_a_checkpoint_leave_its_index_whole) {
  emb_session *other;
  emb_err err;
  if (!start(64 << 20) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK))
    return;
  CHECK_EQ_INT(put(put_now, 0, KEYS), KEYS);
  asked = drop_when = 0;
  emb_session_interrupt(s, drops, other);
  OK(s, emb_checkpoint(s));
  drop_when = asked; /* before its last part */
  asked = 0;
  CHECK(drop_when > 1);
  OK(s, emb_checkpoint(s));
  CHECK(asked >= drop_when);
  emb_session_close(other);
  kill_it();
  if (!again())
    return;
  (void)holds("opened from that index");
  CHECK(help_verify(s));
  end();
}

/* Another program has taken all space. */
TEST(nothing_at_all_is_left) {
  if (!start(DISK))
    return;
  CHECK_EQ_INT(put(put_now, 0, 9000), 9000);
  OK(s, emb_checkpoint(s));
  for (int round = 0; round < 4; round++) {
    env_memory_space(env_memory_used());
    (void)holds("no block is left");
    OK(s, emb_checkpoint(s));
    (void)put(put_now, 20000, 5000); /* fills the space already taken */
    OK(s, emb_checkpoint(s));
    drop(round * 1000, 1000, round % 2);
    OK(s, emb_checkpoint(s));
    if (round % 2)
      kill_it();
    else
      (void)help_close(store, s);
    if (!again() || !holds("opened on a full disk"))
      return;
  }
  env_memory_space(DISK);
  CHECK_EQ_INT(put(put_now, 20000, 5000), 5000);
  (void)holds("space again");
  end();
}

/* As in a store of an earlier version, or when the spare was deleted. */
TEST(without_the_spare_it_is_read) {
  if (!start(DISK))
    return;
  CHECK_EQ_INT(put(put_now, 0, 9000), 9000);
  OK(s, emb_checkpoint(s));
  int64_t key = 77;
  float row[DIM];
  help_vector(row, DIM, key, 1234);
  OK(s, emb_put(s, &key, 1, row, NULL));
  kill_it();
  struct env *env = env_memory();
  CHECK_EQ_INT(env->unlink(env, DIR_NAME "/" RESERVE_SPARE), 0);
  env_memory_space(env_memory_used());
  for (int i = 0; i < 2; i++) {
    if (!again() || !holds("read without a spare"))
      return;
    drop(0, 0, 0);
    GIVES(s, EMB_FULL, emb_put(s, &key, 1, row, NULL));
    (void)is_full_or_good(emb_errcode(s));
    GIVES(s, EMB_FULL, emb_checkpoint(s));
    (void)holds("it cannot be written to");
    if (i == 0)
      kill_it();
  }
  env_memory_space(DISK);
  OK(s, emb_put(s, &key, 1, row, NULL));
  model[key] = 1234;
  OK(s, emb_checkpoint(s));
  (void)holds("space again");
  (void)help_close(store, s);
  if (again())
    (void)holds("and closed");
  end();
}

/* Prepared, and killed: the coordinator must be asked on a full disk. */
TEST(in_doubt_on_a_full_disk) {
  for (int commit = 0; commit < 2; commit++) {
    uint64_t number;
    emb_err err;
    if (!start(DISK))
      return;
    CHECK_EQ_INT(put(put_now, 0, 9000), 9000);
    OK(s, emb_checkpoint(s));
    OK(s, emb_begin(s));
    int32_t next = value % 1900 + 1;
    CHECK_EQ_INT(put(emb_txn_put, 500, 800), 800);
    OK(s, emb_prepare(s, &number));
    kill_it();
    struct env *env = env_memory();
    CHECK_EQ_INT(env->unlink(env, DIR_NAME "/" RESERVE_SPARE), 0);
    env_memory_space(env_memory_used());
    for (int i = 500; commit && i < 1300; i++)
      model[i] = next;
    for (int i = 0; i < 2; i++) {
      if (!again())
        return;
      CHECK_EQ_INT(emb_in_doubt(store), number);
      if (!test_check(emb_resolve(store, emb_in_doubt(store), commit, &err) ==
                          EMB_OK,
                      __FILE__, __LINE__, "%s", err.text))
        return;
      CHECK_EQ_INT(emb_in_doubt(store), 0);
      (void)holds("resolved");
      if (i == 0)
        kill_it();
    }
    env_memory_space(DISK);
    CHECK_EQ_INT(put(put_now, 500, 10), 10);
    OK(s, emb_checkpoint(s));
    (void)holds("space again");
    end();
  }
}

static void nothing_half(void *arg, const char *name) {
  (void)arg;
  test_check(strstr(name, "-new") == NULL &&
                 strncmp(name, "snapnew-", 8) != 0 &&
                 strncmp(name, "spill-", 6) != 0,
             __FILE__, __LINE__, "%s is left", name);
}

/* Snapshots, exports and deltas take space as they need it, and leave nothing
** behind when they fail. */
TEST(files_that_find_no_space_leave_nothing) {
  emb_delta_file about;
  if (!start(DISK))
    return;
  CHECK_EQ_INT(put(put_now, 0, 9000), 9000);
  OK(s, emb_snapshot(s, "good"));
  OK(s, emb_checkpoint(s));
  for (uint64_t left = 0; left <= 64 << 10; left += 16 << 10) {
    env_memory_space(env_memory_used() + left);
    GIVES(s, EMB_FULL, emb_snapshot(s, "bad"));
    GIVES(s, EMB_FULL,
          emb_snapshot_export(s, "good", DIR_NAME "/export", NULL, NULL, NULL));
    int rc = emb_delta_export(s, "c", DIR_NAME "/delta", NULL, &about);
    CHECK(rc == EMB_FULL || (rc == EMB_OK && left > 0)); /* a small one */
    env_memory_list(DIR_NAME, nothing_half, NULL);
    (void)holds("between");
  }
  env_memory_space(2 * DISK);
  OK(s, emb_snapshot(s, "bad"));
  OK(s, emb_snapshot_export(s, "good", DIR_NAME "/export", NULL, NULL, NULL));
  OK(s, emb_delta_export(s, "c", DIR_NAME "/delta", NULL, &about));
  CHECK_EQ_INT(about.puts, 9000);
  CHECK(help_verify(s));
  end();
}

/* The disk is full twenty times, each time followed by a kill or a close. */
TEST(full_again_and_again) {
  uint64_t rounds = 20 * help_long() / help_share();
  if (!start(DISK))
    return;
  for (uint64_t round = 0; round < rounds + 2; round++) {
    int64_t from = (int64_t)(test_random() % KEYS);
    switch (test_random() % 4) {
    case 0:
      fill();
      break;
    case 1:
      (void)put(put_now, 0, 2000);
      load_too_much();
      break;
    case 2:
      (void)put(put_now, from, KEYS - from);
      fill();
      break;
    case 3: /* the same rows repeatedly */
      for (int i = 0; i < 5; i++)
        (void)put(put_now, from, KEYS - from < 4000 ? KEYS - from : 4000);
      break;
    }
    if (!holds("full"))
      break;
    OK(s, emb_checkpoint(s));
    int open = test_random() % 3 == 0;
    if (test_random() % 2)
      load_too_much();
    if (open && OK(s, emb_begin(s)))
      (void)put(emb_txn_put, from, KEYS - from);
    if (open || test_random() % 2)
      kill_it();
    else
      (void)help_close(store, s);
    if (!again() || !holds("opened again"))
      return;
    drop(0, 4000 + (int64_t)(test_random() % 20000), (int)(test_random() % 2));
    if (test_random() % 2)
      OK(s, emb_checkpoint(s));
    if (!holds("rows deleted"))
      break;
  }
  test_count("times that a disk was full", rounds + 2);
  CHECK(help_verify(s));
  end();
}
