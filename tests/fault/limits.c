/* SPDX-License-Identifier: MIT
**
** limits.c -- sizes that a long life could reach: the error text names the
** limit, a refused call changes nothing, and reads continue.
**
** Counters are set to values that only years of work would reach.
*/
#include "store_help.h"

#include "engine/table/session/session.h"

enum { DIM = 500 };

struct table {
  char dir[512];
  emb_config config;
  emb_store *store;
  emb_session *s;
};

static int open_table(struct table *t) {
  (void)snprintf(t->dir, sizeof t->dir, "%s/store", test_dir());
  t->config.dim = DIM;
  t->config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  return help_open(t->dir, &t->config, &t->store, &t->s);
}

static int txn_put(struct table *t, int64_t key, int32_t value) {
  float vector[DIM];
  int rc = emb_begin(t->s);
  help_vector(vector, DIM, key, value);
  rc = rc ? rc : emb_txn_put(t->s, &key, 1, vector);
  rc = rc ? rc : emb_commit(t->s);
  if (rc && emb_in_transaction(t->s)) {
    char text[512];
    (void)snprintf(text, sizeof text, "%s", emb_errmsg(t->s));
    emb_rollback(t->s);
    CHECK(strstr(text, "2^48") != NULL);
  }
  return rc;
}

static void holds(struct table *t, int64_t key, int32_t value) {
  float vector[DIM];
  uint8_t found;
  OK(t->s, emb_get(t->s, &key, 1, vector, &found, NULL));
  CHECK(found && help_is(vector, DIM, key, value));
}

static void says(struct table *t, const char *text) {
  (void)test_check(strstr(emb_errmsg(t->s), text) != NULL, __FILE__, __LINE__,
                   "it says: %s", emb_errmsg(t->s));
}

/* A row's version has 48 bits: a truncated version would be below the marks
** of consumers and snapshots, and never be delivered. */
TEST(versions) {
  struct table t = {0};
  const uint64_t end = REC_VERSIONS_END;
  float delta[DIM] = {0};
  int64_t key = 1, other = 2, rows;
  uint64_t version, count;
  uint8_t found;
  char path[600];
  if (!open_table(&t))
    return;
  OK(t.s, help_put(t.s, 1, 1));
  _Atomic uint64_t *counter = &emb_session_store(t.s)->core.version;
  atomic_store(counter, end - 2);
  OK(t.s, help_put(t.s, 1, 2));
  OK(t.s, emb_peek(t.s, &key, 1, NULL, &found, &version));
  CHECK(version == end - 1);
  OK(t.s, emb_delta_begin(t.s, "a", EMB_DELTA_NOW, 0));
  OK(t.s, help_put(t.s, 2, 3));
  for (int again = 0; again < 2; again++) {
    GIVES(t.s, EMB_FULL, help_put(t.s, 1, 9));
    says(&t, "has used up its 2^48 versions: export a snapshot");
    GIVES(t.s, EMB_FULL, emb_rmw(t.s, &key, 1, delta, NULL, NULL));
    CHECK_EQ_INT(txn_put(&t, 1, 9), EMB_FULL);
    holds(&t, 1, 2);
    holds(&t, 2, 3);
    /* The way out. */
    (void)snprintf(path, sizeof path, "%s/file-%d", test_dir(), again);
    OK(t.s, emb_snapshot(t.s, again ? "again" : "s"));
    OK(t.s, emb_snapshot_export(t.s, again ? "again" : "s", path, NULL, &count,
                                NULL));
    CHECK_EQ_INT(count, 2);
    OK(t.s, emb_delta_export(t.s, "a", again ? path : help_path("delta"), NULL,
                             NULL));
    help_verify(t.s);
    help_close(t.store, t.s);
    if (!help_open(t.dir, &t.config, &t.store, &t.s))
      return;
  }
  OK(t.s, emb_delete(t.s, &other, 1, NULL));
  rows = emb_count(t.s);
  CHECK_EQ_INT(rows, 1);
  help_close(t.store, t.s);
}

/* A page names its transaction in 40 bits. */
TEST(transactions) {
  struct table t = {0};
  if (!open_table(&t))
    return;
  OK(t.s, help_put(t.s, 1, 1));
  atomic_store(&emb_session_store(t.s)->core.txn_last, PAGE_TXN_MAX - 1);
  OK(t.s, txn_put(&t, 1, 2));
  GIVES(t.s, EMB_FULL, emb_begin(t.s));
  says(&t, "has used up its 2^40 transaction numbers: export a snapshot");
  holds(&t, 1, 2);
  OK(t.s, help_put(t.s, 1, 3));
  help_verify(t.s);
  help_close(t.store, t.s);
  if (!help_open(t.dir, &t.config, &t.store, &t.s))
    return;
  GIVES(t.s, EMB_FULL, emb_begin(t.s));
  holds(&t, 1, 3);
  help_close(t.store, t.s);
}

