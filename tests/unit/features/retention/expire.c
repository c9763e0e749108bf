/* SPDX-License-Identifier: MIT
**
** expire.c -- rows that expire after their time to live, against a model, with
** a clock that the test moves.
*/
#include "forget_help.h"

#include "engine/features/retention/expire.h"
#include "engine/table/session/session.h"

enum { KEYS = 3000, DIM = 30, BATCH = 200 };

/* Slot 0 expires after a day, 1 after an hour, 2 never, 3 and 4 after a
** week. */
#define TTL "1d, 1:1h, 2:none, 3-4:1w"
#define SHORTEST 3600

static struct ttl ttl;
/* updated_at, 0: absent; saved: when the transaction began. */
static uint32_t rows[KEYS], saved[KEYS];

static int64_t key_of(int i) { return (int64_t)(i % 6) << 48 | (i + 1); }
static int of_key(int64_t key) { return (int)(key & 0xffffffff) - 1; }

static emb_config config(uint32_t track, const char *text) {
  emb_config c = forget_config(DIM);
  c.track = track;
  c.ttl = text;
  return c;
}

static void begin(void) {
  forget_begin();
  memset(rows, 0, sizeof rows);
  CHECK_EQ_INT(ttl__parse(&ttl, TTL, NULL), EMB_OK);
}

static uint32_t due(int i) { return ttl_due(&ttl, key_of(i), rows[i]); }

/* Each row must match the model and may be gone only if it was due; the model
** then drops it.  Rows due at or before `late` must be gone. */
static void check_all(emb_session *s, uint32_t late, uint64_t *expired) {
  static int64_t keys[KEYS];
  static float vectors[KEYS * DIM];
  static uint8_t found[KEYS];
  for (int i = 0; i < KEYS; i++)
    keys[i] = key_of(i);
  OK(s, emb_peek(s, keys, KEYS, vectors, found, NULL));
  for (int i = 0; i < KEYS; i++) {
    if (found[i]) {
      CHECK(rows[i] != 0);
      test_check(due(i) > late, __FILE__, __LINE__,
                 "row %d of %u is due at %u, still there at %u", i, rows[i],
                 due(i), late);
      CHECK(help_is(vectors + i * DIM, DIM, keys[i], i));
    } else if (rows[i]) {
      CHECK(due(i) <= forget_now());
      rows[i] = 0;
      ++*expired;
    }
  }
}

static void write_some(emb_session *s) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  size_t n = 1 + test_random() % BATCH;
  uint32_t time = 0;
  int from = (int)(test_random() % KEYS), transaction = emb_in_transaction(s);
  for (size_t i = 0; i < n; i++) {
    int row = (from + (int)i) % KEYS;
    keys[i] = key_of(row);
    help_vector(vectors + i * DIM, DIM, keys[i], row);
  }
  if (test_random() % 4 == 0)
    time = forget_now() - (uint32_t)(test_random() % 100000);
  emb_session_time(s, time);
  if (test_random() % 5) {
    OK(s, transaction ? emb_txn_put(s, keys, n, vectors)
                      : emb_put(s, keys, n, vectors, NULL));
    for (size_t i = 0; i < n; i++) {
      uint32_t *row = &rows[of_key(keys[i])], t = time ? time : forget_now();
      *row = t > *row ? t : *row;
    }
  } else {
    OK(s, transaction ? emb_txn_delete(s, keys, n, NULL)
                      : emb_delete(s, keys, n, NULL));
    for (size_t i = 0; i < n; i++)
      rows[of_key(keys[i])] = 0;
  }
}

static void check_copy(const char *dir, emb_session *s, const emb_config *c,
                       uint64_t *expired) {
  static uint32_t before[KEYS];
  emb_store *store;
  emb_session *other;
  if (forget_open_copy(dir, s, c, &store, &other)) {
    check_all(other, forget_now(), expired);
    /* The copy knows when the other rows are due.  The clock is set back after
    ** that. */
    memcpy(before, rows, sizeof rows);
    forget_env.still_wall_s += 30000;
    OK(other, emb_expire(other, NULL));
    check_all(other, forget_now(), expired);
    forget_env.still_wall_s -= 30000;
    memcpy(rows, before, sizeof rows);
    help_verify(other);
    help_close(store, other);
  }
}

