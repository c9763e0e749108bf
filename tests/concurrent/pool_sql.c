/* SPDX-License-Identifier: MIT
**
** pool_sql.c -- tables that come and go while several connections of one
** process use them: when the store of a dropped table is gone, and what the
** other connections notice.
**
** "Gone" means that no part of it is next to the database and that this
** process has none of its files open, so that the disk has its space back.
*/
#include "fork_help.h"
#include "sql_help.h"
#include "store_help.h"
#include "strike.h"

#include "engine/table/owner/registry.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POOL = 4 };

static char file[400];

static void new_file(const char *name) {
  (void)snprintf(file, sizeof file, "%s", help_path(name));
}

/* The number that a query gives; below 0: the negated error code. */
static int64_t number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  int64_t n = 0;
  if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
    n = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return rc == SQLITE_ROW ? n : -rc;
}

/* Files next to the database that this process has open, named or not. */
static int open_files(void) {
  char beside[500];
  int n = 0;
  (void)snprintf(beside, sizeof beside, "%s-emb/", file);
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
    char path[600], to[600];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
    ssize_t length = readlink(path, to, sizeof to - 1);
    to[length > 0 ? length : 0] = 0;
    n += strncmp(to, beside, strlen(beside)) == 0;
  }
  if (d != NULL)
    (void)closedir(d);
  return n;
}

/* Stores next to the database. */
static int stores(void) {
  char beside[500];
  int n = 0;
  (void)snprintf(beside, sizeof beside, "%s-emb", file);
  DIR *d = opendir(beside);
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
    n += e->d_name[0] != '.';
  if (d != NULL)
    (void)closedir(d);
  return n;
}

static int beside_exists(void) {
  char beside[500];
  (void)snprintf(beside, sizeof beside, "%s-emb", file);
  return access(beside, F_OK) == 0;
}

static int is_gone(void) {
  return CHECK_EQ_INT(open_files(), 0) & CHECK_EQ_INT(stores(), 0) &
         CHECK(!beside_exists());
}

static const char create[] =
    "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[4], memory='4MB')";

/* A pool whose connections have all used the table, each in its own way. */
static void fill_pool(sqlite3 **pool, int n, int flags) {
  for (int i = 0; i < n; i++) {
    pool[i] = sql_connect(file, flags);
    if (i == 0) {
      sql_runs(pool[0], create);
      sql_runs(pool[0],
               "CREATE TABLE plain(x); INSERT INTO plain VALUES(1);"
               "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
               "FROM s WHERE i < 2000) "
               "INSERT INTO items SELECT i, '[1,2,3,4]' FROM s");
    }
    CHECK_EQ_INT(number(pool[i], i % 2 ? "SELECT count(*) FROM items"
                                       : "SELECT length(emb_get('items', "
                                         "'[1,2]'))"),
                 i % 2 ? 2000 : 32);
  }
}

static void empty_pool(sqlite3 **pool, int n) {
  for (int i = 0; i < n; i++)
    CHECK_EQ_INT(sqlite3_close(pool[i]), SQLITE_OK);
}

/* ---- when it is gone ----------------------------------------------------- */

TEST(goes_with_the_commit) {
  sqlite3 *pool[POOL];
  for (int who = 0; who < POOL; who++) {
    new_file(who % 2 ? "odd.db" : "even.db");
    (void)unlink(file);
    fill_pool(pool, POOL, SQLITE_OPEN_FULLMUTEX);
    CHECK(open_files() > 0);
    if (who % 2) {
      sql_runs(pool[who],
               "BEGIN; DROP TABLE items; INSERT INTO plain VALUES(2)");
      CHECK_EQ_INT(stores(), 1);
      sql_runs(pool[who], "COMMIT");
    } else {
      sql_runs(pool[who], "DROP TABLE items");
    }
    is_gone();
    empty_pool(pool, POOL);
  }
}

