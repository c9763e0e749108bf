/* SPDX-License-Identifier: MIT
**
** fail_memory_sql.c -- every allocation of SQLite, of the extension through
** SQLite, and of the engine fails in turn under an SQL workload: see
** fail_sql.h.
*/
#include "fail_sql.h"

#include "sql_heap.h"
#include "stacks.h"

/* Runs before SQLite is used at all. */
__attribute__((constructor)) static void replace_heap(void) {
  sql_heap_replace();
}

static int is_memory_code(int code) {
  return (code & 0xff) == SQLITE_NOMEM || code == SQLITE_IOERR_NOMEM;
}

static int fired(struct fail_sql *w) {
  return sql_heap_fired() || w->f.fired > 0;
}

static void disarm(struct fail_sql *w) {
  sql_heap_disarm();
  failing_disarm(&w->f);
}

static int sqlite_fails; /* 0: the engine's memory fails */

static void arm(struct fail_sql *w, uint64_t n, int forever) {
  (void)snprintf(w->what, sizeof w->what, "%s, call %d%s",
                 sqlite_fails ? "SQLite" : "engine", (int)n,
                 forever ? " and all later" : "");
  failing_arm(&w->f, FAILING_MEMORY, sqlite_fails ? 0 : n, forever, ENOMEM);
  sql_heap_arm(sqlite_fails ? (int64_t)n : 0, forever);
}

static void all(int of_sqlite) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  if (!w)
    return;
  sqlite_fails = of_sqlite;
  w->memory = 1;
  w->code_is_right = is_memory_code;
  w->fired = fired;
  w->disarm = disarm;
  w->arm = arm;
  sql_each(w, sqlite_fails ? "SQLite" : "engine", "allocations failed");
  sql_heap_arm(0, 0);
  sql_end(w);
}

TEST(no_memory_for_sqlite) { all(1); }
TEST(no_memory_for_the_engine) { all(0); }

/* Of each table-valued function; each scans at least twice. */
static const char *const scans[] = {
    "SELECT t.name, count(*) > 40 FROM t, emb_stats(t.name) GROUP BY 1",
    "SELECT schema, name, path, key, vector, rows, state, message "
    "FROM emb_tables",
    "SELECT t.name, s.name, keys, state FROM t, emb_snapshots(t.name) s",
    "SELECT t.name, count(*), sum(key), sum(length(vector)) "
    "FROM t, emb_snapshot(t.name, 'now') GROUP BY 1",
    "SELECT key, hex(vector) FROM emb_snapshot('gone', 'now') "
    "WHERE key IN (1, 3, 9)",
    "SELECT t.name, count(*), sum(key), sum(length(vector)), "
    "sum(length(state)) FROM t, emb_delta(t.name, 'me') GROUP BY 1",
    "SELECT t.name, c.name, state FROM t, emb_delta_consumers(t.name) c",
    "SELECT key, op FROM t, emb_evicted(t.name)",
    "SELECT t.name, count(*), sum(query), sum(key) "
    "FROM t, emb_nearest(t.name, 'rows', 2) GROUP BY 1",
    "SELECT t.name, asked, refused FROM t, emb_lookahead(t.name, '[1,2]')",
    "SELECT t.name, count(*) > 1 FROM t, emb_lookahead(t.name) GROUP BY 1",
    "SELECT t.name, count(*), sum(key), sum(length(vector)) "
    "FROM t, emb_snapshot_file('%s/' || t.name) GROUP BY 1",
    "SELECT key, hex(vector) FROM emb_snapshot_file('%s/gone') "
    "WHERE key IN (1, 3, 9)",
    "SELECT emb_snapshot_export('words', 'now', '%s/words')",
    "SELECT key, hex(vector) FROM emb_snapshot_file('%s/words') "
    "WHERE key IN ('a', 'c')",
    "SELECT emb_snapshot_restore('words', '%s/words')",
    "SELECT emb_delta_export('words', 'me', '%s/words')",
    "SELECT hex(emb_bag('gone', '[1,2,1]', '[0,0,2]', 'mean', '[1,2,3]'))",
    "SELECT emb_apply_async('gone', '[3,4,3]', '[0,0,0,0,0,0]') > 0; "
    "SELECT emb_write_back_synchronize('gone')",
    "SELECT emb_bag_apply('gone', '[3,4,3]', '[0,2]', 'sqrtn', '[0,0,0,0]', "
    "'[1,2,3]') > 0",
    "SELECT hex(emb_bag('words', '[\"a\",\"b\"]', '[0,2]', "
    "'sum(include_last_offset=1)'))",
#ifndef EMB_OMIT_DATA
    "SELECT hex(emb_patch(x'0102', emb_diff(x'0102', zeroblob(40), "
    "'operator=xor, width=1')))",
    "SELECT rank, key, weight FROM emb_chosen((SELECT emb_coreset(key, vector, "
    "2, 'craig') FROM items WHERE key < 5))",
#endif
};
static const char scanned[] =
    "CREATE VIRTUAL TABLE gone USING emb(vector FLOAT[2], memory='4MB', "
    "track=data, capacity=4, optimizer='adagrad(lr=1)', commit=engine);"
    "CREATE TABLE t(name TEXT); INSERT INTO t VALUES('gone'), ('items');"
    "INSERT INTO gone(key, vector, updated_at) VALUES(1, '[1,1]', 1), "
    "(2, '[2,2]', 2), (3, '[3,3]', 3), (4, '[4,4]', 4), (5, '[5,5]', 5);"
    "INSERT INTO gone(gone) VALUES('evict');"
    "SELECT emb_snapshot(name, 'now') FROM t;"
    "SELECT emb_snapshot_export(name, 'now', '%s/' || name) FROM t;"
    "SELECT count(*) FROM t, emb_delta(t.name, 'me');"
    "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, "
    "vector FLOAT[2], memory='4MB');"
    "INSERT INTO words VALUES('a', '[1,1]'), ('b', '[2,2]');"
    "SELECT emb_snapshot('words', 'now');"
    "SELECT count(*) FROM t, emb_lookahead(t.name, '[1]');";

