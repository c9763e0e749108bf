/* SPDX-License-Identifier: MIT
**
** dropped_between.c -- another connection drops a table, or recreates it,
** between any two of the statements that one call runs by itself.
**
** SQLite's trace tells when a statement begins or ends on the connection
** under test, including the statements that the extension runs.  At the nth
** of these moments the other connection does its part.  The test tries every
** n, until the call ends before that moment.  Whatever happens: no crash, an
** error that names what happened, a connection that still works, and no store
** left behind.
*/
#include "sql_help.h"
#include "store_help.h"

static char file[400];
static sqlite3 *other;
static const char *deed;
static int countdown;

static int traced(unsigned what, void *arg, void *statement, void *text) {
  (void)what, (void)arg, (void)statement, (void)text;
  if (--countdown == 0 &&
      sqlite3_exec(other, deed, NULL, NULL, NULL) != SQLITE_OK &&
      !sqlite3_get_autocommit(other))
    (void)sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL);
  return 0;
}

static int is_expected(const char *text) {
  static const char *const known[] = {
      "no such table: c",
      "no such table: main.c",
      "emb: no such table: c",
      "emb: c was deleted: its table was dropped",
      "emb: table c was dropped since this transaction began",
      "database is locked",
      "database table is locked",
      "database schema has changed",
      "emb: the schema keeps changing",
      "emb: a table was created or dropped during the backup; try again",
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(text, known[i]) == 0)
      return 1;
  return 0;
}

/* A database with the tables c and d. */
static void begin(const char *mode, const char *name) {
  (void)snprintf(file, sizeof file, "%s", help_path(name));
  other = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sqlite3_busy_timeout(other, 10);
  sql_runs(other, mode);
  sql_runs(other, "PRAGMA synchronous = off;"
                  "CREATE VIRTUAL TABLE d USING emb(vector FLOAT[1]);"
                  "INSERT INTO d VALUES(1, '[1]')");
}

static void end(void) {
  sql_runs(other, "DROP TABLE IF EXISTS c; DROP TABLE d");
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
}

/* Makes the call, with the deed at its nth moment.  1: that moment came. */
static int strike(const char *call, int used, int nth) {
  char sql[600], *text = NULL;
  (void)snprintf(sql, sizeof sql, call, help_path("copy.db"));
  sqlite3 *db = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sqlite3_busy_timeout(db, 10);
  sql_runs(db, used ? "SELECT * FROM c; SELECT emb_get('d', '[1]')"
                    : "SELECT 1 FROM sqlite_schema");
  countdown = nth;
  (void)sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE, traced,
                         NULL);
  int rc = sqlite3_exec(db, sql, NULL, NULL, &text);
  (void)sqlite3_trace_v2(db, 0, NULL, NULL);
  int came = countdown <= 0;
  test_check(rc == SQLITE_OK || rc == SQLITE_MISMATCH || is_expected(text),
             __FILE__, __LINE__, "%s, at moment %d: %s gave %d: %s", deed, nth,
             sql, rc, text);
  sqlite3_free(text);
  if (!sqlite3_get_autocommit(db))
    sql_runs(db, "ROLLBACK");
  sql_runs(db, "UPDATE d SET vector = '[2]';"
               "SELECT emb_put('d', '[1]', '[3]')");
  (void)sqlite3_exec(db, "SELECT * FROM c", NULL, NULL, NULL);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return came;
}

static int try_nth(const char *call, int used, int nth) {
  char beside[500];
  sql_runs(other, "DROP TABLE IF EXISTS c; DROP TABLE IF EXISTS plain;"
                  "CREATE VIRTUAL TABLE c USING emb(vector FLOAT[1]);"
                  "INSERT INTO c VALUES(1, '[1]')");
  int came = strike(call, used, nth);
  sql_runs(other, "DROP TABLE IF EXISTS c; DROP TABLE IF EXISTS e");
  (void)snprintf(beside, sizeof beside, "%s-emb", file);
  test_check(help_entries(beside) == 1, __FILE__, __LINE__,
             "%s, at moment %d of %s: %d stores are left", deed, nth, call,
             help_entries(beside));
  return came;
}

static const char *const calls[] = {
    "SELECT emb_put('c', '[1]', '[2]')",
    "SELECT emb_get('c', '[1]')",
    "SELECT emb_rmw('c', '[1]', '[2]')",
    "SELECT vectors FROM c('[1]')",
    "SELECT * FROM c",
    "SELECT * FROM c WHERE key = 1",
    "INSERT OR REPLACE INTO c VALUES(1, '[1]')",
    "UPDATE c SET vector = '[3]'",
    "DELETE FROM c WHERE key = 1",
    "BEGIN; UPDATE c SET vector = '[3]'; COMMIT",
    "BEGIN; SELECT * FROM c; SELECT emb_put('c', '[1]', '[2]'); COMMIT",
    "INSERT INTO c(c) VALUES('checkpoint')",
    "INSERT INTO c(c, vector) VALUES('memory', '8MB')",
    "SELECT * FROM emb_stats('c')",
    "SELECT * FROM emb_tables",
    "SELECT emb_snapshot('c', 's')",
    "SELECT * FROM emb_snapshots('c')",
    "SELECT * FROM emb_lookahead('c', '[1]')",
    "SELECT emb_prefetch('c', '[1]')",
    "SELECT * FROM emb_backup('%s')",
    "ALTER TABLE c RENAME TO e; ALTER TABLE e RENAME TO c",
    "DROP TABLE c",
    "SELECT emb_gc()",
};

static const char *const deeds[] = {
    "DROP TABLE c",
    "DROP TABLE c; CREATE VIRTUAL TABLE c USING emb(vector FLOAT[2])",
    "CREATE TABLE plain(x)",
};

/* Tries every second combination, each mode the other half; a long run tries
** all. */
static void try_all(const char *mode, const char *name, size_t half) {
  uint64_t moments = 0;
  unsigned every = help_long() > 1 ? 1 : 2 * help_share();
  size_t others = 2 * (test_state.seed % help_share()); /* of a share */
  begin(mode, name);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (size_t d = 0; d < sizeof deeds / sizeof *deeds; d++)
      for (int used = 0; used < 2; used++) {
        deed = deeds[d];
        if ((i + d + (size_t)used + half + others) % every)
          continue;
        for (int nth = 1; nth < 100 && try_nth(calls[i], used, nth); nth++)
          moments++;
      }
  end();
  test_count("moments of calls", moments);
}

TEST(in_delete_mode) {
  try_all("PRAGMA journal_mode = delete", "delete.db", 0);
}
TEST(in_wal_mode) { try_all("PRAGMA journal_mode = wal", "wal.db", 1); }