/* Connections without a mutex cannot be examined: they give up the store at
** their next statement, whatever it is, or when they close, in any order. */
TEST(goes_with_the_last_user) {
  sqlite3 *pool[POOL];
  for (int round = 0; round < 2 * POOL; round++) {
    char name[40];
    (void)snprintf(name, sizeof name, "last%d.db", round);
    new_file(name);
    fill_pool(pool, POOL, SQLITE_OPEN_NOMUTEX);
    int who = round % POOL;
    sql_runs(pool[who], "DROP TABLE items");
    CHECK(!(beside_exists() && help_disk_bytes(help_path(name)) > 0));
    for (int i = 0; i < POOL; i++) {
      int other = (round + i + 1) % POOL;
      if (round < POOL) {
        CHECK(number(pool[other], "SELECT x FROM plain") == 1);
      } else {
        CHECK_EQ_INT(sqlite3_close(pool[other]), SQLITE_OK);
        pool[other] = NULL;
      }
    }
    is_gone();
    for (int i = 0; i < POOL; i++)
      (void)sqlite3_close(pool[i]);
  }
}

TEST(stays_after_a_rollback) {
  sqlite3 *pool[POOL];
  new_file("rollback.db");
  fill_pool(pool, POOL, SQLITE_OPEN_FULLMUTEX);
  sql_runs(pool[0], "BEGIN; DROP TABLE items; ROLLBACK");
  sql_runs(pool[1],
           "BEGIN; SAVEPOINT a; DROP TABLE items; ROLLBACK TO a; COMMIT");
  for (int i = 0; i < POOL; i++) {
    CHECK_EQ_INT(number(pool[i], "SELECT count(*) FROM items"), 2000);
    CHECK_EQ_INT(number(pool[i], "SELECT length(emb_get('items', '[1,2]'))"),
                 32);
  }
  CHECK_EQ_INT(stores(), 1);
  /* A CREATE that is rolled back leaves nothing either. */
  sql_runs(pool[2],
           "BEGIN; CREATE VIRTUAL TABLE more USING emb(vector FLOAT[1]);"
           "ROLLBACK");
  CHECK_EQ_INT(stores(), 1);
  empty_pool(pool, POOL);
  CHECK_EQ_INT(stores(), 1);
}

TEST(another_of_the_same_name) {
  sqlite3 *pool[POOL];
  new_file("again.db");
  fill_pool(pool, POOL, SQLITE_OPEN_NOMUTEX);
  for (int round = 0; round < 20; round++) {
    sqlite3 *db = pool[round % POOL];
    sql_runs(db, round % 3 ? "DROP TABLE items" : "BEGIN; DROP TABLE items");
    sql_runs(db, create);
    sql_runs(db, "INSERT INTO items VALUES(5, '[5,5,5,5]')");
    if (round % 3 == 0)
      sql_runs(db, "COMMIT");
    for (int i = 0; i < POOL; i += 1 + round % 2)
      CHECK_EQ_INT(number(pool[i], "SELECT sum(key) FROM items"), 5);
  }
  for (int i = 0; i < POOL; i++)
    CHECK_EQ_INT(number(pool[i], "SELECT sum(key) FROM items"), 5);
  CHECK_EQ_INT(stores(), 1);
  empty_pool(pool, POOL);
  CHECK_EQ_INT(stores(), 1);
}

/* In WAL mode, a reader continues to see a table that has been dropped
** since. */
TEST(an_old_reader_ends_its_scan) {
  sqlite3 *pool[POOL];
  sqlite3_stmt *scan = NULL;
  int64_t rows = 1;
  int rc;
  new_file("wal.db");
  fill_pool(pool, POOL, SQLITE_OPEN_FULLMUTEX);
  sql_runs(pool[0], "PRAGMA journal_mode = wal");
  sql_runs(pool[1], "BEGIN");
  CHECK_EQ_INT(sqlite3_prepare_v2(pool[1], "SELECT key, vector FROM items", -1,
                                  &scan, NULL),
               SQLITE_OK);
  CHECK_EQ_INT(sqlite3_step(scan), SQLITE_ROW);
  sql_runs(pool[0], "DROP TABLE items");
  CHECK(open_files() > 0);
  while ((rc = sqlite3_step(scan)) == SQLITE_ROW)
    rows++;
  test_check(rc == SQLITE_DONE, __FILE__, __LINE__, "the scan gave %d: %s", rc,
             sqlite3_errmsg(pool[1]));
  CHECK_EQ_INT(rows, 2000);
  CHECK_EQ_INT(sqlite3_finalize(scan), SQLITE_OK);
  CHECK_EQ_INT(number(pool[1], "SELECT count(*) FROM items"), 2000);
  CHECK(number(pool[1], "SELECT emb_put('items', '[1]', '[1,1,1,1]')") < 0);
  CHECK(strstr(sqlite3_errmsg(pool[1]), "its table was dropped") != NULL);
  sql_runs(pool[1], "COMMIT");
  CHECK_EQ_INT(number(pool[1], "SELECT count(*) FROM items"), -SQLITE_ERROR);
  CHECK_STR(sqlite3_errmsg(pool[1]), "no such table: items");
  is_gone();
  empty_pool(pool, POOL);
}

