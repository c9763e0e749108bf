/* SPDX-License-Identifier: MIT
**
** sql_work.h -- work on ordinary and emb tables in the same transactions, and
** what must be found after it was cut off.  Used by power_sql.c, kill_sql.c.
**
** Every change of a vector comes with the same change of the ordinary table
** `rows`, and transaction n with the row n of `log`.  So what a crash left is
** good if
**   - log goes at least to the last COMMIT that returned, at most to the last
**     one that was called;
**   - rows is what it was after that transaction when nothing crashed;
**   - each emb table that the schema names holds what rows says of it.
** Then it is written to once more, after which no table is in doubt, and each
** passes its integrity check.
*/
#ifndef EMB_SQL_WORK_H
#define EMB_SQL_WORK_H

#include "../store_help.h"

#include <sqlite3.h>

enum { TXNS = 40, KEYS = 30 };

int sqlite3_emb_init(sqlite3 *, char **, const void *);

/* ---- SQL ----------------------------------------------------------------- */

struct mode { /* how SQLite is set */
  const char *journal, *synchronous;
  /* The last COMMIT that was acknowledged may be undone if it was of ordinary
  ** tables alone: in mode DELETE with FULL, SQLite leaves it to the file system
  ** when the removal of its journal is durable. */
  int may_undo;
};

/* Where and how the last crash was; what a failure says. */
static const struct mode *work_mode;
static char work_moment[300];