/* A statement, and its result when nothing fails. */
struct scan {
  struct fail_sql *w;
  const char *sql;
  struct sql_text wanted;
};

static int fail_a_scan(void *arg, uint64_t n, int forever) {
  struct scan *scan = arg;
  struct fail_sql *w = scan->w;
  struct sql_text out;
  if (w->stop)
    return 0;
  sql_heap_arm((int64_t)n, forever);
  int rc = sql_run(w, scan->sql, &out), came = sql_heap_fired();
  sql_heap_arm(0, 0);
  if (rc == SQLITE_OK)
    SQL_CHECK(w, strcmp(out.text, scan->wanted.text) == 0,
              "call %d: %s, not %s", (int)n, out.text, scan->wanted.text);
  else
    SQL_CHECK(w, came && is_memory_code(rc), "call %d gave %d: %s", (int)n, rc,
              sqlite3_errmsg(w->db));
  return came;
}

/* Returns how often an allocation of the scan failed. */
static uint64_t fail_scans(struct fail_sql *w, const char *sql) {
  struct scan scan = {.w = w, .sql = sql};
  (void)snprintf(w->what, sizeof w->what, "%.60s", sql);
  int rc = sql_run(w, sql, &scan.wanted);
  SQL_CHECK(w, rc == SQLITE_OK && scan.wanted.length > 0, "gave %d: %s, %s", rc,
            sqlite3_errmsg(w->db), scan.wanted.text);
  return w->stop ? 0 : stacks_each(sql, 1, 0, fail_a_scan, &scan);
}

TEST(no_memory_for_a_table_valued_function) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  struct sql_text out;
  char sql[2000];
  uint64_t runs = 0;
  if (!w)
    return;
  (void)snprintf(w->what, sizeof w->what, "scans");
  fail_copy(w->base, w->dir);
  sqlite3_int64 before = sqlite3_memory_used();
  (void)snprintf(sql, sizeof sql, scanned, w->dir);
  int rc = sql_open(w);
  rc = rc ? rc : sql_run(w, sql, &out);
  SQL_CHECK(w, rc == SQLITE_OK, "gave %d: %s", rc, sqlite3_errmsg(w->db));
  for (size_t i = 0; i < sizeof scans / sizeof scans[0] && !w->stop; i++) {
    (void)snprintf(sql, sizeof sql, scans[i], w->dir);
    runs += fail_scans(w, sql);
  }
  sql_close(w);
  CHECK(sqlite3_memory_used() <= before);
  printf("%d allocations failed in scans of table-valued functions\n",
         (int)runs);
  test_count("allocations failed", runs);
  sql_end(w);
}

