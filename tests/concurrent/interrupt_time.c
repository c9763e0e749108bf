/* SPDX-License-Identifier: MIT
**
** interrupt_time.c -- how soon a statement ends after an interrupt from
** another thread: while it waits for something that another connection holds,
** and at many moments of long work.  interrupt_sql.c tests what is left
** behind.
**
** WAITS     The obstacle stays until the statement has ended, and the tables'
**           timeout is an hour: so the statement is waiting when it is
**           interrupted, however slow the machine is.
** WORK      Interrupted at later and later moments until it ends by itself, or
**           has worked for long enough.
** TIME      is the contract here.  The best of several tries counts: the
**           machine may be busy.
*/
#include "sql_help.h"
#include "store_help.h"

#include "engine/table/session/session.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  /* After an interrupt.  ThreadSanitizer writes 128 MB of its own for each 32
  ** MB that a search allocates or frees: up to 1.9 s where a release build
  ** takes 0.01. */
  END_MS = SANITIZED ? 5000 : 200,
  BEFORE_MS = 100, /* from a statement's begin to the first one */
  AGAIN_MS = 20,   /* to the next, if the first came before the statement */
  LATEST_MS = 500, /* times LONG */
  TRIES = 10,      /* ends with the first good try */
  ROWS = SANITIZED ? 8000 : 60000,
};

static int64_t latest_ms(void) { return LATEST_MS * (int64_t)help_long(); }

/* ---- one statement ------------------------------------------------------- */

static struct runner {
  sqlite3 *db;
  const char *sql;
  _Atomic int64_t ended_ms; /* 0: not yet */
  int rc;
  char text[200];
} run;

static void *run_thread(void *arg) {
  sqlite3_stmt *statement = NULL;
  const char *rest = run.sql;
  int rc = SQLITE_OK;
  (void)arg;
  while (rc == SQLITE_OK && *rest) {
    rc = sqlite3_prepare_v2(run.db, rest, -1, &statement, &rest);
    do
      rc = rc == SQLITE_OK || rc == SQLITE_ROW ? sqlite3_step(statement) : rc;
    while (rc == SQLITE_ROW);
    rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    (void)snprintf(run.text, sizeof run.text, "%s", sqlite3_errmsg(run.db));
    (void)sqlite3_finalize(statement);
    statement = NULL;
  }
  run.rc = rc & 0xff;
  atomic_store(&run.ended_ms, help_now_ms());
  return NULL;
}

/* How long it took to end after its interrupt; -1: it had ended before. */
static int64_t interrupt_after(sqlite3 *db, const char *sql, int64_t ms) {
  int64_t start = help_now_ms(), interrupted = 0;
  pthread_t thread;
  run = (struct runner){.db = db, .sql = sql};
  if (!CHECK_EQ_INT(pthread_create(&thread, NULL, run_thread, NULL), 0))
    return -1;
  while (!atomic_load(&run.ended_ms) && help_now_ms() - start < ms)
    (void)usleep(1000);
  while (!atomic_load(&run.ended_ms)) {
    interrupted = interrupted ? interrupted : help_now_ms();
    sqlite3_interrupt(db);
    for (int i = 0; i < AGAIN_MS && !atomic_load(&run.ended_ms); i++)
      (void)usleep(1000);
  }
  CHECK_EQ_INT(pthread_join(thread, NULL), 0);
  return interrupted ? atomic_load(&run.ended_ms) - interrupted : -1;
}

/* Connects the tables of a statement.  If an interrupt keeps a table-valued
** function from being connected, SQLite takes the error's text but not its
** code: it returns SQLITE_ERROR. */
static void connect_tables(sqlite3 *db, const char *sql) {
  while (*sql) {
    sqlite3_stmt *statement = NULL;
    CHECK_EQ_INT(sqlite3_prepare_v2(db, sql, -1, &statement, &sql), SQLITE_OK);
    (void)sqlite3_finalize(statement);
  }
}

