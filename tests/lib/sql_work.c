/* SPDX-License-Identifier: MIT
**
** sql_work.c -- the SQL work that is cut off, and its examination: see
** sql_work.h.
*/
#include "sql_work.h"

/* ---- SQL ----------------------------------------------------------------- */

const struct mode *work_mode;
char work_moment[300];

int work_holds(int it_does, int line, const char *format, ...) {
  char text[400];
  va_list args;
  if (it_does)
    return 1;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return test_check(0, __FILE__, line, "%s; %s %s, %s", text,
                    work_mode->journal, work_mode->synchronous, work_moment);
}

int work_run(sqlite3 *db, const char *format, ...) {
  va_list args;
  char *err = NULL;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = sqlite3_exec(db, sql, NULL, NULL, &err);
  int good = HOLDS(rc == SQLITE_OK, "%.150s: %s", sql, err);
  sqlite3_free(sql);
  sqlite3_free(err);
  return good;
}

char *work_ask(sqlite3 *db, const char *format, ...) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *out = sqlite3_str_new(NULL);
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  while (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    sqlite3_str_appendf(out, "%s ", sqlite3_column_text(statement, 0));
  rc = sqlite3_finalize(statement);
  (void)HOLDS(rc == SQLITE_OK, "%.150s: %s", sql, sqlite3_errmsg(db));
  sqlite3_free(sql);
  char *text = sqlite3_str_finish(out);
  return text ? text : sqlite3_mprintf("");
}

int work_number(sqlite3 *db, const char *sql) {
  char *text = work_ask(db, "%s", sql);
  int n = atoi(text);
  sqlite3_free(text);
  return n;
}

sqlite3 *work_open(const char *path, const char *vfs) {
  sqlite3 *db = NULL;
  int rc = sqlite3_open_v2(path, &db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
  if (!HOLDS(rc == SQLITE_OK, "open: %s", sqlite3_errmsg(db)) ||
      !CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK)) {
    sqlite3_close(db);
    return NULL;
  }
  (void)work_run(db, "PRAGMA synchronous = %s; PRAGMA journal_mode = %s",
                 work_mode->synchronous, work_mode->journal);
  return db;
}

static char *dump_rows(sqlite3 *db, const char *table) {
  return work_ask(db,
                  "SELECT key || ':' || " VECTOR
                  " FROM rows WHERE tbl = %Q ORDER BY key",
                  table);
}

void work_compare(sqlite3 *db) {
  char *names = work_ask(db, "SELECT name FROM sqlite_schema "
                             "WHERE sql LIKE '%% USING emb(%%' ORDER BY name");
  for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
    char *rows = dump_rows(db, name);
    char *vectors = work_ask(db,
                             "SELECT key || ':' || emb_to_json(vector) FROM %s "
                             "ORDER BY key",
                             name);
    (void)HOLDS(strcmp(rows, vectors) == 0, "%s has %.60s, rows %.60s", name,
                vectors, rows);
    sqlite3_free(rows);
    sqlite3_free(vectors);
  }
  sqlite3_free(names);
}

/* ---- the work ------------------------------------------------------------ */

/* `rows` after transaction n, when nothing crashed. */
static char *work_dumps[TXNS + 1];

void work_forget(void) {
  for (int n = 0; n <= TXNS; n++) {
    sqlite3_free(work_dumps[n]);
    work_dumps[n] = NULL;
  }
}

static int roll(struct work *w, int n) {
  return (int)(test_random_from(&w->random) % (uint64_t)n);
}

static void change(struct work *w, sqlite3 *db, int value) {
  static const char names[3][2] = {"a", "b", "c"};
  const char *table = names[roll(w, 3)];
  int lo = roll(w, KEYS), hi = lo + roll(w, 4) * roll(w, 4);
  char sql[100];
  (void)snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", table);
  if (work_number(db, sql) == 0)
    return;
  if (roll(w, 4) == 0) {
    (void)work_run(db,
                   "DELETE FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
                   table, lo, hi);
    (void)work_run(db, "DELETE FROM %s WHERE key BETWEEN %d AND %d", table, lo,
                   hi);
    return;
  }
  (void)work_run(db,
                 "WITH RECURSIVE r(k) AS (VALUES(%d) UNION ALL "
                 "SELECT k + 1 FROM r WHERE k < %d) "
                 "INSERT OR REPLACE INTO rows SELECT %Q, k, %d FROM r",
                 lo, hi, table, value);
  (void)work_run(db,
                 "INSERT OR REPLACE INTO %s(key, vector) SELECT key, " VECTOR
                 " FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
                 table, table, lo, hi);
}