TEST(against_a_model) {
  char dir[512];
  emb_config c = config(EMB_TRACK_WALL, TTL);
  emb_store *store;
  emb_session *s;
  uint64_t expired = 0, restarts = 0;
  begin();
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!help_open(dir, &c, &store, &s))
    return;
  for (unsigned round = 0; round < help_amount(400); round++) {
    int open = emb_in_transaction(s);
    switch (test_random() % 14) {
    case 0:
      failing_pass(&forget_env, (test_random() % 40000) * 1000000);
      break;
    case 1: /* rows that a transaction held are examined a second later */
      failing_pass(&forget_env, 1000000);
      forget_steps(store);
      check_all(s,
                open || !emb_is_owner(store) ? 0 : forget_now() - SHORTEST / 16,
                &expired);
      break;
    case 2:
      if (open) {
        GIVES(s, EMB_LOCKED, emb_expire(s, NULL));
        break;
      }
      OK(s, emb_expire(s, NULL));
      check_all(s, forget_now(), &expired);
      if (test_random() % 4 == 0)
        check_copy(dir, s, &c, &expired);
      break;
    case 3:
      if (!open)
        OK(s, emb_checkpoint(s));
      break;
    case 4:
      if (!open && test_random() % 2) {
        check_all(s, 0, &expired);
        help_close(store, s);
        restarts++;
        if (!help_open(dir, &c, &store, &s))
          return;
        check_all(s, 0, &expired);
      }
      break;
    case 5:
      if (!open) {
        check_all(s, 0, &expired);
        memcpy(saved, rows, sizeof rows);
        OK(s, emb_begin(s));
      } else if (test_random() % 2) {
        OK(s, emb_commit(s));
      } else {
        emb_rollback(s);
        memcpy(rows, saved, sizeof rows);
        check_all(s, 0, &expired);
      }
      break;
    default:
      check_all(s, 0, &expired);
      write_some(s);
    }
  }
  if (emb_in_transaction(s))
    OK(s, emb_commit(s));
  OK(s, emb_expire(s, NULL));
  check_all(s, forget_now(), &expired);
  help_verify(s);
  HELP_CAME(expired > 0);
  help_close(store, s);
  forget_end();
  test_count("expired rows", expired);
  test_count("restarts of a table that expires", restarts);
}

static void put_range(emb_session *s, int64_t from, int64_t n) {
  static float vectors[1000 * DIM];
  int64_t keys[1000];
  for (int64_t at = 0; at < n; at += 1000) {
    for (int64_t i = 0; i < 1000; i++)
      keys[i] = from + at + i;
    OK(s, emb_put(s, keys, 1000, vectors, NULL));
  }
}

/* Expiry reads only old rows, also after a restart. */
TEST(the_cost_follows_what_is_old) {
  const char *dir = help_path("store");
  emb_config c = config(EMB_TRACK_DATA, "1000s");
  emb_store *store;
  emb_session *s;
  uint64_t removed;
  begin();
  if (!help_open(dir, &c, &store, &s))
    return;
  emb_session_time(s, 10000);
  put_range(s, 0, 20000);
  emb_session_time(s, 12000);
  put_range(s, 20000, 200000);
  for (int again = 0; again < 2; again++) {
    int64_t before;
    if (again) { /* the close compacted the log, and much is not in memory */
      help_close(store, s);
      if (!help_open(dir, &c, &store, &s))
        return;
      emb_session_time(s, 12990);
      put_range(s, 0, 1000);
    }
    OK(s, emb_checkpoint(s));
    before = help_stat(store, "read_bytes");
    OK(s, emb_expire(s, &removed));
    CHECK_EQ_INT(removed, again ? 0 : 20000);
    CHECK(help_stat(store, "read_bytes") - before < (INT64_C(5) << 20));
    CHECK_EQ_INT(emb_count(s), again ? 201000 : 200000);
  }
  CHECK_EQ_INT(help_stat(store, "expired_keys"), 0);
  help_close(store, s);
  forget_end();
}

/* Compaction does not change when records are due. */
TEST(compaction_keeps_the_time) {
  emb_config c = config(EMB_TRACK_DATA, "1000s");
  emb_store *store;
  emb_session *s;
  uint64_t removed;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  emb_session_time(s, 10000);
  put_range(s, 0, 20000);
  for (int64_t key = 0; key < 20000; key++)
    if (key % 10)
      OK(s, emb_delete(s, &key, 1, NULL));
  OK(s, emb_optimize(s));
  CHECK(help_stat(store, "compacted_records") > 0);
  emb_session_time(s, 11000);
  put_range(s, 50000, 1000);
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 2000);
  CHECK_EQ_INT(emb_count(s), 1000);
  help_close(store, s);
  forget_end();
}

/* A transaction begins between the choice of an extent and its examination, and
** its records there are not committed yet. */
TEST(what_is_not_committed_is_not_forgotten) {
  emb_config c = config(EMB_TRACK_DATA, "1000s");
  emb_store *store;
  emb_session *s;
  uint64_t removed;
  float v[DIM] = {0};
  int64_t a = 1, b = 2;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  emb_session_time(s, 10900);
  OK(s, emb_put(s, &a, 1, v, NULL));
  OK(s, emb_begin(s));
  emb_session_time(s, 10000);
  OK(s, emb_txn_put(s, &b, 1, v));
  pthread_mutex_lock(&store->core.ckpt_lock);
  CHECK_EQ_INT(expire__choose(&store->core, 20000, 0), 0);
  for (uint64_t e = store->core.log.first;
       e <= atomic_load(&store->core.log.tail) >>
       store->core.layout.extent_bits;
       e++) {
    struct expire_pass pass = {.extent = e, .now = 10500, .retry = 10501};
    CHECK_EQ_INT(expire__extent(&store->core, store->work_slot, &pass, NULL),
                 EMB_OK);
    CHECK_EQ_INT(pass.removed, 0);
  }
  pthread_mutex_unlock(&store->core.ckpt_lock);
  OK(s, emb_commit(s));
  emb_session_time(s, 11000);
  a = 3;
  OK(s, emb_put(s, &a, 1, v, NULL));
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 1);
  CHECK_EQ_INT(emb_count(s), 2);
  help_close(store, s);
  forget_end();
}

