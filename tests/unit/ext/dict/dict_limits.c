/* SPDX-License-Identifier: MIT
**
** dict_limits.c -- many texts are looked up on a connection that does not allow
** statements with many parameters, or long statements.
*/
#include "sql_help.h"

/* Checks that a batch of all 100 texts and an absent one gets its rows. */
static int reads_all(sqlite3 *db) {
  return CHECK_EQ_INT(
      sql_integer(db,
                  "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
                  "FROM s WHERE i < 101) SELECT "
                  "emb_to_json(emb_get('words', (SELECT "
                  "json_group_array('w' || i) FROM s))) = (SELECT "
                  "'[' || group_concat(i % 101) || ']' FROM s)"),
      1);
}

static void with_limit(int limit, int value) {
  char file[500];
  (void)snprintf(file, sizeof file, "%s/words.db", test_dir());
  sqlite3 *db = sql_connect(file, 0);
  if (!CHECK(db != NULL) ||
      !sql_runs(db,
                "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY "
                "KEY, vector FLOAT[1]);"
                "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
                "FROM s WHERE i < 100) "
                "INSERT INTO words SELECT 'w' || i, '[' || i || ']' FROM s"))
    return;
  sqlite3_close(db);
  db = sql_connect(file, 0);
  sqlite3_limit(db, limit, value);
  reads_all(db);
  reads_all(db);
  sqlite3_close(db);
}

TEST(few_parameters) { with_limit(SQLITE_LIMIT_VARIABLE_NUMBER, 3); }
TEST(short_statements) { with_limit(SQLITE_LIMIT_SQL_LENGTH, 630); }
TEST(as_usual) { with_limit(SQLITE_LIMIT_VARIABLE_NUMBER, 32766); }