/* Table c comes and goes. */
static void change_schema(sqlite3 *db) {
  if (work_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'c'")) {
    (void)work_run(db, "DELETE FROM rows WHERE tbl = 'c'");
    (void)work_run(db, "DROP TABLE c");
  } else {
    (void)work_run(db, "CREATE VIRTUAL TABLE c USING emb(vector FLOAT[4], "
                       "memory='4MB')");
  }
}

static void change_some(struct work *w, sqlite3 *db, int n) {
  int level = 0;
  for (int i = 1 + roll(w, 8); i > 0; i--)
    switch (roll(w, 8)) {
    case 0:
      (void)work_run(db, "SAVEPOINT s%d", ++level);
      change(w, db, n * 100 + 50 + i);
      break;
    case 1:
    case 3:
      if (level)
        (void)work_run(db, "ROLLBACK TO s%d", level);
      break;
    case 2:
      if (level)
        (void)work_run(db, "RELEASE s%d", level--);
      break;
    default:
      change(w, db, n * 100 + i);
    }
}

/* The first two transactions make the tables. */
static void make_tables(sqlite3 *db, int n) {
  if (n == 1)
    (void)work_run(db,
                   "CREATE TABLE rows(tbl, key, value, PRIMARY KEY(tbl, key));"
                   "CREATE TABLE log(n INTEGER PRIMARY KEY)");
  else
    (void)work_run(db, "CREATE VIRTUAL TABLE a USING emb(vector FLOAT[4], "
                       "memory='4MB');"
                       "CREATE VIRTUAL TABLE b USING emb(vector FLOAT16[4], "
                       "memory='4MB')");
}

static void transaction(struct work *w, sqlite3 *db, int n) {
  int alone = 0; /* no vector is changed */
  (void)work_run(db, roll(w, 2) ? "BEGIN" : "BEGIN IMMEDIATE");
  if (n <= 2) {
    make_tables(db, n);
  } else if (roll(w, 3) == 0) {
    change_schema(db);
    alone = roll(w, 2);
  }
  if (n > 1 && !alone && roll(w, 8))
    change_some(w, db, n);
  if (n > 2 && roll(w, 6) == 0) {
    (void)work_run(db, "ROLLBACK");
    return;
  }
  (void)work_run(db, "INSERT INTO log VALUES(%d)", n);
  w->begun(n);
  (void)work_run(db, "COMMIT");
  w->acked(n);
}

static void between(struct work *w, sqlite3 **db, int n) {
  int what = roll(w, 12);
  if (n < 2 || what > 5)
    return;
  if (what <= 1)
    (void)work_run(*db, "INSERT INTO %s(%s) VALUES('%s')", what ? "a" : "b",
                   what ? "a" : "b", roll(w, 3) ? "checkpoint" : "optimize");
  else if (what == 2)
    (void)work_run(*db, "PRAGMA wal_checkpoint(%s)",
                   roll(w, 2) ? "PASSIVE" : "TRUNCATE");
  else if (what == 3 && CHECK_EQ_INT(sqlite3_close(*db), SQLITE_OK)) /* clean */
    *db = work_open(w->path, w->vfs);
}

