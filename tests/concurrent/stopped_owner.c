/* SPDX-License-Identifier: MIT
**
** stopped_owner.c -- what statements do while the process that owns their
** table is stopped: they wait for one timeout, or for a moment if they show a
** state, and each ends when it is interrupted.
**
** Each statement has its own database and thread, and another process owns
** all the databases; so all wait at the same time.  Here time is the
** contract.  The best of several tries counts: the machine may be busy.
*/
#include "process_help.h"
#include "sql_help.h"
#include "store_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  TIMEOUT_MS = 1000, /* of the tables: the shortest possible */
  SLOW = SANITIZED ? 5 : 1,
  END_MS = 200 * SLOW,    /* after an interrupt */
  STATE_MS = 1000 * SLOW, /* of a statement that shows a state */
  BEFORE_MS = 100,        /* from a statement's begin to the interrupt */
  AGAIN_MS = 20, /* to the next, if the first came before the statement */
  TRIES = 10,    /* ends with the first try that is good for all */
};

enum how {
  FAILS,
  SHOWS, /* immediately, which process the owner is */
  MAY,   /* succeed: it only ends something, or leaves a part for later */
};
enum { MANY = 20 };

#define CHANGE "UPDATE v SET vector = '[3]' WHERE key = 2"
#define CHANGES                                                                \
  "UPDATE t1 SET vector = '[3]' WHERE key = 1; UPDATE t2 SET vector = "        \
  "'[3]' WHERE key = 1; UPDATE t3 SET vector = '[3]' WHERE key = 1"