/* With commit='engine' the store commits after SQLite: a failure then is
** reported at the next use, even if there is no memory for its description. */
static void fail_a_commit(struct fail_sql *w, int64_t n, int *fired,
                          int *told) {
  emb_config config = {.dim = 64};
  emb_store *store;
  emb_session *s;
  char path[400];
  struct sql_text out;
  (void)snprintf(path, sizeof path, "%s/app.db-emb/late", w->dir);
  fail_remove(w->dir);
  fail_copy(w->base, w->dir);
  if (!SQL_CHECK(w, sql_open(w) == SQLITE_OK, "open") ||
      !SQL_CHECK(w,
                 sql_run(w,
                         "CREATE VIRTUAL TABLE late USING emb(vector "
                         "FLOAT[64], commit='engine'); BEGIN; "
                         "INSERT INTO late SELECT 1, one FROM v",
                         &out) == SQLITE_OK,
                 "insert: %s", sqlite3_errmsg(w->db)) ||
      !help_open(path, &config, &store, &s))
    return;
  /* Of the log. */
  failing_arm(&w->f, FAILING_BIT(FAILING_SYNC), 1, 1, EIO);
  CHECK_EQ_INT(emb_checkpoint(s), EMB_IOERR);
  CHECK_EQ_INT(emb_checkpoint(s), EMB_FAILED); /* nothing can be written */
  failing_disarm(&w->f);
  emb_session_close(s);
  (void)emb_close(store, NULL);
  sql_heap_arm(n, 0);
  int rc = sql_run(w, "COMMIT", &out);
  *fired += sql_heap_fired();
  sql_heap_arm(0, 0);
  if (rc == SQLITE_OK) {
    rc = sql_run(w, "SELECT count(*) FROM late", &out);
    const char *text = sqlite3_errmsg(w->db);
    SQL_CHECK(w, (rc & 0xff) == SQLITE_IOERR && strstr(text, "last commit"),
              "after the COMMIT: %d, %s", rc, text);
    ++*told;
    rc = sql_run(w, "SELECT count(*) FROM late", &out);
    SQL_CHECK(w, rc == SQLITE_OK, "a second time: %d, %s", rc,
              sqlite3_errmsg(w->db));
  }
  sql_heap_arm(0, 0);
  (void)sqlite3_close(w->db);
}

TEST(failed_commit_is_told) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  int fired = 0, told = 0;
  for (int64_t n = 1; w && n < 60 && !w->stop; n++) {
    (void)snprintf(w->what, sizeof w->what, "call %d", (int)n);
    fail_a_commit(w, n, &fired, &told);
  }
  CHECK(told > 10 && fired > 3);
  printf("%d failed commits told, in %d an allocation failed\n", told, fired);
  sql_end(w);
}

/* A statement of an open transaction fails, and the transaction continues:
** earlier changes stay, and COMMIT keeps both tables equal or fails.  With
** and without an open savepoint; the test itself changes p after items,
** because a failure in between must not be SQLite's own. */
static const struct {
  const char *before, *statement, *same;
} lone_statements[] = {
    {"", "UPDATE items SET vector = emb_scale(" FAIL_ONE ", 9) WHERE key < 9",
     "UPDATE p SET val = 9 WHERE id < 9"},
    {"SAVEPOINT a; DELETE FROM p WHERE id = 7; DELETE FROM items "
     "WHERE key = 7; SAVEPOINT b",
     "UPDATE items SET vector = emb_scale(" FAIL_ONE ", 9) WHERE key < 9",
     "UPDATE p SET val = 9 WHERE id < 9"},
    {"", "SAVEPOINT a", ""},
    {"SAVEPOINT a; DELETE FROM p WHERE id = 7; DELETE FROM items "
     "WHERE key = 7",
     "ROLLBACK TO a", ""},
    {"SAVEPOINT a; DELETE FROM p WHERE id = 7; DELETE FROM items "
     "WHERE key = 7",
     "RELEASE a", ""},
};

struct lone {
  struct fail_sql *w;
  size_t i;
  int of_sqlite;
};

