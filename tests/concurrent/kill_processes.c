/* SPDX-License-Identifier: MIT
**
** kill_processes.c -- several processes write to one table through SQL.  One
** after another is killed or stopped for a moment, whether it owns the store
** or not.
**
** A transaction increments a row of an ordinary table and writes the number
** into a vector.  Memory that the processes share counts the transactions
** begun and acknowledged.  At the end no transaction whose COMMIT has
** returned is lost, none exists that was not begun, and table and vectors
** agree.
**
** In addition, one process reads, and one adds gradients to its own vector,
** outside transactions: the vector may never hold more than that process
** asked for.
*/
#include "fork_help.h"
#include "sql_help.h"
#include "store_help.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 3, WORKERS = WRITERS + 2, KEYS = 20, ADDER = 1000 };

static struct world {
  _Atomic int stop;
  _Atomic uint64_t begun[KEYS + 1], done[KEYS + 1];
  _Atomic uint64_t added; /* asked for */
  _Atomic uint64_t lost;  /* errors that an owner has died */
  _Atomic uint64_t busy, reads;
} * world;

static char file[400];

static void fail(const char *what, sqlite3 *db) {
  (void)fprintf(stderr, "process %d: %s: %d %s\n", (int)getpid(), what,
                sqlite3_extended_errcode(db), sqlite3_errmsg(db));
  _exit(3);
}

/* 1: it was done.  0: it may be tried again. */
static int may_run(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    return 1;
  if ((rc & 0xff) == SQLITE_ABORT)
    atomic_fetch_add(&world->lost, 1);
  else if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED)
    atomic_fetch_add(&world->busy, 1);
  else
    fail(sql, db);
  return 0;
}

static sqlite3 *connect_to(void) {
  sqlite3 *db = sql_connect(file, 0);
  (void)sqlite3_busy_timeout(db, 2000);
  return db;
}