/* The last address given out still fits a key's word. */
TEST(addresses) {
  struct table t = {0};
  int rc = EMB_OK;
  if (!open_table(&t))
    return;
  const int64_t key = 1;
  OK(t.s, help_put(t.s, key, 1));
  OK(t.s, emb_delete(t.s, &key, 1, NULL));
  OK(t.s, emb_checkpoint(t.s));
  struct core *core = &emb_session_store(t.s)->core;
  uint64_t extents = UINT64_C(1)
                     << (WORD_ADDRESS_BITS - core->layout.slot_bits -
                         core->layout.extent_bits);
  core->log.first = extents - 2; /* no row is below */
  core->log.page_out_next = extents - 2;
  log_start_at(&core->log, extents - 1);
  for (int i = 0; i < 100000 && !rc; i++) {
    rc = help_put(t.s, 100 + i, 1);
    if (!rc)
      holds(&t, 100 + i, 1);
  }
  CHECK_EQ_INT(rc, EMB_FULL);
  says(&t, "has used up the 2^47 addresses of its log: export a snapshot");
  emb_session_close(t.s);
  /* Rows below are lost to this store, so it is not closed cleanly. */
  (void)emb_close(t.store, NULL);
}

/* A snapshot is kept while the log keeps growing: the log spans as many
** extents as allowed, and grows again once the snapshot is dropped. */
TEST(span_of_the_log) {
  struct table t = {0};
  int rc = EMB_OK;
  if (SANITIZED)
    SKIP("a table of 800 MB, most of it untouched");
  if (!open_table(&t))
    return;
  OK(t.s, help_put(t.s, 1, 1));
  OK(t.s, emb_snapshot(t.s, "old"));
  OK(t.s, help_put(t.s, 1, 2));
  OK(t.s, emb_checkpoint(t.s));
  struct core *core = &emb_session_store(t.s)->core;
  struct log *log = &core->log;
  uint64_t number = log->first + LOG_SPAN_MAX / 2 - 20;
  pthread_mutex_lock(&core->flush_lock);
  epoch_close(&core->epoch);
  rc = log_fit_table(log, number);
  if (!rc)
    log_start_at(log, number);
  epoch_open(&core->epoch);
  pthread_mutex_unlock(&core->flush_lock);
  if (!CHECK_EQ_INT(rc, EMB_OK))
    return;
  int64_t key = 1000;
  for (; key < 100000 && !rc; key++)
    rc = help_put(t.s, key, 1);
  CHECK_EQ_INT(rc, EMB_FULL);
  says(&t, "spans 33554432 extents, the maximum");
  says(&t, "drop the oldest snapshot");
  holds(&t, 1, 2);
  holds(&t, key - 2, 1);
  OK(t.s, emb_snapshot_drop(t.s, "old"));
  OK(t.s, emb_checkpoint(t.s));
  for (int i = 0; i < 3; i++)
    OK(t.s, emb_optimize(t.s));
  for (int64_t more = 0; more < 20000; more++)
    if (!OK(t.s, help_put(t.s, more, 5)))
      break;
  holds(&t, 19999, 5);
  help_verify(t.s);
  help_close(t.store, t.s);
  if (!help_open(t.dir, &t.config, &t.store, &t.s))
    return;
  holds(&t, 19999, 5);
  help_verify(t.s);
  help_close(t.store, t.s);
}

TEST(snapshots) {
  struct table t = {0};
  char name[32];
  emb_snapshot_info infos[EMB_SNAPSHOTS_MAX + 1];
  size_t n;
  if (!open_table(&t))
    return;
  OK(t.s, help_put(t.s, 1, 1));
  for (int i = 0; i < EMB_SNAPSHOTS_MAX; i++) {
    (void)snprintf(name, sizeof name, "s%d", i);
    OK(t.s, emb_snapshot(t.s, name));
  }
  GIVES(t.s, EMB_RANGE, emb_snapshot(t.s, "more"));
  says(&t, "has 64 snapshots, and the maximum is 64: drop one");
  OK(t.s, emb_snapshots(t.s, infos, EMB_SNAPSHOTS_MAX + 1, &n));
  CHECK_EQ_INT(n, EMB_SNAPSHOTS_MAX);
  OK(t.s, emb_snapshot_drop(t.s, "s7"));
  OK(t.s, emb_snapshot(t.s, "more"));
  help_close(t.store, t.s);
}