/* A statement kept for later keeps SQLite's old table object alive.  The name
** no longer refers to that object. */
TEST(a_statement_that_is_kept) {
  sqlite3 *a, *b;
  sqlite3_stmt *kept = NULL;
  new_file("kept.db");
  a = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sql_runs(a, create);
  b = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  CHECK_EQ_INT(sqlite3_prepare_v2(b, "SELECT key FROM items", -1, &kept, NULL),
               SQLITE_OK);
  for (int used = 0; used < 2; used++) {
    if (used)
      CHECK_EQ_INT(number(b, "SELECT length(emb_get('items', '[1]'))"), 8);
    sql_runs(a, "DROP TABLE items");
    CHECK_EQ_INT(number(b, "SELECT emb_get('items', '[1]')"), -SQLITE_ERROR);
    CHECK_STR(sqlite3_errmsg(b), "emb: no such table: items");
    CHECK_EQ_INT(number(b, "SELECT count(*) FROM emb_stats('items')"),
                 -SQLITE_ERROR);
    CHECK_STR(sqlite3_errmsg(b), "emb: no such table: items");
    sql_runs(a, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2]);"
                "INSERT INTO items VALUES(3, '[1,2]')");
    CHECK_EQ_INT(number(b, "SELECT length(emb_get('items', '[1]'))"), 8);
    CHECK_EQ_INT(sqlite3_step(kept), SQLITE_ROW);
    CHECK_EQ_INT(sqlite3_column_int(kept, 0), 3);
    CHECK_EQ_INT(sqlite3_reset(kept), SQLITE_OK);
  }
  CHECK_EQ_INT(sqlite3_finalize(kept), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(a), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(b), SQLITE_OK);
  CHECK_EQ_INT(stores(), 1);
}

/* In WAL mode a transaction that began before the DROP still sees the table. */
TEST(an_old_transaction_is_told) {
  sqlite3 *a, *b;
  new_file("told.db");
  a = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sql_runs(a, "PRAGMA journal_mode = wal; CREATE TABLE plain(x)");
  sql_runs(a, create);
  b = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sql_runs(b, "BEGIN; SELECT * FROM plain");
  sql_runs(a, "DROP TABLE items");
  CHECK_EQ_INT(number(b, "SELECT count(*) FROM items"), -SQLITE_BUSY);
  CHECK_STR(sqlite3_errmsg(b),
            "emb: table items was dropped since this transaction began");
  sql_runs(b, "COMMIT");
  CHECK_EQ_INT(number(b, "SELECT count(*) FROM items"), -SQLITE_ERROR);
  CHECK_STR(sqlite3_errmsg(b), "no such table: items");
  CHECK_EQ_INT(sqlite3_close(a), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(b), SQLITE_OK);
}

/* ---- the schema is read again within a call ------------------------------ */

/* A call runs statements of its own.  At the start of one of them, SQLite
** forgets the schema of the connection, as it does when it finds that another
** connection has changed it, and disconnects the tables. */
static struct {
  sqlite3 *db;
  int at, began; /* which statement, and how many began */
  int within;    /* the statement is ours */
} forgets;

