/* SPDX-License-Identifier: MIT
**
** sql_help.c -- connections, and statements that must succeed: see sql_help.h.
*/
#include "sql_help.h"

sqlite3 *sql_connect(const char *file, int flags) {
  sqlite3 *db = NULL;
  flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  CHECK_EQ_INT(sqlite3_open_v2(file, &db, flags, NULL), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK);
  return db;
}

sqlite3 *sql_connect_items(void) {
  sqlite3 *db = sql_connect(":memory:", 0);
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1]);"
               "INSERT INTO items VALUES(1, '[1]'), (2, '[2]'), (3, '[3]')");
  return db;
}

int sql_runs(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  return test_check(rc == SQLITE_OK, __FILE__, __LINE__, "%.80s gave %d: %s",
                    sql, rc, sqlite3_errmsg(db));
}

int64_t sql_integer(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int64_t n = INT64_MIN;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  rc = rc ? rc : sqlite3_step(statement);
  if (test_check(rc == SQLITE_ROW, __FILE__, __LINE__, "%.80s gave %d: %s", sql,
                 rc, sqlite3_errmsg(db)))
    n = sqlite3_column_int64(statement, 0);
  (void)sqlite3_finalize(statement);
  return n;
}