static int fail_a_statement(void *arg, uint64_t n, int forever) {
  const struct lone *lone = arg;
  struct fail_sql *w = lone->w;
  size_t i = lone->i;
  struct sql_text out;
  if (w->stop)
    return 0;
  (void)snprintf(w->what, sizeof w->what, "%s, %s, call %d",
                 lone_statements[i].statement,
                 lone->of_sqlite ? "SQLite" : "engine", (int)n);
  fail_remove(w->dir);
  fail_copy(w->base, w->dir);
  if (!SQL_CHECK(w, sql_open(w) == SQLITE_OK, "open"))
    return 0;
  int rc = sql_run(w,
                   "BEGIN; INSERT INTO p VALUES(900, 1); INSERT INTO items "
                   "VALUES(900, " FAIL_ONE "); "
                   "INSERT INTO p VALUES(901, 1); INSERT INTO items "
                   "VALUES(901, " FAIL_ONE ")",
                   &out);
  rc = rc ? rc : sql_run(w, lone_statements[i].before, &out);
  SQL_CHECK(w, rc == SQLITE_OK, "before: %s", sqlite3_errmsg(w->db));
  if (lone->of_sqlite)
    sql_heap_arm((int64_t)n, forever);
  else
    failing_arm(&w->f, FAILING_MEMORY, n, forever, ENOMEM);
  rc = sql_run(w, lone_statements[i].statement, &out);
  int came = lone->of_sqlite ? sql_heap_fired() : w->f.fired > 0;
  sql_heap_arm(0, 0);
  failing_disarm(&w->f);
  SQL_CHECK(w, came || rc == SQLITE_OK, "gave %d: %s", rc,
            sqlite3_errmsg(w->db));
  if (rc == SQLITE_OK)
    rc = sql_run(w, lone_statements[i].same, &out);
  if (!sqlite3_get_autocommit(w->db)) {
    w->state_count = 0;
    sql_may_be(w, sql_number(w, FAIL_STATE), 1);
    if (sql_run(w, "COMMIT", &out) != SQLITE_OK) {
      sql_may_be(w, sql_after[0], 1);
      (void)sql_run(w, "ROLLBACK", &out);
    }
  } else {
    sql_may_be(w, sql_after[0], 1);
  }
  sql_close(w);
  sql_check_all(w);
  return came;
}

TEST(no_memory_for_one_statement_of_a_transaction) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  uint64_t runs = 0;
  if (!w)
    return;
  for (size_t i = 0; i < sizeof lone_statements / sizeof lone_statements[0];
       i++)
    for (int of_sqlite = 0; of_sqlite < 2; of_sqlite++) {
      struct lone lone = {w, i, of_sqlite};
      runs += stacks_each(lone_statements[i].statement, 1, 0, fail_a_statement,
                          &lone);
    }
  test_count("allocations failed", runs);
  sql_end(w);
}

/* Statements on a table with text keys.  Each leaves the row of 'dog' as it
** is, and adds or deletes others. */
static const char *const text_statements[] = {
    "INSERT OR REPLACE INTO words VALUES(hex(randomblob(4)), '[1,2]'), "
    "('dog', '[3,4]')",
    "SELECT emb_put('words', json_array(hex(randomblob(4)), 'dog'), "
    "'[[1,1],[3,4]]')",
    "SELECT emb_lookup('words', json_array(hex(randomblob(4)), 'dog'), 1)",
    "SELECT emb_write_back('words', json_array(hex(randomblob(4))), '[1,1]'); "
    "SELECT emb_write_back_synchronize('words')",
    "SELECT emb_apply_async('taught', json_array(hex(randomblob(4))), "
    "'[1,1]'); "
    "SELECT emb_write_back_synchronize('taught')",
    "SELECT emb_get('seen', json_array(hex(randomblob(4)), 'a'))",
    "SELECT vector FROM seen WHERE word IN ('a', 'n' || abs(random()))",
    "SELECT key FROM emb_snapshot('seen', 'now') WHERE key = 'a'",
    "SELECT count(word), count(*) FROM words WHERE word IN ('dog', 'cat', 5)",
    "SELECT length(emb_get('words', '[\"dog\", \"c\\u0061t\", \"none\"]'))",
    "BEGIN; INSERT INTO words VALUES(hex(randomblob(4)), '[1,2]'); SAVEPOINT "
    "a; "
    "INSERT INTO words VALUES(hex(randomblob(4)), '[1,2]'); ROLLBACK TO a; "
    "UPDATE words SET word = word || 'x' WHERE word <> 'dog'; COMMIT",
    "SELECT word, distance FROM words WHERE vector MATCH '[3,4]' AND k = 2",
    "SELECT key FROM emb_nearest('words', '[[3,4]]', 2)",
    /* Forgotten, looked up together, and read ahead. */
    "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < "
    "1700) INSERT OR IGNORE INTO words SELECT 'n' || i, '[1,1]' FROM s; "
    "INSERT INTO words(words) VALUES('optimize'); SELECT length(emb_get("
    "'words', (SELECT json_group_array(CAST(key AS TEXT)) FROM words_keys)))",
    "DELETE FROM words WHERE word <> 'dog'; "
    "INSERT INTO words(words) VALUES('optimize')",
    "ALTER TABLE words RENAME TO terms; ALTER TABLE terms RENAME TO words",
};