static const struct statement {
  const char *sql;
  enum how how;
  const char *before; /* on its connection, while the owner runs */
  int tables;         /* besides v: t1, t2, ... */
  int functions;      /* that show a state, besides the first: one wait each */
} statements[] = {
    {.sql = "SELECT owner_pid FROM emb_tables", .how = SHOWS},
    {.sql = "SELECT process FROM emb_clients('v')", .how = SHOWS},
    {.sql = "SELECT value FROM emb_stats('v') WHERE name = 'owner_pid'",
     .how = SHOWS},
    {.sql = "SELECT CASE count(*) WHEN 1 THEN min(value) END FROM "
            "emb_stats('v')",
     .how = SHOWS},
    {.sql = "SELECT CASE count(owner_pid) WHEN 21 THEN min(owner_pid) END FROM "
            "emb_tables",
     .how = SHOWS,
     .tables = MANY},
    {.sql =
         "SELECT min(c.process) FROM emb_tables AS t, emb_clients(t.name) AS c",
     .how = SHOWS,
     .tables = MANY,
     .functions = 1},
    {.sql =
         "SELECT min(value) FROM emb_tables AS t, emb_stats(t.name) AS s WHERE "
         "s.name = 'owner_pid'",
     .how = SHOWS,
     .tables = MANY,
     .functions = 1},
    {.sql = "SELECT vector FROM v WHERE key = 1"},
    {.sql = "SELECT vector FROM v WHERE key IN (1, 2, 3)"},
    {.sql = "SELECT count(*) FROM v"},
    {.sql = "SELECT key, vector FROM v ORDER BY key"},
    {.sql = "SELECT a.key FROM v AS a, v AS b WHERE a.key = b.key"},
    {.sql = "SELECT key FROM v WHERE vector MATCH '[0]' AND k = 1"},
    {.sql = "INSERT INTO v VALUES(5, '[5]')"},
    {.sql = "INSERT OR REPLACE INTO v VALUES(1, '[5]')"},
    {.sql = "UPDATE v SET vector = '[2]' WHERE key = 1"},
    {.sql = "UPDATE v SET vector = emb_add(vector, '[1]')"},
    {.sql = "DELETE FROM v WHERE key = 1"},
    {.sql = "DELETE FROM v"},
    {.sql = "INSERT INTO v(v) VALUES('checkpoint')"},
    {.sql = "INSERT INTO v(v) VALUES('integrity-check')"},
    {.sql = "INSERT INTO v(v) VALUES('optimize')"},
    {.sql = "SELECT emb_get('v', '[1]')"},
    {.sql = "SELECT emb_put('v', '[1]', '[7]')"},
    {.sql = "SELECT emb_rmw('v', '[1]', '[7]')"},
    {.sql = "SELECT emb_prefetch('v', '[1]')"},
    {.sql = "SELECT emb_snapshot('v', 's')"},
    {.sql = "SELECT emb_delta_begin('v', 'c')"},
    {.sql = "SELECT * FROM emb_sample('v', 1)"},
    {.sql = "SELECT * FROM emb_nearest('v', '[0]', 1)"},
    {.sql = "SELECT * FROM emb_pending('v')"},
    {.sql = "SELECT * FROM emb_backup('%s')"},
    {.sql = "COMMIT", .how = FAILS, .before = "BEGIN; " CHANGE},
    {.sql = "COMMIT", .how = FAILS, .before = "BEGIN; " CHANGES, .tables = 3},
    {.sql = "SAVEPOINT a", .how = FAILS, .before = "BEGIN; " CHANGE},
    {.sql = "SAVEPOINT a",
     .how = FAILS,
     .before = "BEGIN; " CHANGES,
     .tables = 3},
    {.sql = "RELEASE a",
     .how = FAILS,
     .before = "BEGIN; " CHANGE "; SAVEPOINT a; " CHANGE},
    {.sql = "ROLLBACK TO a",
     .how = FAILS,
     .before = "BEGIN; " CHANGE "; SAVEPOINT a; " CHANGE},
    {.sql = "ROLLBACK TO a",
     .how = FAILS,
     .before = "BEGIN; " CHANGES "; SAVEPOINT a; " CHANGES,
     .tables = 3},
    {.sql = "ROLLBACK", .how = MAY, .before = "BEGIN; " CHANGE},
    {.sql = "ROLLBACK", .how = MAY, .before = "BEGIN; " CHANGES, .tables = 3},
    {.sql = "INSERT INTO t1 SELECT a.key + 10, a.vector FROM t2 AS a, t3 AS b",
     .how = FAILS,
     .before =
         "SELECT vector FROM t1 WHERE key = 1; SELECT count(*) FROM t2, t3",
     .tables = 3},
    {.sql = "SELECT (SELECT vector FROM t1 WHERE key = 1), (SELECT count(*) "
            "FROM t2), "
            "(SELECT emb_get('t3', '[1]'))",
     .how = FAILS,
     .tables = 3},
    {.sql = "DROP TABLE t1", .how = MAY, .tables = 1},
    {.sql = "DROP TABLE t1",
     .how = MAY,
     .before = "SELECT count(*) FROM t1",
     .tables = 1},
    {.sql = "DROP TABLE t2",
     .how = MAY,
     .before = "BEGIN; " CHANGES,
     .tables = 3},
    {.sql = "COMMIT",
     .how = MAY,
     .before = "BEGIN; DROP TABLE t1; DROP TABLE t2; DROP TABLE t3",
     .tables = 3},
    {.sql = "ALTER TABLE t1 RENAME TO t2",
     .how = MAY,
     .before = "BEGIN; SELECT count(*) FROM t1",
     .tables = 1},
    {.sql = "CREATE VIRTUAL TABLE t2 USING emb(vector FLOAT[1])",
     .how = MAY,
     .before = "BEGIN",
     .tables = 1},
    {.sql = "CREATE VIRTUAL TABLE t1 USING emb(vector FLOAT[1])",
     .how = MAY,
     .before = "BEGIN; DROP TABLE t1",
     .tables = 1},
    {.sql = "INSERT INTO v(v, arg) VALUES('set timeout', 1000)", .how = MAY},
    {.sql = "SELECT emb_gc()", .how = MAY, .tables = 3},
};
enum { STATEMENTS = sizeof statements / sizeof statements[0] };

/* Statements on many tables have the machine to themselves: each opens its
** stores one after another. */
static int with_many;
static int is_run(int i) { return (statements[i].tables == MANY) == with_many; }

static void name_database(char path[500], const char *dir, int i) {
  (void)snprintf(path, 500, "%s/%d.db", dir, i);
}

/* Creates the statement's missing tables, and owns all. */
static void own(sqlite3 *db, const struct statement *statement) {
  char sql[200];
  (void)sql_runs(db, "UPDATE v SET vector = '[1]' WHERE key = 1");
  for (int k = 1; k <= statement->tables; k++) {
    (void)snprintf(sql, sizeof sql,
                   "CREATE VIRTUAL TABLE IF NOT EXISTS t%d USING emb(vector "
                   "FLOAT[1], timeout=%d); INSERT OR REPLACE INTO t%d VALUES(1,"
                   "'[1]')",
                   k, TIMEOUT_MS, k);
    (void)sql_runs(db, sql);
  }
}

PROCESS(owner) {
  sqlite3 *dbs[STATEMENTS];
  for (int i = 0; i < STATEMENTS; i++) {
    char path[500];
    name_database(path, process_argument(0), i);
    dbs[i] = sql_connect(path, 0);
  }
  while (process_told("own")) {
    for (int i = 0; i < STATEMENTS; i++)
      own(dbs[i], &statements[i]);
    process_tell("owns");
  }
  for (int i = 0; i < STATEMENTS; i++)
    CHECK_EQ_INT(sqlite3_close(dbs[i]), SQLITE_OK);
}