void work_do(struct work *w) {
  sqlite3 *db = work_open(w->path, w->vfs);
  if (db == NULL)
    return;
  for (int n = 1; n <= w->txns && db; n++) {
    uint64_t before = w->random;
    transaction(w, db, n);
    if (work_number(db, "SELECT max(n) FROM log") != n) {
      n--; /* it was rolled back: the next one gets its number */
      w->random += before == w->random;
    } else {
      work_dumps[n] = work_ask(db, ALL_ROWS);
      work_compare(db);
    }
    between(w, &db, n);
    if (atomic_load(&test_state.failures))
      break;
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- the check ----------------------------------------------------------- */

/* Returns how far the work got; every table must be as it was then. */
static int work_check(sqlite3 *db, int acked, int begun) {
  int n = 0;
  if (work_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'log'"))
    n = work_number(db, "SELECT max(n) FROM log");
  if (!HOLDS(n >= acked && n <= begun,
             "it came to transaction %d, %d was acknowledged, %d was begun", n,
             acked, begun) ||
      n == 0)
    return n;
  char *rows = work_ask(db, ALL_ROWS);
  (void)HOLDS(strcmp(rows, work_dumps[n]) == 0, "rows of %d: %.60s", n, rows);
  sqlite3_free(rows);
  work_compare(db);
  return n;
}

void work_go_on(sqlite3 *db, int n) {
  if (n < 2)
    return;
  char *names = work_ask(db, "SELECT name FROM emb_tables ORDER BY name");
  (void)work_run(db, "BEGIN IMMEDIATE");
  for (const char *name = names; *name; name += 2) {
    (void)work_run(db, "INSERT OR REPLACE INTO rows VALUES('%c', 5, 77)",
                   *name);
    (void)work_run(db,
                   "INSERT OR REPLACE INTO %c(key, vector) SELECT key, " VECTOR
                   " FROM rows WHERE tbl = '%c' AND key = 5",
                   *name, *name);
  }
  (void)work_run(db, "COMMIT");
  work_compare(db);
  for (const char *name = names; *name; name += 2)
    (void)work_run(db, "INSERT INTO %c(%c) VALUES('integrity-check')", *name,
                   *name);
  char *states = work_ask(db, "SELECT name || state FROM emb_tables "
                              "WHERE state <> 'ok'");
  (void)HOLDS(states[0] == 0, "states: %s", states);
  sqlite3_free(states);
  sqlite3_free(names);
  sqlite3_free(work_ask(db, "SELECT emb_gc()"));
}

/* The first statement after a crash, NULL: what work_check does; key 99 is
** deleted again. */
const char *const work_first[WORK_FIRST] = {
    NULL,
    "SELECT emb_get('a', '[1]')",
    "SELECT emb_put('a', '[99]', '[1,2,3,4]')",
    "SELECT emb_rmw('a', '[99]', '[1,2,3,4]')",
    "SELECT emb_write_back_synchronize('a', "
    "emb_write_back('a', '[99]', '[1,2,3,4]'))",
    "INSERT INTO a(a) VALUES('checkpoint')",
    "INSERT INTO a(a) VALUES('optimize')",
    "INSERT INTO a(a) VALUES('integrity-check')",
    "SELECT emb_snapshot('a', 's'); SELECT emb_snapshot_drop('a', 's')",
    "SELECT emb_delta_begin('a', 'c'); SELECT emb_delta_drop('a', 'c')",
    "SELECT count(*) FROM emb_stats('a')",
    "SELECT * FROM emb_tables",
};

static void call_first(sqlite3 *db, const char *sql) {
  if (sql == NULL ||
      work_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'a'") ==
          0)
    return;
  (void)work_run(db, "%s", sql);
  (void)HOLDS(work_number(db, "SELECT value FROM emb_stats('a') "
                              "WHERE name = 'in_doubt'") == 0,
              "%s leaves it in doubt", sql);
  (void)work_run(db, "DELETE FROM a WHERE key = 99");
}

int work_examine(const char *path, const char *vfs, int acked, int begun,
                 const char *first, void (*was_read)(void)) {
  sqlite3 *db = work_open(path, vfs);
  if (db == NULL)
    return 0;
  call_first(db, first);
  char *good = work_ask(db, "PRAGMA integrity_check");
  (void)HOLDS(strcmp(good, "ok ") == 0, "integrity_check: %.100s", good);
  sqlite3_free(good);
  int n = work_check(db, acked, begun);
  (void)HOLDS(n < 2 ||
                  work_number(db, "SELECT total(s.value) FROM emb_tables t, "
                                  "emb_stats(t.name) s "
                                  "WHERE s.name = 'in_doubt'") == 0,
              "it is still in doubt");
  if (was_read)
    was_read();
  work_go_on(db, n);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return n;
}