static int fail_a_text(void *arg, uint64_t n, int forever) {
  const struct scan *scan = arg;
  struct fail_sql *w = scan->w;
  const char *sql = scan->sql;
  struct sql_text out;
  if (w->stop)
    return 0;
  sql_heap_arm((int64_t)n, forever);
  int rc = sql_run(w, sql, &out);
  int came = sql_heap_fired();
  sql_heap_arm(0, 0);
  SQL_CHECK(w, rc == SQLITE_OK || (came && is_memory_code(rc)),
            "call %d gave %d: %s", (int)n, rc, sqlite3_errmsg(w->db));
  SQL_CHECK(w, sqlite3_get_autocommit(w->db) || strstr(sql, "BEGIN"),
            "call %d%s left a transaction open", (int)n,
            forever ? " and later" : "");
  if (!sqlite3_get_autocommit(w->db))
    (void)sql_run(w, "ROLLBACK", &out);
  (void)sql_run(w, "ALTER TABLE terms RENAME TO words", &out);
  rc = sql_run(w,
               "INSERT INTO words(words) VALUES('integrity-check'); "
               "SELECT emb_to_json(emb_get('words', '[\"dog\"]'))",
               &out);
  SQL_CHECK(w, rc == SQLITE_OK && strstr(out.text, "[3,4]"),
            "after call %d: %d, %s, %s", (int)n, rc, sqlite3_errmsg(w->db),
            out.text);
  return came;
}

TEST(no_memory_for_text_keys) {
  struct fail_sql *w = sql_start(test_dir_in("/dev/shm"));
  struct sql_text out;
  uint64_t runs = 0;
  if (!w)
    return;
  (void)snprintf(w->what, sizeof w->what, "text keys");
  fail_copy(w->base, w->dir);
  sqlite3_int64 before = sqlite3_memory_used();
  int rc = sql_open(w);
  rc = rc ? rc
          : sql_run(w,
                    "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY "
                    "KEY, vector FLOAT[2], memory='4MB'); "
                    "INSERT INTO words VALUES('dog', '[3,4]'), ('cat', "
                    "'[5,6]'); "
                    "CREATE VIRTUAL TABLE seen USING emb(word TEXT PRIMARY "
                    "KEY, vector FLOAT[2], memory='4MB', insert_on=lookup); "
                    "INSERT INTO seen VALUES('a', '[1,1]'); "
                    "CREATE VIRTUAL TABLE taught USING emb(word TEXT PRIMARY "
                    "KEY, vector FLOAT[2], memory='4MB', optimizer=sgd); "
                    "SELECT emb_snapshot('seen', 'now')",
                    &out);
  SQL_CHECK(w, rc == SQLITE_OK, "gave %d: %s", rc, sqlite3_errmsg(w->db));
  for (size_t i = 0;
       i < sizeof text_statements / sizeof text_statements[0] && !w->stop;
       i++) {
    struct scan scan = {.w = w, .sql = text_statements[i]};
    (void)snprintf(w->what, sizeof w->what, "%.60s", scan.sql);
    runs += stacks_each(scan.sql, 4, 2, fail_a_text, &scan);
  }
  sql_close(w);
  CHECK(sqlite3_memory_used() <= before);
  printf("%d allocations failed with text keys\n", (int)runs);
  test_count("allocations failed", runs);
  sql_end(w);
}