/* ---- one thread for each ------------------------------------------------- */

enum mode {
  FRESH,  /* the connection's first statement, */
  LINKED, /* a later one, */
  WITHIN, /* and one in a transaction that has written, with its ROLLBACK */
  MODES
};

static struct runner {
  const struct statement *statement;
  enum mode mode;
  int is_interrupted;
  sqlite3 *db;
  pthread_t thread;
  _Atomic int64_t began_ms, interrupted_ms, ended_ms; /* 0: not yet */
  int64_t took_ms; /* after the interrupt, if there was one */
  int rc;
  int64_t value; /* of the first row's first column */
} runs[STATEMENTS];

static void make_statement(struct runner *run) {
  char sql[700], copy[500];
  sqlite3_stmt *statement = NULL;
  (void)snprintf(copy, sizeof copy, "%s/copy-%d.db", test_dir(),
                 (int)(run - runs));
  (void)snprintf(sql, sizeof sql, run->statement->sql, copy);
  run->value = 0;
  run->rc = sqlite3_prepare_v2(run->db, sql, -1, &statement, NULL);
  if (run->rc == SQLITE_OK)
    run->rc = sqlite3_step(statement);
  if (run->rc == SQLITE_ROW)
    run->value = sqlite3_column_int64(statement, 0);
  while (run->rc == SQLITE_ROW)
    run->rc = sqlite3_step(statement);
  (void)sqlite3_finalize(statement);
}

static void *run_thread(void *arg) {
  struct runner *run = arg;
  int64_t start = help_now_ms();
  atomic_store(&run->began_ms, start);
  make_statement(run);
  if (run->mode == WITHIN && !run->is_interrupted &&
      !sqlite3_get_autocommit(run->db))
    (void)sqlite3_exec(run->db, "ROLLBACK", NULL, NULL, NULL);
  atomic_store(&run->ended_ms, help_now_ms());
  return NULL;
}

/* Interrupts until all have ended. */
static void interrupt_all(void) {
  for (int left = STATEMENTS; left > 0;) {
    left = 0;
    for (int i = 0; i < STATEMENTS; i++) {
      struct runner *run = &runs[i];
      int64_t began = atomic_load(&run->began_ms);
      if (!is_run(i) || atomic_load(&run->ended_ms))
        continue;
      left++;
      if (began && help_now_ms() - began >= BEFORE_MS) {
        if (!atomic_load(&run->interrupted_ms))
          atomic_store(&run->interrupted_ms, help_now_ms());
        sqlite3_interrupt(run->db);
      }
    }
    (void)usleep(AGAIN_MS * 1000);
  }
}

static int prepare_runs(struct process *owner, enum mode mode,
                        int is_interrupted) {
  process_say(owner, "own");
  int good = process_hear(owner, "owns");
  for (int i = 0; i < STATEMENTS; i++) {
    char path[500];
    memset(&runs[i], 0, sizeof runs[i]);
    runs[i].statement = &statements[i];
    runs[i].mode = mode;
    runs[i].is_interrupted = is_interrupted;
    name_database(path, test_dir(), i);
    runs[i].db = sql_connect(path, 0);
    if (statements[i].before)
      good &= sql_runs(runs[i].db, statements[i].before);
    else if (mode != FRESH)
      good &= sql_runs(runs[i].db, "SELECT vector FROM v WHERE key = 1");
    if (mode == WITHIN && !statements[i].before)
      good &= sql_runs(runs[i].db,
                       "BEGIN; UPDATE v SET vector = '[3]' WHERE key = 2");
  }
  return good;
}

/* Also while the owner is stopped: closing no longer waits for it. */
static void end_runs(void) {
  for (int i = 0; i < STATEMENTS; i++)
    CHECK_EQ_INT(sqlite3_close(runs[i].db), SQLITE_OK);
}

static void run_all(struct process *owner, enum mode mode, int is_interrupted) {
  int good = prepare_runs(owner, mode, is_interrupted), n = 0;
  process_stop(owner);
  while (good && n < STATEMENTS &&
         (!is_run(n) ||
          pthread_create(&runs[n].thread, NULL, run_thread, &runs[n]) == 0))
    n++;
  if (CHECK_EQ_INT(n, STATEMENTS) && is_interrupted)
    interrupt_all();
  for (int i = 0; i < n; i++) {
    if (!is_run(i))
      continue;
    CHECK_EQ_INT(pthread_join(runs[i].thread, NULL), 0);
    int64_t since = atomic_load(is_interrupted ? &runs[i].interrupted_ms
                                               : &runs[i].began_ms);
    runs[i].took_ms = since ? atomic_load(&runs[i].ended_ms) - since : 0;
  }
  process_go_on(owner);
}

