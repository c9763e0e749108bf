/* SPDX-License-Identifier: MIT
**
** join_memory.c -- allocations of SQLite, and of emb_join through SQLite, fail
** one after another while a call of emb_join does everything it can do.
**
** Each time the call fails with SQLITE_NOMEM, or has its usual result.  After
** ROLLBACK a call has that result.  At the end all memory has been given back.
*/
#include "sql_heap.h"
#include "sql_help.h"

/* Runs before SQLite is used at all. */
__attribute__((constructor)) static void replace_heap(void) {
  sql_heap_replace();
}

/* Requests that spill, actions before and after them, late actions, negatives,
** requests that are forgotten. */
static const char setup[] =
    "SELECT emb_join_create('j');"
    "INSERT INTO j_kinds VALUES('click', 100, 1), ('buy', 200, 2);"
    "INSERT INTO j_sources(source) VALUES('s');"
    "UPDATE j_options SET memory = 65536, share = 0.5, label = 'highest',"
    " late = 'correct', remember = 300;"
    "CREATE TABLE log(id INTEGER PRIMARY KEY, request, time, kind, features);"
    "INSERT INTO log"
    " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
    "  WHERE i < 900)"
    " SELECT 10 * i, iif(i % 3, i, 'request ' || i), i, NULL, zeroblob(100) "
    "FROM n;"
    "INSERT INTO log SELECT 10000 + id, request, time + 1, 'click', NULL FROM "
    "log"
    " WHERE id % 70 = 0;"
    "INSERT INTO log SELECT id - 15, request, time, 'buy', NULL FROM log"
    " WHERE id % 110 = 0 AND kind IS NULL;"
    "INSERT INTO log SELECT 30000 + id, request, time, 'click', NULL FROM log"
    " WHERE id % 130 = 0 AND kind IS NULL;"
    "SELECT count(*) FROM emb_join('j', 's',"
    " 'SELECT * FROM log WHERE id > ?1 ORDER BY id LIMIT 700');";

static int call(sqlite3 *db) {
  return sqlite3_exec(db,
                      "SELECT sum(length(features)) FROM emb_join('j', 's',"
                      " 'SELECT * FROM log WHERE id > ?1 ORDER BY id')",
                      NULL, NULL, NULL);
}

/* Returns a number that depends on the whole state. */
static int64_t digest(sqlite3 *db) {
  return sql_integer(
      db,
      "SELECT (SELECT sum(number * (7 + time % 31) + weight * number"
      "                   + length(coalesce(kind, '')))"
      "          FROM j_examples) * 1000"
      " + (SELECT joined + 3 * negatives + 5 * dropped + 7 * late"
      "           + 11 * repeated + 13 * spilled + 17 * waiting"
      "      FROM j_counts)"
      " + (SELECT total(n) FROM j_requests) + (SELECT total(n) FROM j_places)");
}

TEST(each_allocation_fails) {
  sqlite3 *db = sql_connect(":memory:", 0);
  int64_t wanted, before, n = 1, failed = 0;
  if (!CHECK(db != NULL) || !CHECK(sql_runs(db, setup)))
    return;
  before = digest(db);
  CHECK(sql_runs(db, "BEGIN"));
  CHECK_EQ_INT(call(db), SQLITE_OK);
  wanted = digest(db);
  CHECK(sql_integer(db, "SELECT joined AND negatives AND dropped AND late AND"
                        " spilled AND corrected AND repeated FROM j_counts"));
  CHECK(sql_runs(db, "ROLLBACK"));
  for (int fired = 1; fired; n += 1 + n / 60) {
    int rc;
    CHECK(sql_runs(db, "BEGIN"));
    sql_heap_arm(n, 0);
    rc = call(db);
    fired = sql_heap_fired();
    sql_heap_disarm();
    if (rc != SQLITE_OK) {
      CHECK_EQ_INT(rc & 0xff, SQLITE_NOMEM);
      failed++;
      if (!sqlite3_get_autocommit(db))
        CHECK_EQ_INT(digest(db), before);
    } else if (!CHECK_EQ_INT(digest(db), wanted)) {
      break;
    }
    if (!sqlite3_get_autocommit(db))
      CHECK(sql_runs(db, "ROLLBACK"));
    CHECK_EQ_INT(digest(db), before);
  }
  CHECK(failed > 100);
  CHECK_EQ_INT(call(db), SQLITE_OK);
  CHECK_EQ_INT(digest(db), wanted);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_memory_used(), 0);
  test_count("failures", (uint64_t)failed);
}