/* 0: it had ended before that moment. */
static int ends_soon(sqlite3 *db, const char *before, const char *sql,
                     int64_t ms, int waits) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < TRIES && best > END_MS; i++) {
    if (before && !sql_runs(db, before))
      return 0;
    int64_t took = interrupt_after(db, sql, ms);
    if (took < 0 && !waits)
      return test_check(run.rc == SQLITE_OK, __FILE__, __LINE__,
                        "%.80s gave %d: %s", sql, run.rc, run.text) &&
             0;
    test_check(run.rc == SQLITE_INTERRUPT || (!waits && run.rc == SQLITE_OK),
               __FILE__, __LINE__, "%.80s gave %d after %lld ms: %s", sql,
               run.rc, (long long)ms, run.text);
    best = took < best ? took : best;
    if (!sqlite3_get_autocommit(db))
      (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  test_check(best <= END_MS, __FILE__, __LINE__,
             "%.80s ended %lld ms after the interrupt at %lld ms", sql,
             (long long)best, (long long)ms);
  return 1;
}

static void waits(sqlite3 *db, const char *sql) {
  (void)ends_soon(db, NULL, sql, BEFORE_MS, 1);
}

/* 1: it has ended by itself. */
static int works(sqlite3 *db, const char *before, const char *sql) {
  connect_tables(db, sql);
  for (int64_t ms = 5; ms < latest_ms(); ms *= 2)
    if (!ends_soon(db, before, sql, ms, 0))
      return 1;
  return 0;
}

/* ---- waits --------------------------------------------------------------- */

static sqlite3 *db, *other;
static char file[400];

static sqlite3 *connect_beside(const char *name) {
  (void)snprintf(file, sizeof file, "%s/%s", test_dir(), name);
  return sql_connect(file, 0);
}

static int start(void) {
  if (!test_dir())
    return 0;
  db = connect_beside("app.db");
  other = connect_beside("app.db");
  return sql_runs(
      db, "PRAGMA journal_mode=WAL; CREATE TABLE one(x); INSERT INTO one "
          "VALUES(1); CREATE VIRTUAL TABLE v USING emb(vector FLOAT[1], "
          "timeout=3600000); INSERT INTO v VALUES(1, '[1]'), (2, '[2]');"
          "CREATE VIRTUAL TABLE late USING emb(vector FLOAT[1], "
          "timeout=3600000, staleness=0); INSERT INTO late VALUES(1, '[1]'),"
          "(2, '[2]'); CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY "
          "KEY, vector FLOAT[1], timeout=3600000); INSERT INTO words "
          "VALUES('a', '[1]')");
}

static void finish(void) {
  (void)sql_runs(db, "INSERT INTO v(v) VALUES('integrity-check')");
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_lease) {
  if (!start())
    return;
  (void)sql_runs(other, "SELECT emb_get('late', '[1]')");
  waits(db, "SELECT vector FROM late WHERE key = 1");
  waits(db, "SELECT vector FROM late WHERE key IN (2, 1)");
  waits(db, "SELECT emb_get('late', '[2,1]')");
  waits(db, "UPDATE late SET vector = emb_add(vector, vector) WHERE key = 1");
  (void)sql_runs(db, "SELECT emb_prefetch('late', '[1]')");
  waits(db, "SELECT emb_prefetch_synchronize('late', 1)");
  (void)sql_runs(other, "SELECT emb_release('late')");
  finish();
}

TEST(a_key_of_a_transaction) {
  if (!start())
    return;
  (void)sql_runs(other, "BEGIN; UPDATE v SET vector = '[3]' WHERE key = 1");
  waits(db, "SELECT emb_put('v', '[2,1]', '[[1],[2]]')");
  waits(db, "SELECT emb_rmw('v', '[1]', '[1]')");
  (void)sql_runs(db, "SELECT emb_write_back('v', '[1]', '[5]')");
  waits(db, "SELECT emb_write_back_synchronize('v', 1)");
  (void)sql_runs(other, "ROLLBACK");
  finish();
}

/* The write lock of the database, on connections besides the user's. */
TEST(a_lock_of_sqlite) {
  char sql[500];
  if (!start())
    return;
  (void)sql_runs(other, "BEGIN IMMEDIATE");
  waits(db, "SELECT emb_put('words', '[\"new\"]', '[1]') FROM one");
  waits(db, "BEGIN; SELECT * FROM one; "
            "SELECT emb_put('words', '[\"new\"]', '[1]')");
  (void)snprintf(sql, sizeof sql, "SELECT * FROM emb_backup('%s/copy.db')",
                 test_dir());
  waits(db, sql);
  (void)sql_runs(other, "ROLLBACK");
  finish();
}

/* The locks of a backup's files. */
TEST(a_lock_of_a_backup) {
  char sql[500];
  if (!start())
    return;
  (void)snprintf(sql, sizeof sql, "SELECT * FROM emb_backup('%s/copy.db')",
                 test_dir());
  (void)sql_runs(db, sql);
  sqlite3 *copy = connect_beside("copy.db");
  (void)sql_runs(copy, "BEGIN EXCLUSIVE");
  waits(db, sql);
  (void)sql_runs(copy, "ROLLBACK");
  CHECK_EQ_INT(sqlite3_close(copy), SQLITE_OK);
  copy = connect_beside("copy.db-backup-new");
  (void)sql_runs(copy, "BEGIN EXCLUSIVE");
  waits(db, sql);
  (void)sql_runs(copy, "ROLLBACK");
  CHECK_EQ_INT(sqlite3_close(copy), SQLITE_OK);
  (void)sql_runs(db, sql);
  finish();
}

/* The lock that a long checkpoint holds. */
TEST(the_lock_of_a_checkpoint) {
  static const char *const list[] = {
      "INSERT INTO v(v) VALUES('checkpoint')",
      "INSERT INTO v(v) VALUES('optimize')",
      "INSERT INTO v(v) VALUES('integrity-check')",
      "SELECT emb_snapshot('v', 's')",
      "SELECT emb_snapshot_drop('v', 'old')",
  };
  emb_config config = {.dim = 1};
  emb_store *store;
  char dir[500];
  if (!start())
    return;
  (void)sql_runs(db, "SELECT emb_snapshot('v', 'old')");
  (void)snprintf(dir, sizeof dir, "%s/app.db-emb/v", test_dir());
  if (CHECK_EQ_INT(emb_open(dir, &config, &store, NULL), EMB_OK)) {
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
      pthread_mutex_lock(&store->core.ckpt_lock);
      waits(db, list[i]);
      pthread_mutex_unlock(&store->core.ckpt_lock);
    }
    CHECK_EQ_INT(emb_close(store, NULL), EMB_OK);
  }
  finish();
}