#define HOLDS(expr, ...) holds((expr) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static int
holds(int it_does, int line, const char *format, ...) {
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

static inline int run(sqlite3 *db, const char *format, ...) {
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

/* The first column of all rows, with a space after each; free it. */
static inline char *ask(sqlite3 *db, const char *format, ...) {
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

static inline int ask_number(sqlite3 *db, const char *sql) {
  char *text = ask(db, "%s", sql);
  int n = atoi(text);
  sqlite3_free(text);
  return n;
}

static inline sqlite3 *open_db(const char *path, const char *vfs) {
  sqlite3 *db = NULL;
  int rc = sqlite3_open_v2(path, &db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
  if (!HOLDS(rc == SQLITE_OK, "open: %s", sqlite3_errmsg(db)) ||
      !CHECK_EQ_INT(sqlite3_emb_init(db, NULL, NULL), SQLITE_OK)) {
    sqlite3_close(db);
    return NULL;
  }
  (void)run(db, "PRAGMA synchronous = %s; PRAGMA journal_mode = %s",
            work_mode->synchronous, work_mode->journal);
  return db;
}

/* A value of rows as its vector. */
#define VECTOR "printf('[%%d,%%d,7,%%d]', value, value + 1, key)"

#define ALL_ROWS "SELECT tbl || key || ':' || value FROM rows ORDER BY tbl, key"

static inline char *dump_rows(sqlite3 *db, const char *table) {
  return ask(db,
             "SELECT key || ':' || " VECTOR
             " FROM rows WHERE tbl = %Q ORDER BY key",
             table);
}

/* Each emb table against rows. */
static inline void compare(sqlite3 *db) {
  char *names = ask(db, "SELECT name FROM sqlite_schema "
                        "WHERE sql LIKE '%% USING emb(%%' ORDER BY name");
  for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
    char *rows = dump_rows(db, name);
    char *vectors = ask(db,
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

/* rows after transaction n, when nothing crashed. */
static char *work_dumps[TXNS + 1];

static inline void work_forget(void) {
  for (int n = 0; n <= TXNS; n++) {
    sqlite3_free(work_dumps[n]);
    work_dumps[n] = NULL;
  }
}

struct work {
  uint64_t random;
  const char *path, *vfs;
  int txns;
  void (*begun)(int n); /* told before a COMMIT is called, */
  void (*acked)(int n); /* and after it returned */
};

static inline int roll(struct work *w, int n) {
  return (int)(test_random_from(&w->random) % (uint64_t)n);
}

static inline void change(struct work *w, sqlite3 *db, int value) {
  static const char names[3][2] = {"a", "b", "c"};
  const char *table = names[roll(w, 3)];
  int lo = roll(w, KEYS), hi = lo + roll(w, 4) * roll(w, 4);
  char sql[100];
  (void)snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM sqlite_schema WHERE name = '%s'", table);
  if (ask_number(db, sql) == 0)
    return;
  if (roll(w, 4) == 0) {
    (void)run(db, "DELETE FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
              table, lo, hi);
    (void)run(db, "DELETE FROM %s WHERE key BETWEEN %d AND %d", table, lo, hi);
    return;
  }
  (void)run(db,
            "WITH RECURSIVE r(k) AS (VALUES(%d) UNION ALL "
            "SELECT k + 1 FROM r WHERE k < %d) "
            "INSERT OR REPLACE INTO rows SELECT %Q, k, %d FROM r",
            lo, hi, table, value);
  (void)run(db,
            "INSERT OR REPLACE INTO %s(key, vector) SELECT key, " VECTOR
            " FROM rows WHERE tbl = %Q AND key BETWEEN %d AND %d",
            table, table, lo, hi);
}

/* Table c comes and goes. */
static inline void change_schema(sqlite3 *db) {
  if (ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'c'")) {
    (void)run(db, "DELETE FROM rows WHERE tbl = 'c'");
    (void)run(db, "DROP TABLE c");
  } else {
    (void)run(db, "CREATE VIRTUAL TABLE c USING emb(vector FLOAT[4], "
                  "memory='4MB')");
  }
}

static inline void change_some(struct work *w, sqlite3 *db, int n) {
  int level = 0;
  for (int i = 1 + roll(w, 8); i > 0; i--)
    switch (roll(w, 8)) {
    case 0:
      (void)run(db, "SAVEPOINT s%d", ++level);
      change(w, db, n * 100 + 50 + i);
      break;
    case 1:
    case 3:
      if (level)
        (void)run(db, "ROLLBACK TO s%d", level);
      break;
    case 2:
      if (level)
        (void)run(db, "RELEASE s%d", level--);
      break;
    default:
      change(w, db, n * 100 + i);
    }
}

/* The first two transactions make the tables. */
static inline void make_tables(sqlite3 *db, int n) {
  if (n == 1)
    (void)run(db, "CREATE TABLE rows(tbl, key, value, PRIMARY KEY(tbl, key));"
                  "CREATE TABLE log(n INTEGER PRIMARY KEY)");
  else
    (void)run(db, "CREATE VIRTUAL TABLE a USING emb(vector FLOAT[4], "
                  "memory='4MB');"
                  "CREATE VIRTUAL TABLE b USING emb(vector FLOAT16[4], "
                  "memory='4MB')");
}

static inline void transaction(struct work *w, sqlite3 *db, int n) {
  int alone = 0; /* no vector is changed */
  (void)run(db, roll(w, 2) ? "BEGIN" : "BEGIN IMMEDIATE");
  if (n <= 2) {
    make_tables(db, n);
  } else if (roll(w, 3) == 0) {
    change_schema(db);
    alone = roll(w, 2);
  }
  if (n > 1 && !alone && roll(w, 8))
    change_some(w, db, n);
  if (n > 2 && roll(w, 6) == 0) {
    (void)run(db, "ROLLBACK");
    return;
  }
  (void)run(db, "INSERT INTO log VALUES(%d)", n);
  w->begun(n);
  (void)run(db, "COMMIT");
  w->acked(n);
}

static inline void between(struct work *w, sqlite3 **db, int n) {
  int what = roll(w, 12);
  if (n < 2 || what > 5)
    return;
  if (what <= 1)
    (void)run(*db, "INSERT INTO %s(%s) VALUES('%s')", what ? "a" : "b",
              what ? "a" : "b", roll(w, 3) ? "checkpoint" : "optimize");
  else if (what == 2)
    (void)run(*db, "PRAGMA wal_checkpoint(%s)",
              roll(w, 2) ? "PASSIVE" : "TRUNCATE");
  else if (what == 3 && CHECK_EQ_INT(sqlite3_close(*db), SQLITE_OK)) /* clean */
    *db = open_db(w->path, w->vfs);
}

static inline void do_work(struct work *w) {
  sqlite3 *db = open_db(w->path, w->vfs);
  if (db == NULL)
    return;
  for (int n = 1; n <= w->txns && db; n++) {
    uint64_t before = w->random;
    transaction(w, db, n);
    if (ask_number(db, "SELECT max(n) FROM log") != n) {
      n--; /* it was rolled back: its number is the next one's */
      w->random += before == w->random;
    } else {
      work_dumps[n] = ask(db, ALL_ROWS);
      compare(db);
    }
    between(w, &db, n);
    if (atomic_load(&test_state.failures))
      break;
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- the check ----------------------------------------------------------- */

/* How far it came; every table is as it was then. */
static inline int check_state(sqlite3 *db, int acked, int begun) {
  int n = 0;
  if (ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'log'"))
    n = ask_number(db, "SELECT max(n) FROM log");
  if (!HOLDS(n >= acked && n <= begun,
             "it came to transaction %d, %d was acknowledged, %d was begun", n,
             acked, begun) ||
      n == 0)
    return n;
  char *rows = ask(db, ALL_ROWS);
  (void)HOLDS(strcmp(rows, work_dumps[n]) == 0, "rows of %d: %.60s", n, rows);
  sqlite3_free(rows);
  compare(db);
  return n;
}

/* It takes transactions again. */
static inline void go_on(sqlite3 *db, int n) {
  if (n < 2)
    return;
  char *names = ask(db, "SELECT name FROM emb_tables ORDER BY name");
  (void)run(db, "BEGIN IMMEDIATE");
  for (const char *name = names; *name; name += 2) {
    (void)run(db, "INSERT OR REPLACE INTO rows VALUES('%c', 5, 77)", *name);
    (void)run(db,
              "INSERT OR REPLACE INTO %c(key, vector) SELECT key, " VECTOR
              " FROM rows WHERE tbl = '%c' AND key = 5",
              *name, *name);
  }
  (void)run(db, "COMMIT");
  compare(db);
  for (const char *name = names; *name; name += 2)
    (void)run(db, "INSERT INTO %c(%c) VALUES('integrity-check')", *name, *name);
  char *states = ask(db, "SELECT name || state FROM emb_tables "
                         "WHERE state <> 'ok'");
  (void)HOLDS(states[0] == 0, "states: %s", states);
  sqlite3_free(states);
  sqlite3_free(names);
  sqlite3_free(ask(db, "SELECT emb_gc()"));
}

/* How far it came is returned; was_read (or NULL) is called before
** anything is written. */
static inline int examine(const char *path, const char *vfs, int acked,
                          int begun, void (*was_read)(void)) {
  sqlite3 *db = open_db(path, vfs);
  if (db == NULL)
    return 0;
  char *good = ask(db, "PRAGMA integrity_check");
  (void)HOLDS(strcmp(good, "ok ") == 0, "integrity_check: %.100s", good);
  sqlite3_free(good);
  int n = check_state(db, acked, begun);
  if (was_read)
    was_read();
  go_on(db, n);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return n;
}

#endif