static int forget_schema(unsigned event, void *arg, void *statement,
                         void *text) {
  (void)event, (void)arg, (void)statement, (void)text;
  if (!forgets.within && ++forgets.began == forgets.at) {
    forgets.within = 1;
    sql_runs(forgets.db, "PRAGMA writable_schema = RESET");
    forgets.within = 0;
  }
  return 0;
}

/* The first statement is the user's, and it may be run once more. */
static int64_t number_while(sqlite3 *db, const char *sql, int at) {
  forgets.db = db;
  forgets.began = 0;
  forgets.at = at;
  sqlite3_trace_v2(db, SQLITE_TRACE_STMT, forget_schema, NULL);
  int64_t n = number(db, sql);
  sqlite3_trace_v2(db, 0, NULL, NULL);
  return n;
}

static const struct {
  const char *before, *sql; /* before: NULL, or SQL that undoes it */
} calling[] = {
    {NULL, "SELECT emb_get('items', '[1,2]') = "
           "emb_f32('[1,2,3,4,1,2,3,4]')"},
    {NULL, "SELECT emb_put('items', '[3]', '[4,4,4,4]')"},
    {NULL, "SELECT emb_rmw('items', '[4]', '[0,0,0,0]')"},
    {NULL, "SELECT count(*) FROM emb_nearest('items', '[1,2,3,4]', 5)"},
    {NULL, "SELECT count(*) FROM emb_stats('items')"},
    {NULL, "SELECT count(*) FROM emb_tables"},
    {NULL, "SELECT count(*) FROM emb_lookahead('items', '[1,2,3]')"},
    {"SELECT emb_snapshot_drop('items', 'this')",
     "SELECT emb_snapshot('items', 'this') > 0"},
    {"SELECT emb_snapshot('items', 'that')",
     "SELECT emb_snapshot_drop('items', 'that') IS NULL"},
    {NULL, "SELECT count(*) FROM emb_sample('items', 3)"},
    {NULL, "SELECT emb_gc()"},
    {NULL, "SELECT count(*) FROM items WHERE key < 5"},
    {NULL, "SELECT length(emb_get('words', '[\"a\"]'))"},
    /* The result would show a second execution. */
    {"SELECT emb_put('words', '[\"a\"]', '[0]')",
     "SELECT emb_rmw('words', '[\"a\"]', '[1]') + "
     "10 * emb_to_json(emb_get('words', '[\"a\"]')) ->> 0"},
};

static int64_t call_while(sqlite3 *db, size_t i, int at) {
  if (calling[i].before)
    sql_runs(db, calling[i].before);
  return number_while(db, calling[i].sql, at);
}

static void forget_in_calls(sqlite3 *db, int *forgotten) {
  for (size_t i = 0; i < sizeof calling / sizeof *calling; i++) {
    int64_t expected = call_while(db, i, 0);
    test_check(expected >= 0, __FILE__, __LINE__, "%s: %s", calling[i].sql,
               sqlite3_errmsg(db));
    for (int at = 1; at <= forgets.began; at++, ++*forgotten) {
      int64_t n = call_while(db, i, at);
      test_check(n == expected, __FILE__, __LINE__,
                 "%s, forgotten at %d, gave %d instead of %d: %s",
                 calling[i].sql, at, (int)n, (int)expected, sqlite3_errmsg(db));
    }
  }
}

TEST(the_schema_is_read_anew) {
  int forgotten = 0;
  new_file("anew.db");
  sqlite3 *db = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sql_runs(db, create);
  sql_runs(db, "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
               "FROM s WHERE i < 100) "
               "INSERT INTO items SELECT i, '[1,2,3,4]' FROM s");
  sql_runs(db, "CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, "
               "vector FLOAT[1])");
  sql_runs(db, "INSERT INTO words VALUES('a', '[0]')");
  sql_runs(db, "SELECT emb_snapshot('items', 'this')");
  forget_in_calls(db, &forgotten);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  test_count("schemas that were forgotten", (uint64_t)forgotten);
}