/* ---- the tests ----------------------------------------------------------- */

static int start(struct process *owner) {
  for (int i = 0; i < STATEMENTS; i++) {
    char path[500], sql[300];
    name_database(path, test_dir(), i);
    sqlite3 *db = sql_connect(path, 0);
    (void)snprintf(sql, sizeof sql,
                   "CREATE VIRTUAL TABLE v USING emb(vector FLOAT[1], "
                   "timeout=%d); INSERT INTO v VALUES(1, '[1]'), (2, '[2]'),"
                   "(3, '[3]')",
                   TIMEOUT_MS);
    (void)sql_runs(db, sql);
    CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  }
  return process_start(owner, "owner", (const char *[]){test_dir(), NULL});
}

static void end(struct process *owner) {
  process_say(owner, "end");
  CHECK(process_end(owner));
}

/* After the owner has continued, everything works. */
static void check_all_work(void) {
  for (int i = 0; i < STATEMENTS; i++) {
    if (!sqlite3_get_autocommit(runs[i].db))
      (void)sqlite3_exec(runs[i].db, "ROLLBACK", NULL, NULL, NULL);
    (void)sql_runs(runs[i].db, "UPDATE v SET vector = '[1]' WHERE key = 1");
    CHECK_EQ_INT(sql_integer(runs[i].db, "SELECT count(*) FROM v"), 3);
  }
}

static void check_times(const char *what, const int64_t best[STATEMENTS],
                        int64_t most, int64_t most_of_state) {
  for (int i = 0; i < STATEMENTS; i++) {
    int64_t limit = statements[i].how == SHOWS
                        ? most_of_state * (1 + statements[i].functions)
                        : most;
    if (!CHECK(best[i] < limit))
      (void)fprintf(stderr, "%s: %lld ms: %s\n", what, (long long)best[i],
                    statements[i].sql);
  }
}

/* Whether another try may show what the last did not. */
static int take_best(int64_t best[STATEMENTS], int first, int64_t most,
                     int64_t most_of_state) {
  int late = 0;
  for (int i = 0; i < STATEMENTS; i++) {
    int64_t took = runs[i].took_ms;
    best[i] = first || took < best[i] ? took : best[i];
    late |= best[i] >= (statements[i].how == SHOWS
                            ? most_of_state * (1 + statements[i].functions)
                            : most);
  }
  return late;
}

/* emb_backup refuses to run within a transaction. */
static int is_backup(int k) {
  return strstr(statements[k].sql, "emb_backup") != NULL;
}

/* SQLite returns SQLITE_ERROR if the interrupt came while a table-valued
** function was declared (interrupt_sql.c). */
static int was_interrupted(int k) {
  return runs[k].rc == SQLITE_INTERRUPT ||
         (runs[k].rc == SQLITE_ERROR &&
          strstr(statements[k].sql, " FROM emb_") &&
          strcmp(sqlite3_errmsg(runs[k].db), "emb: interrupted") == 0);
}

static const char *const names[MODES] = {"fresh", "linked", "within"};

static void each_waits(int many) {
  struct process owner;
  int64_t best[STATEMENTS] = {0};
  with_many = many;
  if (!start(&owner))
    return;
  for (int mode = 0; mode < MODES; mode++) {
    for (int i = 0, late = 1; i < TRIES && late; i++) {
      run_all(&owner, (enum mode)mode, 0);
      late = take_best(best, i == 0, 2 * TIMEOUT_MS * SLOW, STATE_MS);
      for (int k = 0; k < STATEMENTS; k++) {
        if (!is_run(k))
          continue;
        if (statements[k].how == SHOWS && mode != WITHIN)
          CHECK_EQ_INT(runs[k].value, owner.pid);
        else if (statements[k].how == FAILS)
          CHECK(runs[k].rc != SQLITE_OK && runs[k].rc != SQLITE_DONE);
      }
      check_all_work();
      end_runs();
    }
    check_times(names[mode], best, 2 * TIMEOUT_MS * SLOW, STATE_MS);
  }
  end(&owner);
}

TEST(each_waits_once) { each_waits(0); }
TEST(many_tables_are_shown) { each_waits(1); }