/* ---- work ---------------------------------------------------------------- */

static int fill(void) {
  char sql[1000];
  if (!start())
    return 0;
  (void)snprintf(
      sql, sizeof sql,
      "CREATE TEMP TABLE keys AS WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL "
      "SELECT i + 1 FROM s WHERE i < %d) SELECT i FROM s;"
      "CREATE VIRTUAL TABLE w USING emb(vector FLOAT[8], timeout=3600000,"
      "memory='64MB');"
      "CREATE VIRTUAL TABLE r USING emb(vector FLOAT[8], timeout=3600000);"
      "INSERT INTO w SELECT i, emb_f32(json_array(i * 611953 %% 999983 * 1e-6, "
      "i * 611957 %% 999979 * 1e-6, i * 611969 %% 999961 * 1e-6, "
      "i * 611993 %% 999959 * 1e-6, i * 611999 %% 999953 * 1e-6, "
      "i * 612011 %% 999931 * 1e-6, i * 612023 %% 999917 * 1e-6, "
      "i * 612037 %% 999907 * 1e-6)) FROM keys;"
      "SELECT emb_snapshot('w', 'm'); SELECT emb_delta_begin('w', 'c');"
      "UPDATE w SET vector = emb_scale(vector, 2)",
      ROWS);
  return sql_runs(db, sql);
}

TEST(work_on_rows) {
  static const struct {
    const char *before, *sql;
  } list[] = {
      {NULL, "SELECT count(*), sum(length(vector)) FROM w"},
      {NULL, "SELECT sum(length(vector)) FROM (SELECT * FROM w ORDER BY key "
             "DESC)"},
      {NULL, "SELECT count(*) FROM w WHERE vector MATCH "
             "'[1,1,1,1,1,1,1,1]' AND k = 60000"},
      {NULL, "SELECT count(*) FROM emb_nearest('w', (SELECT emb_get('w', "
             "emb_pack(key)) FROM w WHERE key <= 40), 60000)"},
      {NULL, "SELECT length(emb_get('w', (SELECT emb_pack(i) FROM keys)))"},
      {NULL, "SELECT emb_rmw('w', (SELECT emb_pack(i) FROM keys), (SELECT "
             "zeroblob(32 * count(*)) FROM keys))"},
      {NULL, "UPDATE w SET vector = emb_scale(vector, 2)"},
      {"BEGIN; UPDATE w SET vector = emb_scale(vector, 2)", "COMMIT"},
      {NULL, "SELECT count(*) FROM emb_sample('w', 60000)"},
      {NULL, "INSERT INTO w(w) VALUES('integrity-check')"},
      {"SELECT emb_rmw('w', (SELECT emb_pack(i) FROM keys), (SELECT "
       "zeroblob(32 * count(*)) FROM keys))",
       "INSERT INTO w(w) VALUES('optimize')"},
      {NULL, "INSERT INTO w(w) VALUES('warm')"},
  };
  if (!fill())
    return;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    (void)works(db, list[i].before, list[i].sql);
  finish();
}