/* The engine asks how a transaction of another connection ends.  That
** connection is in SQLite's commit at this moment. */
static int read_meanwhile(void *arg) {
  static const char *const meets[] = {
      "SELECT emb_get('items', '[1,2]') = emb_f32('[1,2,3,4,1,2,3,4]')",
      "SELECT count(*) FROM emb_nearest('items', '[1,2,3,4]', 5)",
      "SELECT count(*) FROM emb_sample('items', 3)",
      "SELECT count(*) FROM items WHERE vector = emb_f32('[1,2,3,4]')",
      "SELECT emb_put('items', '[1]', '[4,4,4,4]')",
      "SELECT emb_rmw('items', '[2]', '[0,0,0,0]')",
  };
  sqlite3 *db = arg;
  for (size_t i = 0; i < sizeof meets / sizeof *meets; i++) {
    int64_t expected = number_while(db, meets[i], 0);
    /* behind the first there is only waiting */
    int began = forgets.began < 6 ? forgets.began : 6;
    for (int at = 1; at <= began; at++) {
      int64_t n = number_while(db, meets[i], at);
      test_check(n == expected, __FILE__, __LINE__,
                 "%s, forgotten at %d, gave %d instead of %d: %s", meets[i], at,
                 (int)n, (int)expected, sqlite3_errmsg(db));
    }
    test_count("schemas that were forgotten beside a commit", (uint64_t)began);
  }
  return 0;
}

TEST(the_schema_is_read_anew_while_it_is_decided) {
  new_file("decided.db");
  sqlite3 *a = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sql_runs(a, "PRAGMA journal_mode = wal"); /* others read during a commit */
  sql_runs(a, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[4], "
              "memory='4MB', timeout=20)");
  sql_runs(a, "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 "
              "FROM s WHERE i < 100) "
              "INSERT INTO items SELECT i, '[1,2,3,4]' FROM s");
  sqlite3 *b = sql_connect(file, SQLITE_OPEN_FULLMUTEX);
  sqlite3_commit_hook(a, read_meanwhile, b);
  sql_runs(a, "UPDATE items SET vector = '[2,2,2,2]' WHERE key < 3");
  sqlite3_commit_hook(a, NULL, NULL);
  CHECK_EQ_INT(number(b, "SELECT sum(vector = emb_f32('[2,2,2,2]')) "
                         "FROM items"),
               2);
  CHECK_EQ_INT(sqlite3_close(a), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(b), SQLITE_OK);
}

/* ---- killed in the middle ------------------------------------------------ */

static struct env deadly;
static int die_at, calls;

static int strike(void) {
  if (++calls == die_at)
    (void)kill(getpid(), SIGKILL);
  return 0;
}

/* 1: it ran to the end. */
static int drop_in_child(int nth) {
  int status = -1;
  (void)fflush(stdout);
  pid_t child = test_fork();
  if (child == 0) {
    sqlite3 *pool[2];
    (void)alarm(60);
    const struct env *striking = strike_engine(strike);
    deadly = env_posix;
    deadly.rename = striking->rename;
    deadly.unlink = striking->unlink;
    deadly.remove_dir = striking->remove_dir;
    env_set_default(&deadly);
    fill_pool(pool, 2, SQLITE_OPEN_FULLMUTEX);
    calls = 0;
    die_at = nth;
    sql_runs(pool[0], "DROP TABLE items");
    die_at = 0;
    empty_pool(pool, 2);
    _exit(test_state.failures != 0);
  }
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && !WEXITSTATUS(status)));
  return WIFEXITED(status);
}

TEST(killed_while_it_goes) {
  int ended = 0;
  for (int nth = 1; !ended && nth < 100; nth++) {
    char name[40];
    (void)snprintf(name, sizeof name, "kill%d.db", nth);
    new_file(name);
    ended = drop_in_child(nth);
    sqlite3 *db = sql_connect(file, 0);
    /* The DROP had been committed. */
    CHECK_EQ_INT(number(db, "SELECT count(*) FROM items"), -SQLITE_ERROR);
    sql_runs(db, "SELECT emb_gc()");
    CHECK_EQ_INT(stores(), 0);
    sql_runs(db, create);
    sql_runs(db, "INSERT INTO items VALUES(7, '[1,1,1,1]')");
    CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
    db = sql_connect(file, 0);
    CHECK_EQ_INT(number(db, "SELECT key FROM items"), 7);
    CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
    test_count("kill points", 1);
  }
  CHECK(ended);
}