TEST(each_is_interrupted) {
  struct process owner;
  int64_t best[STATEMENTS] = {0};
  with_many = 0;
  if (!start(&owner))
    return;
  for (int mode = 0; mode < MODES; mode++) {
    for (int i = 0, late = 1; i < TRIES && late; i++) {
      run_all(&owner, (enum mode)mode, 1);
      late = take_best(best, i == 0, END_MS, END_MS);
      for (int k = 0; k < STATEMENTS; k++)
        if (is_run(k) && statements[k].how == FAILS &&
            !(mode == WITHIN && is_backup(k)) && !CHECK(was_interrupted(k)))
          (void)fprintf(stderr, "%s: %s: %d, %s\n", names[mode],
                        statements[k].sql, runs[k].rc,
                        sqlite3_errmsg(runs[k].db));
      check_all_work();
      end_runs();
    }
    check_times(names[mode], best, END_MS, END_MS);
  }
  end(&owner);
}

/* ---- stopped while it carries a call out --------------------------------- */

enum { WORK_ROWS = SANITIZED ? 8000 : 40000, UNDER_WAY_MS = 300 };
#define WORK "SELECT count(*) FROM emb_nearest('w', 'rows', 10)"

PROCESS(worker) {
  sqlite3 *db = sql_connect(process_argument(0), 0);
  (void)sql_runs(db, "UPDATE w SET vector = zeroblob(256) WHERE key = 1");
  process_tell("owns");
  (void)process_told("end");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* Milliseconds from when the owner stops, or from an interrupt after that, to
** the end of the statement; -1: it had ended before. */
static int64_t stop_amid(struct process *owner, sqlite3 *db,
                         int is_interrupted) {
  static const struct statement statement = {.sql = WORK};
  struct runner *run = &runs[0];
  int64_t since = 0;
  memset(run, 0, sizeof *run);
  run->statement = &statement;
  run->mode = LINKED;
  run->db = db;
  if (!CHECK_EQ_INT(pthread_create(&run->thread, NULL, run_thread, run), 0))
    return 0;
  (void)usleep(UNDER_WAY_MS * 1000);
  process_stop(owner);
  if (atomic_load(&run->ended_ms) == 0)
    since = help_now_ms();
  if (since && is_interrupted) {
    (void)usleep(BEFORE_MS * 1000);
    since = help_now_ms();
    sqlite3_interrupt(db);
  }
  CHECK_EQ_INT(pthread_join(run->thread, NULL), 0);
  process_go_on(owner);
  return since ? atomic_load(&run->ended_ms) - since : -1;
}

/* The rows 1 to n.  The work grows with their square. */
static int put_work(sqlite3 *db, int64_t n) {
  char sql[400];
  (void)snprintf(sql, sizeof sql,
                 "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
                 "FROM s WHERE i < %lld) INSERT OR REPLACE INTO w SELECT i, "
                 "zeroblob(256) FROM s",
                 (long long)n);
  return sql_runs(db, sql);
}

TEST(stopped_amid_a_call) {
  struct process owner;
  char path[500], sql[400];
  (void)snprintf(path, sizeof path, "%s/amid.db", test_dir());
  int64_t rows = WORK_ROWS;
  sqlite3 *db = sql_connect(path, 0);
  (void)snprintf(
      sql, sizeof sql,
      "CREATE VIRTUAL TABLE w USING emb(vector FLOAT[64], timeout=%d)",
      TIMEOUT_MS);
  if (!sql_runs(db, sql) || !put_work(db, rows) ||
      !CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK) ||
      !process_start(&owner, "worker", (const char *[]){path, NULL}) ||
      !process_hear(&owner, "owns"))
    return;
  db = sql_connect(path, 0);
  (void)sql_runs(db, "SELECT vector FROM w WHERE key = 1");
  for (int is_interrupted = 0; is_interrupted < 2; is_interrupted++) {
    int64_t most = is_interrupted ? END_MS : 2 * TIMEOUT_MS * SLOW;
    int64_t took, best = INT64_MAX;
    for (int i = 0; i < TRIES && best >= most; i++) {
      took = stop_amid(&owner, db, is_interrupted);
      /* The work was too little for this machine, or done when the owner was
      ** stopped: only the answer had not been read yet. */
      if (took < 0 || runs[0].rc == SQLITE_DONE) {
        rows *= 2;
        if (!put_work(db, rows))
          break;
        continue;
      }
      CHECK_EQ_INT(runs[0].rc, is_interrupted ? SQLITE_INTERRUPT : SQLITE_BUSY);
      best = took < best ? took : best;
      CHECK_EQ_INT(sql_integer(db, "SELECT count(*) FROM w"), rows);
    }
    test_check(best < most, __FILE__, __LINE__, "%s ended after %lld ms",
               is_interrupted ? "interrupted, it" : "it", (long long)best);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  end(&owner);
}