/* Long lists: backwards, one key many times, JSON; and their sorts. */
TEST(work_on_lists) {
  static const char *const list[] = {
      "SELECT count(*) FROM emb_each((SELECT floats FROM lists))",
      "SELECT count(*) FROM emb_keys((SELECT text FROM lists))",
      "SELECT length(emb_f32((SELECT floats FROM lists)))",
      "SELECT length(emb_to_json((SELECT emb_f32(floats) FROM lists)))",
      "SELECT length(emb_peek('w', (SELECT one FROM lists)))",
      "SELECT length(emb_peek('w', (SELECT text FROM lists)))",
      "SELECT length(emb_bag('w', (SELECT back FROM lists), (SELECT text FROM "
      "zero), 'sum'))",
      "SELECT count(*) FROM emb_lookahead('w', (SELECT back FROM lists))",
      "SELECT count(*) FROM w WHERE key IN (SELECT -i FROM many)",
      "SELECT count(*) FROM emb_nearest('w', (SELECT emb_peek('w', '[1]')), 3, "
      "NULL, (SELECT back FROM lists))",
      "SELECT count(*) FROM emb_sample('w', 1000, 'uniform', 'unique=yes', "
      "(SELECT back FROM lists))",
      "SELECT length(emb_get('late8', (SELECT back FROM lists)))",
  };
  if (!fill() ||
      !sql_runs(
          db,
          "CREATE VIRTUAL TABLE late8 USING emb(vector FLOAT[8], staleness=4);"
          "CREATE TEMP TABLE many AS SELECT (a.i - 1) * 60000 + b.i AS i FROM "
          "keys a, keys b WHERE a.i <= 2000000 / (SELECT count(*) FROM keys) "
          "ORDER BY 1 DESC;"
          "CREATE TEMP TABLE lists AS SELECT emb_pack(i) AS back, "
          "emb_pack(7) AS one, '[' || group_concat(i) || ']' AS text, '[' || "
          "group_concat('0.123') || ']' AS floats FROM many;"
          "CREATE TEMP TABLE zero AS SELECT '[0]' AS text"))
    return;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    (void)works(db, "SELECT emb_release('late8')", list[i]);
  finish();
}

/* All rows are equally near, so none is left out early. */
TEST(work_on_equal_rows) {
  static const char *const list[] = {
      "SELECT count(*) FROM emb_nearest('e', 'rows', 3)",
      "SELECT count(*) FROM emb_nearest('e', 'rows', 300)",
      "SELECT count(*) FROM emb_nearest('e', zeroblob(2000 * 256), 3)",
      "SELECT count(*) FROM emb_nearest('e', zeroblob(2000 * 256), 3, NULL, "
      "(SELECT emb_pack(i) FROM keys WHERE i <= 5000))",
      "SELECT count(*) FROM emb_nearest('e', zeroblob(2000 * 256), 3, "
      "'snapshot=m')",
      "SELECT count(*) FROM emb_nearest('i', zeroblob(5000 * 256), 3)",
      "SELECT count(*) FROM emb_nearest('i', zeroblob(5000 * 256), 3, "
      "'probes=1000000')",
      "SELECT count(*) FROM e WHERE vector MATCH zeroblob(256) AND k = 60000",
  };
  if (!fill() ||
      !sql_runs(db, "CREATE VIRTUAL TABLE e USING emb(vector FLOAT[64]);"
                    "CREATE VIRTUAL TABLE i USING emb(vector FLOAT[64] "
                    "index=ivf);"
                    "INSERT INTO e SELECT i, zeroblob(256) FROM keys;"
                    "INSERT INTO i SELECT i, zeroblob(256) FROM keys;"
                    "SELECT emb_snapshot('e', 'm')"))
    return;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    (void)works(db, NULL, list[i]);
  finish();
}