/* ---- threads ------------------------------------------------------------- */

/* An error that a user of ordinary tables can see in the same race, or a
** little more: a function finds the table, and the table is dropped before
** the call writes. */
static int is_expected(sqlite3 *db, int rc) {
  const char *text = sqlite3_errmsg(db);
  return (rc == SQLITE_ERROR && (strstr(text, "no such table: c") == text ||
                                 strstr(text, "already exists") != NULL ||
                                 strstr(text, "already another table"))) ||
         (rc == SQLITE_ERROR && strcmp(text, "emb: no such table: c") == 0) ||
         (rc == SQLITE_CANTOPEN &&
          strcmp(text, "emb: c was deleted: its table was dropped") == 0) ||
         (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED ||
         (rc & 0xff) == SQLITE_SCHEMA;
}

static const char *const racing[] = {
    "CREATE VIRTUAL TABLE c USING emb(vector FLOAT[1], memory='4MB')",
    "DROP TABLE c",
    "INSERT OR REPLACE INTO c VALUES(1, '[1]')",
    "SELECT * FROM c",
    "SELECT emb_get('c', '[1]')",
    "SELECT emb_put('c', '[1]', '[2]')",
    "UPDATE c SET vector = '[3]'",
    "DELETE FROM c WHERE key = 1",
    "SELECT vectors FROM c('[1]')",
    "SELECT * FROM emb_stats('c')",
    "SELECT count(*) FROM emb_tables",
    "INSERT INTO c(c) VALUES('checkpoint')",
    "BEGIN; INSERT OR REPLACE INTO c VALUES(2, '[1]'); COMMIT",
    "ALTER TABLE c RENAME TO d; ALTER TABLE d RENAME TO c",
};

static _Atomic uint64_t ran, refused;

static void *race(void *arg) {
  uint64_t random = *(uint64_t *)arg;
  sqlite3 *db = sql_connect(file, SQLITE_OPEN_NOMUTEX);
  sqlite3_busy_timeout(db, 200);
  for (int round = 0; round < 300 && test_state.failures == 0; round++) {
    size_t which = test_random_from(&random) % (sizeof racing / sizeof *racing);
    if (test_random_from(&random) % 2) /* mostly these */
      which = test_random_from(&random) % 4;
    int rc = sqlite3_exec(db, racing[which], NULL, NULL, NULL);
    test_check(rc == SQLITE_OK || is_expected(db, rc), __FILE__, __LINE__,
               "%s gave %d: %s", racing[which], rc, sqlite3_errmsg(db));
    atomic_fetch_add(rc == SQLITE_OK ? &ran : &refused, 1);
    if (!sqlite3_get_autocommit(db))
      (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

static void race_in(const char *name, const char *mode) {
  pthread_t threads[POOL];
  uint64_t seeds[POOL];
  new_file(name);
  sqlite3 *db = sql_connect(file, 0);
  sql_runs(db, mode);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  for (int i = 0; i < POOL; i++) {
    seeds[i] = test_random();
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, race, &seeds[i]), 0);
  }
  for (int i = 0; i < POOL; i++)
    CHECK_EQ_INT(pthread_join(threads[i], NULL), 0);
  db = sql_connect(file, 0);
  int64_t tables = number(db, "SELECT count(*) FROM sqlite_schema WHERE name "
                              "IN ('c', 'd')");
  CHECK_EQ_INT(stores(), tables);
  CHECK_EQ_INT(number(db, "SELECT count(*) FROM sqlite_schema WHERE name LIKE "
                          "'%!_emb' ESCAPE '!'"),
               tables);
  CHECK_EQ_INT(open_files(), 0);
  sql_runs(db, "DROP TABLE IF EXISTS c; DROP TABLE IF EXISTS d");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  is_gone();
}

TEST(create_and_drop_in_threads) {
  race_in("delete.db", "PRAGMA journal_mode = delete");
  race_in("log.db", "PRAGMA journal_mode = wal");
  test_count("racing statements", atomic_load(&ran) + atomic_load(&refused));
  CHECK(atomic_load(&ran) > 0);
}