/* Consumers are in a list. */
TEST(consumers) {
  struct table t = {0};
  char name[80];
  emb_consumer all[300];
  size_t n;
  if (!open_table(&t))
    return;
  OK(t.s, help_put(t.s, 1, 1));
  for (int i = 0; i < 250; i++) {
    (void)snprintf(name, sizeof name, "consumer %d", i);
    OK(t.s, emb_delta_begin(t.s, name, EMB_DELTA_NOW, 0));
  }
  OK(t.s, emb_delta_consumers(t.s, all, 300, &n));
  CHECK_EQ_INT(n, 250);
  help_close(t.store, t.s);
  if (!help_open(t.dir, &t.config, &t.store, &t.s))
    return;
  OK(t.s, emb_delta_consumers(t.s, all, 2, &n));
  CHECK_EQ_INT(n, 250);
  memset(name, 'n', sizeof name);
  name[EMB_CONSUMER_NAME_MAX] = 0;
  OK(t.s, emb_delta_begin(t.s, name, EMB_DELTA_NOW, 0));
  name[EMB_CONSUMER_NAME_MAX] = 'n';
  name[EMB_CONSUMER_NAME_MAX + 1] = 0;
  GIVES(t.s, EMB_RANGE, emb_delta_begin(t.s, name, EMB_DELTA_NOW, 0));
  says(&t, "the name of a consumer has 1 to 64 bytes");
  help_close(t.store, t.s);
}

/* A directory whose own path fits, but not those of its files, would get
** files with wrong names. */
TEST(paths) {
  emb_config config = {.dim = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static char deep[EMB_PATH_MAX + 100], one[EMB_PATH_MAX + 300];
  emb_store *store;
  emb_session *s;
  emb_err err;
  size_t n = (size_t)snprintf(deep, sizeof deep, "%s", test_dir());
  while (n + 202 < EMB_PATH_MAX) {
    deep[n++] = '/';
    memset(deep + n, 'd', 200);
    n += 200;
    deep[n] = 0;
    if (!CHECK_EQ_INT(mkdir(deep, 0700), 0))
      return;
  }
  deep[n++] = '/';
  memset(deep + n, 'e', EMB_PATH_MAX + 1 - n);
  deep[EMB_PATH_MAX + 1] = 0;
  for (int i = 0; i < 2; i++) {
    config.flags ^= i ? EMB_OPEN_TEMPORARY : 0;
    CHECK_EQ_INT(emb_open(deep, &config, &store, &err), EMB_CANTOPEN);
    CHECK(strstr(err.text, "that of a store has at most 4000 bytes, this one "
                           "has 4001") != NULL);
  }
  CHECK_EQ_INT(emb_destroy(deep, &err), EMB_CANTOPEN);
  config.flags ^= EMB_OPEN_TEMPORARY;
  /* The longest path allowed: all its files have their names. */
  deep[EMB_PATH_MAX] = 0;
  if (!help_open(deep, &config, &store, &s))
    return;
  char name[EMB_SNAPSHOT_NAME_MAX + 1] = {0};
  memset(name, 's', EMB_SNAPSHOT_NAME_MAX);
  int64_t key = 1;
  float x = 1;
  OK(s, emb_put(s, &key, 1, &x, NULL));
  OK(s, emb_snapshot(s, name));
  OK(s, emb_delta_begin(s, name, EMB_DELTA_NOW, 0));
  help_close(store, s);
  (void)snprintf(one, sizeof one, "%s/snap-%s", deep, name);
  CHECK_EQ_INT(access(one, F_OK), 0);
  if (!help_open(deep, &config, &store, &s))
    return;
  OK(s, emb_snapshot_drop(s, name));
  help_verify(s);
  help_close(store, s);
  CHECK_EQ_INT(emb_destroy(deep, &err), EMB_OK);
}

/* No metric is left out, however many there are. */
TEST(metrics) {
  struct table t = {0};
  emb_stat few[3], all[200];
  if (!open_table(&t))
    return;
  size_t n = emb_stats(t.store, NULL, 0);
  CHECK(n > 60 && n < 200);
  CHECK_EQ_INT(emb_stats(t.store, few, 3), 3);
  CHECK_EQ_INT(emb_stats(t.store, all, 200), n);
  CHECK_STR(all[n - 1].name, "clients");
  help_close(t.store, t.s);
}