/* A crash: the checkpoint covers an extent, but not the records written to the
** extent later. */
TEST(a_time_of_before_a_crash_is_not_trusted) {
  const char *dir = help_path("store"), *copy = help_path("copy");
  emb_config c = config(EMB_TRACK_DATA, "1000s, 1:10s");
  emb_store *store;
  emb_session *s;
  uint64_t number, removed;
  float v[DIM] = {0};
  int64_t a = 1, b = key_of(1);
  begin();
  if (!help_open(dir, &c, &store, &s))
    return;
  emb_session_time(s, 12000);
  OK(s, emb_put(s, &a, 1, v, NULL));
  OK(s, emb_checkpoint(s));
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &b, 1, v));
  OK(s, emb_prepare(s, &number));
  OK(s, emb_commit(s));
  CHECK(files_copy_dir(copy, dir));
  help_close(store, s);
  if (!help_open(copy, &c, &store, &s))
    return;
  CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, NULL), EMB_OK);
  emb_session_time(s, 12010);
  a = 2;
  OK(s, emb_put(s, &a, 1, v, NULL));
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 1);
  CHECK_EQ_INT(emb_count(s), 2);
  help_close(store, s);
  forget_end();
}

/* New times to live at the next open also apply to existing rows. */
TEST(the_time_to_live_can_change) {
  const char *dir = help_path("store");
  emb_config c = config(EMB_TRACK_WALL, "30d");
  emb_store *store;
  emb_session *s;
  uint64_t removed;
  begin();
  if (!help_open(dir, &c, &store, &s))
    return;
  put_range(s, 0, 5000);
  failing_pass(&forget_env, UINT64_C(7200) * 1000000);
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 0);
  help_close(store, s);
  c.ttl = "1h";
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 5000);
  put_range(s, 0, 1000);
  help_close(store, s);
  c.ttl = "none";
  if (!help_open(dir, &c, &store, &s))
    return;
  failing_pass(&forget_env, UINT64_C(720000) * 1000000);
  OK(s, emb_expire(s, &removed));
  CHECK_EQ_INT(removed, 0);
  CHECK_EQ_INT(emb_count(s), 1000);
  help_close(store, s);
  forget_end();
}

TEST(texts) {
  static const struct {
    const char *text, *printed;
  } good[] = {{"30d", "2592000s"},
              {" 1 w ", "604800s"},
              {"5:7d", "none,5-5:604800s"},
              {"none", "none"},
              {"2h, 8 - 15 : none, 3:1min", "7200s,3-3:60s,8-15:none"},
              {"0-32767:1s", "none,0-32767:1s"}};
  static const char *const bad[] = {"",          "d",
                                    "1",         "0d",
                                    "1y",        "-1d",
                                    "1d,",       "1d,2d",
                                    "1d 2d",     "5:",
                                    "5:1d,5:2d", "5-3:1d",
                                    "32768:1d",  "1-5:1d,3-9:2d",
                                    "50000d",    "5000000000s",
                                    "1d;2:1d",   "3-9:2d,1-5:1d"};
  struct ttl t;
  char text[TTL_TEXT_MAX];
  emb_err err;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    CHECK_EQ_INT(ttl__parse(&t, good[i].text, &err), EMB_OK);
    ttl__print(&t, text, sizeof text);
    CHECK_STR(text, good[i].printed);
    CHECK_EQ_INT(ttl__parse(&t, text, &err), EMB_OK);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    test_check(ttl__parse(&t, bad[i], &err) == EMB_RANGE, __FILE__, __LINE__,
               "\"%s\" was accepted", bad[i]);
  }
}

TEST(when_a_row_is_due) {
  struct ttl t;
  CHECK_EQ_INT(ttl__parse(&t, TTL, NULL), EMB_OK);
  CHECK_EQ_INT(ttl_due(&t, 7, 1000), 1000 + 86400);
  CHECK_EQ_INT(ttl_due(&t, INT64_MIN, 1000), 1000 + 86400);
  CHECK_EQ_INT(ttl_due(&t, key_of(1), 1000), 4600);
  CHECK_EQ_INT(ttl_due(&t, key_of(2), 1000), TTL_NEVER);
  CHECK_EQ_INT(ttl_due(&t, key_of(4), 1000), 1000 + 604800);
  CHECK_EQ_INT(ttl_due(&t, key_of(5), 1000), 1000 + 86400);
  CHECK_EQ_INT(ttl_due(&t, 7, 0), TTL_NEVER);
  CHECK_EQ_INT(ttl_due(&t, 7, UINT32_MAX - 5), TTL_NEVER);
  CHECK_EQ_INT(ttl_least(&t), SHORTEST);
}