static void write_transactions(uint64_t random) {
  sqlite3 *db = connect_to();
  char sql[300];
  while (!atomic_load(&world->stop)) {
    unsigned key = (unsigned)(test_random_from(&random) % KEYS);
    (void)snprintf(sql, sizeof sql,
                   "BEGIN IMMEDIATE;"
                   "UPDATE plain SET n = n + 1 WHERE id = %u;"
                   "UPDATE items SET vector = json_array((SELECT n FROM plain "
                   "WHERE id = %u), 7) WHERE key = %u",
                   key, key, key);
    int good = may_run(db, sql);
    atomic_fetch_add(&world->begun[key], (uint64_t)good);
    if (good && may_run(db, "COMMIT"))
      atomic_fetch_add(&world->done[key], 1);
    if (!sqlite3_get_autocommit(db))
      (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  (void)sqlite3_close(db);
}

static void read_rows(void) {
  sqlite3 *db = connect_to();
  while (!atomic_load(&world->stop))
    if (may_run(db,
                "SELECT count(*), sum(emb_dot(vector, '[1,0]')) FROM items"))
      atomic_fetch_add(&world->reads, 1);
  (void)sqlite3_close(db);
}

static void add(void) {
  sqlite3 *db = connect_to();
  while (!atomic_load(&world->stop)) {
    atomic_fetch_add(&world->added, 1);
    (void)may_run(db, "SELECT emb_rmw('items', '[1000]', '[1,0]')");
  }
  (void)sqlite3_close(db);
}

static pid_t start(int worker, uint64_t random) {
  (void)fflush(stdout);
  pid_t pid = test_fork();
  if (pid == 0) {
    (void)alarm((unsigned)(120 * help_long()));
    if (worker < WRITERS)
      write_transactions(random);
    else if (worker == WRITERS)
      read_rows();
    else
      add();
    _exit(0);
  }
  CHECK(pid > 0);
  return pid;
}

static int64_t number(sqlite3 *db, const char *format, int key) {
  char sql[200];
  (void)snprintf(sql, sizeof sql, format, key);
  return sql_integer(db, sql);
}

static void compare(void) {
  sqlite3 *db = sql_connect(file, 0);
  uint64_t done = 0;
  for (int key = 0; key < KEYS; key++) {
    int64_t n = number(db, "SELECT n FROM plain WHERE id = %d", key);
    int64_t vector = number(
        db, "SELECT emb_dot(vector, '[1,0]') FROM items WHERE key = %d", key);
    CHECK_EQ_INT(vector, n);
    CHECK(n >= (int64_t)atomic_load(&world->done[key]));
    CHECK(n <= (int64_t)atomic_load(&world->begun[key]));
    done += (uint64_t)n;
  }
  int64_t sum = number(
      db, "SELECT emb_dot(vector, '[1,0]') FROM items WHERE key = %d", ADDER);
  CHECK(sum <= (int64_t)atomic_load(&world->added));
  sql_runs(db, "INSERT INTO items(items) VALUES('integrity-check')");
  (void)sqlite3_close(db);
  printf("%d transactions, %d errors of owners that died, %d of others that "
         "were busy, %d reads\n",
         (int)done, (int)atomic_load(&world->lost),
         (int)atomic_load(&world->busy), (int)atomic_load(&world->reads));
  CHECK(done > 0);
}

static int is_any_done(void) {
  uint64_t done = 0;
  for (int key = 0; key < KEYS; key++)
    done += atomic_load(&world->done[key]);
  return done > 0;
}

/* On a machine that is busy it goes on until there is something to compare. */
static void rotate(const char *journal) {
  pid_t pids[WORKERS];
  int status, kills = 0;
  char sql[64];
  void *at = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(at != MAP_FAILED))
    return;
  world = at;
  (void)snprintf(file, sizeof file, "%s", help_path("test.db"));
  sqlite3 *db = sql_connect(file, 0);
  (void)snprintf(sql, sizeof sql, "PRAGMA journal_mode = %s", journal);
  sql_runs(db, sql);
  sql_runs(db, "CREATE TABLE plain(id INTEGER PRIMARY KEY, n INTEGER);"
               "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2]);"
               "INSERT INTO items VALUES(1000, '[0,0]')");
  for (int key = 0; key < KEYS; key++) {
    (void)snprintf(sql, sizeof sql, "INSERT INTO plain VALUES(%d, 0)", key);
    sql_runs(db, sql);
    (void)snprintf(sql, sizeof sql, "INSERT INTO items VALUES(%d, '[0,7]')",
                   key);
    sql_runs(db, sql);
  }
  (void)sqlite3_close(db);
  for (int i = 0; i < WORKERS; i++)
    pids[i] = start(i, test_random());
  for (unsigned i = 0; i < help_amount(25) || (!is_any_done() && i < 1000);
       i++) {
    int victim = (int)(test_random() % WORKERS);
    (void)usleep((useconds_t)(test_random() % 150000));
    if (test_random() % 4 == 0) {
      (void)kill(pids[victim], SIGSTOP);
      (void)usleep((useconds_t)(test_random() % 50000));
      (void)kill(pids[victim], SIGCONT);
      continue;
    }
    (void)kill(pids[victim], SIGKILL);
    CHECK_EQ_INT(waitpid(pids[victim], &status, 0), pids[victim]);
    CHECK(WIFSIGNALED(status)); /* it had not ended by itself */
    pids[victim] = start(victim, test_random());
    kills++;
  }
  atomic_store(&world->stop, 1);
  for (int i = 0; i < WORKERS; i++) {
    CHECK_EQ_INT(waitpid(pids[i], &status, 0), pids[i]);
    test_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, __FILE__,
               __LINE__, "worker %d ended with status %d", i, status);
  }
  compare();
  (void)munmap(world, sizeof *world);
  printf("counted: %d processes killed beside others\n", kills);
}

TEST(rotation_with_journal) { rotate("DELETE"); }
TEST(rotation_with_log) { rotate("WAL"); }
