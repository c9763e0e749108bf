/* SPDX-License-Identifier: MIT
**
** takeover_tables.c -- makes the tables of takeover.c for a round, and checks
** them when all members have gone.
*/
#include "takeover_help.h"

int takeover_make_tables(const char *dir, const char *journal) {
  char sql[400], option[40] = "";
  sqlite3 *db = sql_connect(takeover_file(dir), 0);
  if (takeover->bound >= 0)
    (void)snprintf(option, sizeof option, ", staleness=%d", takeover->bound);
  (void)snprintf(sql, sizeof sql,
                 "PRAGMA journal_mode = %s;"
                 "CREATE VIRTUAL TABLE v USING emb(vector FLOAT[%d], "
                 "memory='8MB', timeout=%d%s);"
                 "CREATE TABLE p(key INTEGER PRIMARY KEY, n INTEGER);"
                 "CREATE VIEW bump AS SELECT key FROM p;",
                 journal, DIM, takeover->timeout_ms, option);
  int good = sql_runs(db, sql);
  good =
      good &&
      sql_runs(db, "CREATE TRIGGER bump_one INSTEAD OF INSERT ON bump BEGIN "
                   "UPDATE v SET vector = emb_add(vector, '[1,1,1,1]') "
                   "WHERE key = new.key;"
                   "UPDATE p SET n = n + 1 WHERE key = new.key;"
                   "SELECT takeover_commit(p.key, n, vector) FROM p JOIN v ON "
                   "v.key = p.key AND v.mode = 'peek' WHERE p.key = new.key;"
                   "END");
  (void)snprintf(sql, sizeof sql,
                 "WITH RECURSIVE i(k) AS (SELECT 0 UNION ALL SELECT k + 1 "
                 "FROM i WHERE k < %d) INSERT INTO v SELECT %d + k, "
                 "'[7,7,7,7]' FROM i",
                 FILL - 1, FILL_AT);
  good = good && sql_runs(db, sql);
  for (int key = 0; key < KEYS && good; key++) {
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO v VALUES(%d, '[0,0,0,0]');"
                   "INSERT INTO p VALUES(%d, 0)",
                   key, key);
    good = sql_runs(db, sql);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return good;
}

/* ---- at the end ---------------------------------------------------------- */

/* NULL: it cannot be read. */
static int64_t value_at(sqlite3 *db, unsigned key) {
  char sql[100];
  sqlite3_stmt *statement = NULL;
  int64_t value = -1;
  (void)snprintf(sql, sizeof sql,
                 "SELECT vector FROM v WHERE key = %u AND mode = 'peek'", key);
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  rc = rc ? rc : sqlite3_step(statement);
  if (rc == SQLITE_ROW)
    value = takeover_whole(&(struct connection){.slot = -1},
                           sqlite3_column_blob(statement, 0),
                           sqlite3_column_bytes(statement, 0));
  else
    printf("%s gave %d: %s\n", sql, rc, sqlite3_errmsg(db));
  (void)sqlite3_finalize(statement);
  return value;
}

static void check_key(sqlite3 *db, unsigned key) {
  char sql[64];
  int64_t v = value_at(db, key);
  (void)snprintf(sql, sizeof sql, "SELECT n FROM p WHERE key = %u", key);
  int64_t p = sql_integer(db, sql);
  uint64_t done = atomic_load(&takeover->done[key]);
  uint64_t begun = atomic_load(&takeover->begun[key]);
  (void)test_check(v == p && v >= (int64_t)done && v <= (int64_t)begun,
                   __FILE__, __LINE__,
                   "round %d, at the end: key %u has %" PRId64 " and vector "
                   "%" PRId64 ", acknowledged %" PRIu64 ", begun %" PRIu64,
                   takeover->round, key, p, v, done, begun);
}

/* A surviving process may own the store, and be busy with it. */
static void await_store(sqlite3 *db) {
  for (int i = 0; i < 3000 && sqlite3_exec(db, "SELECT count(*) FROM v", NULL,
                                           NULL, NULL) == SQLITE_BUSY;
       i++)
    (void)sqlite3_sleep(10);
}

void takeover_check_all(const char *dir) {
  sqlite3 *db = sql_connect(takeover_file(dir), 0);
  await_store(db);
  for (unsigned key = 0; key < KEYS; key++)
    check_key(db, key);
  (void)sql_runs(db, "INSERT INTO v(v) VALUES('integrity-check')");
  CHECK_EQ_INT(sql_integer(db, "SELECT state = 'ok' FROM emb_tables"), 1);
  CHECK_EQ_INT(
      sql_integer(db, "SELECT count(*) FROM v WHERE key >= 1000000 AND "
                      "vector = (SELECT vector FROM v WHERE key = 1000000)"),
      FILL);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* Checks that everything committed after the directory had gone is there. */
void takeover_check_after(const char *dir) {
  sqlite3 *db = sql_connect(takeover_file(dir), 0);
  await_store(db);
  for (unsigned key = 0; key < KEYS; key++) {
    uint64_t after = atomic_load(&takeover->after[key]);
    if (after)
      (void)test_check(value_at(db, key) >= (int64_t)after, __FILE__, __LINE__,
                       "round %d: key %u was %" PRIu64
                       " when its directory had gone, and is not",
                       takeover->round, key, after);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}