TEST(work_on_files) {
  static const char *const list[] = {
      "SELECT emb_snapshot_export('w', 'm', '%s/m.emb')",
      "SELECT sum(length(vector)) FROM emb_snapshot('w', 'm')",
      "SELECT sum(length(vector)) FROM emb_snapshot_file('%s/m.emb')",
      "SELECT emb_snapshot_restore('r', '%s/m.emb')",
      "SELECT sum(length(vector)) FROM emb_delta('w', 'c')",
      "SELECT emb_delta_export('w', 'c', '%s/d.emb')",
      "SELECT emb_delta_apply('r', '%s/d.emb')",
      "SELECT count(*) FROM emb_backup('%s/copy.db')",
      "SELECT count(*) FROM emb_backup('%s/copy.db')",
      "SELECT count(*) FROM emb_backup_check('%s/copy.db')",
  };
  char sql[700];
  if (!fill())
    return;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    (void)snprintf(sql, sizeof sql, list[i], test_dir());
    if (!works(db, NULL, sql)) /* the next one reads what it writes */
      (void)sql_runs(db, sql);
  }
  finish();
}

#ifndef EMB_OMIT_DATA

#define GET_ALL_SAMPLES                                                        \
  "SELECT count(*) FROM emb_samples_get('s', (SELECT emb_pack(key) FROM s))"

TEST(work_on_samples) {
  static const char *const list[] = {
      "INSERT INTO s(payload, label) SELECT x'64', 1 FROM keys",
      "SELECT count(*), sum(label) FROM s",
      "INSERT INTO s(s) VALUES('check')",
      GET_ALL_SAMPLES,
      "SELECT count(*) FROM emb_samples_worker('s', 0, 2)",
  };
  if (!fill())
    return;
  (void)sql_runs(db, "CREATE VIRTUAL TABLE s USING emb_samples(record=16, "
                     "label_offset=0)");
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    (void)works(db, NULL, list[i]);
  finish();
}

TEST(work_on_choices) {
  static const char *const methods[] = {
      "k-center",
      "craig",
      "craig(greedy=stochastic)",
      "submodular(facility_location)",
      "submodular(graph_cut)",
      "submodular(log_determinant)",
  };
  char sql[300];
  if (!fill() || !sql_runs(db, "CREATE TABLE g AS SELECT key, key % 2 AS "
                               "label, vector FROM w WHERE key <= 6000"))
    return;
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    (void)snprintf(sql, sizeof sql,
                   "SELECT length(emb_coreset(key, vector, 1500, '%s')) FROM g",
                   methods[i]);
    (void)works(db, NULL, sql);
  }
  (void)works(db, NULL, "SELECT emb_drift_mmd(vector, label) FROM g");
  (void)works(db, NULL,
              "SELECT emb_drift_ks(emb_random(1, key), label) FROM g");
  finish();
}

/* Numbers that are all equal, or in the wrong order. */
TEST(work_on_numbers) {
  static const char *const list[] = {
      "SELECT emb_auc(0.5, i % 2) FROM many",
      "SELECT emb_auc(-i, i % 2) FROM many",
      "SELECT emb_drift_ks(0.5, i % 2) FROM many",
      "SELECT emb_drift_cvm(-i, i % 2) FROM many",
      "SELECT emb_drift_hellinger(-i, i % 2) FROM many",
      "SELECT emb_f1(i, -i) FROM many",
      "SELECT length(emb_coreset(-i, '[1]', 10, 'k-center')) FROM many",
  };
  if (!fill() ||
      !sql_runs(db, "CREATE TEMP TABLE many AS SELECT (a.i - 1) * 60000 + b.i "
                    "AS i FROM keys a, keys b WHERE a.i <= 2000000 / (SELECT "
                    "count(*) FROM keys)"))
    return;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
    (void)works(db, NULL, list[i]);
  finish();
}

/* Most of its time goes into the solving at the end. */
TEST(work_on_weights) {
  static const char *const sql =
      "SELECT length(emb_coreset(key, vector, 2000, 'gradmatch')) FROM w "
      "WHERE key <= 2000";
  if (!fill())
    return;
  for (int64_t ms = 400; ms < 4 * latest_ms(); ms *= 2)
    if (!ends_soon(db, NULL, sql, ms, 0))
      break;
  finish();
}

#endif
