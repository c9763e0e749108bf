/* SPDX-License-Identifier: MIT
**
** backup_sql.c -- emb_backup() when something fails, when the process is
** killed, and while other threads write.
**
** STATE     Every row of the database, of t and of two emb tables, has one
**           number: 1 in the earlier backup, 2 in the database.  A copy with
**           several numbers is a mixture of two moments.
** RUNS      The n-th call of a kind fails: an allocation of the engine or of
**           SQLite, a call of the env, a call of SQLite's VFS; or the process
**           is killed before it.  Once for a first backup, once for one that
**           brings copy.db up to date.
** AFTER     A failed call leaves nothing (first), or copy.db as it was (again).
**           After a kill copy.db is absent, the old one, or the new one.  Then
**           an undisturbed call makes the new one and removes all leftovers.
** SEED, SHARE  as elsewhere.
*/
#include "fail_help.h"

#include "disk.h"
#include "fork_help.h"
#include "sql_heap.h"
#include "stacks.h"
#include "strike.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

/* ---- failures ------------------------------------------------------------ */

/* Runs before SQLite is used at all. */
__attribute__((constructor)) static void replace_heap(void) {
  sql_heap_replace();
}

/* SQLite's system calls. */
static struct {
  int64_t nth, calls;
  int error, forever, kills, fired;
} vfs;

static int vfs_strikes(void) {
  if (!vfs.nth)
    return 0;
  vfs.calls++;
  stacks_note();
  if (vfs.calls == vfs.nth || (vfs.forever && vfs.calls > vfs.nth)) {
    vfs.fired = 1;
    if (vfs.kills)
      (void)raise(SIGKILL);
    return vfs.error;
  }
  return 0;
}

/* ---- databases ----------------------------------------------------------- */

static char base[300], dir[300];
static struct failing failing;

static const char *in_dir(const char *name) {
  static _Thread_local char paths[4][400];
  static _Thread_local unsigned used;
  char *path = paths[used++ % 4];
  (void)snprintf(path, sizeof paths[0], "%s/%s", dir, name);
  return path;
}

static int open_db_by(const char *path, const char *by, sqlite3 **db) {
  int rc =
      sqlite3_open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, by);
  if (rc == SQLITE_OK)
    rc = sqlite3_emb_init(*db, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_extended_result_codes(*db, 1);
  return rc;
}

static int open_db(const char *path, sqlite3 **db) {
  return open_db_by(path, NULL, db);
}

static int exec(sqlite3 *db, const char *sql) {
  char *message = NULL;
  int rc = sqlite3_exec(db, sql, NULL, NULL, &message);
  test_check(rc == SQLITE_OK, __FILE__, __LINE__, "%.80s gave %d: %s", sql, rc,
             message ? message : "");
  sqlite3_free(message);
  return rc == SQLITE_OK;
}

static int64_t number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int64_t n = -1;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
    n = sqlite3_column_int64(statement, 0);
  test_check(rc == SQLITE_ROW, __FILE__, __LINE__, "%.80s gave %d: %s", sql, rc,
             sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  return n;
}

/* Makes the base: a database at 2 with a backup at 1. */
static int make_base(void) {
  const char *top = test_dir_in("/dev/shm");
  sqlite3 *db = NULL;
  char sql[500];
  if (top == NULL)
    return 0;
  (void)snprintf(base, sizeof base, "%s/base", top);
  (void)snprintf(dir, sizeof dir, "%s/base", top);
  (void)mkdir(base, 0777);
  CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
  int made =
      exec(db, "CREATE TABLE t(x); CREATE VIRTUAL TABLE items USING "
               "emb(vector FLOAT[8], memory='4MB'); CREATE VIRTUAL TABLE users "
               "USING emb(vector FLOAT[8], memory='4MB'); BEGIN; "
               "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL "
               "SELECT i + 1 FROM n WHERE i < 300) SELECT 1 FROM n; "
               "INSERT INTO items SELECT rowid, '[1,0,0,0,0,0,0,0]' FROM t; "
               "INSERT INTO users SELECT rowid, '[1,0,0,0,0,0,0,0]' FROM t; "
               "COMMIT");
  (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM emb_backup('%s')",
                 in_dir("copy.db"));
  made = made && number(db, sql) == 3;
  made =
      made && exec(db, "BEGIN; UPDATE t SET x = 2; "
                       "UPDATE items SET vector = '[2,0,0,0,0,0,0,0]'; "
                       "UPDATE users SET vector = '[2,0,0,0,0,0,0,0]'; COMMIT");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  (void)snprintf(dir, sizeof dir, "%s/run", top);
  return made;
}

/* The target: nothing, an earlier backup, or the remains of a first backup that
** ended between its two renames. */
enum { FIRST, AGAIN, HALF, TARGETS };
static const char *const targets[] = {"first", "again", "after a half"};

static void fresh(int target) {
  fail_remove(dir);
  fail_copy(base, dir);
  if (target == FIRST) {
    (void)unlink(in_dir("copy.db"));
    fail_remove(in_dir("copy.db-emb"));
  } else if (target == HALF) {
    CHECK_EQ_INT(rename(in_dir("copy.db"), in_dir("copy.db-backup-new")), 0);
  }
}

static int back_up(sqlite3 *db, char text[300]) {
  sqlite3_stmt *statement = NULL;
  char sql[500];
  (void)snprintf(sql, sizeof sql, "SELECT \"table\" FROM emb_backup('%s')",
                 in_dir("copy.db"));
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
    rc = SQLITE_OK;
  (void)snprintf(text, 300, "%s", sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static char what[200];
#define SAY(holds_, ...)                                                       \
  ((holds_) ? 1 : test_check(0, __FILE__, __LINE__, __VA_ARGS__))

/* Returns the number that all of copy.db has; -1: several, or damaged. */
static int64_t copy_has(void) {
  sqlite3 *db = NULL, *other = NULL;
  char sql[500];
  int64_t n = -1;
  /* A commit that was cut off is rolled back when the copy is opened. */
  CHECK_EQ_INT(open_db(in_dir("copy.db"), &db), SQLITE_OK);
  (void)number(db, "SELECT count(*) FROM t");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_EQ_INT(open_db(":memory:", &other), SQLITE_OK);
  (void)snprintf(sql, sizeof sql,
                 "SELECT count(*) = 3 AND sum(problem = 'ok') = 3 FROM "
                 "emb_backup_check('%s')",
                 in_dir("copy.db"));
  int good = number(other, sql) == 1;
  SAY(good, "%s: the check is not content", what);
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
  CHECK_EQ_INT(open_db(in_dir("copy.db"), &db), SQLITE_OK);
  if (good && number(db, "SELECT (SELECT count(DISTINCT x) FROM t) = 1 AND "
                         "(SELECT count(*) FROM items WHERE emb_to_json(vector)"
                         " = '[' || (SELECT min(x) FROM t) || "
                         "',0,0,0,0,0,0,0]') = 300 AND (SELECT count(*) FROM "
                         "users WHERE emb_to_json(vector) = '[' || (SELECT "
                         "min(x) FROM t) || ',0,0,0,0,0,0,0]') = 300") == 1)
    n = number(db, "SELECT min(x) FROM t");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return n;
}

static int is_there(const char *name) {
  struct stat st;
  return lstat(in_dir(name), &st) == 0;
}

static int entries(const char *path) {
  DIR *d = opendir(path);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d)) != NULL;)
    n += e->d_name[0] != '.';
  if (d)
    (void)closedir(d);
  return n;
}

/* Nothing is left of a backup except the finished one, if there is one. */
static void check_clean(int finished) {
  int more = is_there("copy.db-backup-new") +
             is_there("copy.db-backup-new-emb") +
             is_there("copy.db-backup-new-journal") +
             is_there("copy.db-backup-new-wal");
  SAY(more == 0, "%s: %d things are left over", what, more);
  SAY(is_there("copy.db") == finished, "%s: copy.db", what);
  SAY(is_there("copy.db-emb") == finished, "%s: copy.db-emb", what);
  SAY(!finished || entries(in_dir("copy.db-emb")) == 2, "%s: %d stores", what,
      entries(in_dir("copy.db-emb")));
}

/* Checks an undisturbed call. */
static void check_next(void) {
  sqlite3 *db = NULL;
  char text[300];
  CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
  int rc = back_up(db, text);
  SAY(rc == SQLITE_OK, "%s: the next one gave %d: %s", what, rc, text);
  SAY(number(db, "SELECT count(*) FROM items") == 300, "%s: items", what);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  if (rc == SQLITE_OK) {
    check_clean(1);
    SAY(copy_has() == 2, "%s: the next one is not the database", what);
  }
}

/* ---- faults -------------------------------------------------------------- */

enum { ENGINE_IO, ENGINE_FULL, ENGINE_MEMORY, SQLITE_MEMORY, SQLITE_FULL_DISK };

static void arm(int kind, int64_t n, int forever) {
  static const uint32_t kinds[] = {FAILING_IO, FAILING_WRITES, FAILING_MEMORY};
  static const int errors[] = {EIO, ENOSPC, ENOMEM};
  if (kind <= ENGINE_MEMORY)
    failing_arm(&failing, kinds[kind], (uint64_t)n, forever, errors[kind]);
  sql_heap_arm(kind == SQLITE_MEMORY ? n : 0, 0);
  memset(&vfs, 0, sizeof vfs);
  vfs.nth = kind == SQLITE_FULL_DISK ? n : 0;
  vfs.error = ENOSPC;
  vfs.forever = forever;
}

static int disarm(void) {
  int fired = failing.fired > 0 || sql_heap_fired() || vfs.fired;
  failing_disarm(&failing);
  sql_heap_disarm();
  vfs.nth = 0;
  return fired;
}

static int code_is_right(int kind, int rc) {
  rc = rc == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : rc & 0xff;
  switch (kind) {
  case ENGINE_MEMORY:
  case SQLITE_MEMORY:
    return rc == SQLITE_NOMEM;
  case ENGINE_FULL:
  case SQLITE_FULL_DISK:
    return rc == SQLITE_FULL || rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN;
  default:
    return rc == SQLITE_IOERR || rc == SQLITE_CANTOPEN || rc == SQLITE_FULL;
  }
}

/* Does one run; returns 1 if the fault fired. */
static int run_fault(int kind, int64_t n, int forever, int target) {
  sqlite3 *db = NULL;
  char text[300];
  int again = target == AGAIN;
  (void)snprintf(what, sizeof what, "kind %d, call %d%s, %s", kind, (int)n,
                 forever ? " and all later" : "", targets[target]);
  (void)snprintf(fail_watched, sizeof fail_watched, "%s", what);
  (void)alarm(120);
  fresh(target);
  CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
  CHECK(number(db, "SELECT count(*) FROM items, users WHERE items.key = 1") >
        0);
  arm(kind, n, forever);
  int rc = back_up(db, text);
  int fired = disarm();
  if (rc != SQLITE_OK) {
    SAY(fired, "%s gave %d without a cause: %s", what, rc, text);
    SAY(code_is_right(kind, rc), "%s gave %d: %s (%s %s)", what, rc, text,
        failing.fired ? failing_name(failing.first) : "", failing.first_path);
    /* A statement may also fail when it returns its rows. */
    if (!forever && target == FIRST)
      check_clean(is_there("copy.db"));
  }
  if (is_there("copy.db")) {
    int64_t has = copy_has();
    SAY(has == 2 || (has == 1 && rc != SQLITE_OK && again),
        "%s gave %d, copy.db has %d: %s", what, rc, (int)has, text);
  } else {
    SAY(rc != SQLITE_OK && !again, "%s gave %d, copy.db is gone", what, rc);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  SAY(failing_out(&failing) == 0, "%s: the engine kept %d things", what,
      (int)failing_out(&failing));
  check_next();
  (void)alarm(0);
  return fired;
}

struct fault {
  int kind, target;
};

static int fail_nth(void *arg, uint64_t n, int forever) {
  const struct fault *fault = arg;
  return run_fault(fault->kind, (int64_t)n, forever, fault->target);
}

static void fail_all(int kind) {
  if (THREAD_SANITIZED)
    SKIP("one thread");
  (void)signal(SIGALRM, fail_alarm);
  failing_init(&failing, &env_posix, test_state.seed);
  env_set_default(&failing.env);
  strike_sqlite(vfs_strikes);
  if (make_base()) {
    /* When memory is short for ever, no backup can be made. */
    unsigned lasting = kind == ENGINE_MEMORY || kind == SQLITE_MEMORY ? 0 : 3;
    for (int target = 0; target < TARGETS; target++) {
      struct fault fault = {kind, target};
      test_count("faults of a backup",
                 stacks_each(targets[target], 4, lasting, fail_nth, &fault));
    }
  }
  fail_remove(dir);
  env_set_default(&env_posix);
  failing_free(&failing);
}

TEST(any_call_of_the_engine_gives_EIO) { fail_all(ENGINE_IO); }
TEST(a_full_disk) { fail_all(ENGINE_FULL); }
TEST(no_memory_for_the_engine) { fail_all(ENGINE_MEMORY); }
TEST(no_memory_for_sqlite) { fail_all(SQLITE_MEMORY); }
TEST(sqlite_finds_the_disk_full) { fail_all(SQLITE_FULL_DISK); }

/* Only what the rows of copy.db-backup-new name belongs to a half backup. */
TEST(a_half_with_something_else_in_it) {
  static const char *const names[] = {"copy.db-emb/notes", "copy.db-emb/.notes",
                                      "copy.db-backup-new-emb"};
  sqlite3 *db = NULL;
  char text[300];
  if (!make_base())
    return;
  for (int i = 0; i < 2; i++) {
    (void)snprintf(what, sizeof what, "with %s", names[i]);
    fresh(HALF);
    CHECK_EQ_INT(mkdir(in_dir(names[i]), 0777), 0);
    int before = entries(in_dir("copy.db-emb"));
    for (int k = 0; k < 2; k++) {
      CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
      CHECK_EQ_INT(back_up(db, text), SQLITE_CANTOPEN);
      SAY(strstr(text, "nothing is overwritten") != NULL, "%s: %s", what, text);
      CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
      SAY(is_there(names[i]) && is_there("copy.db-backup-new"), "%s: gone",
          what);
      SAY(entries(in_dir("copy.db-emb")) == before, "%s: a store is gone",
          what);
    }
    CHECK_EQ_INT(rmdir(in_dir(names[i])), 0);
    check_next();
  }
  (void)snprintf(what, sizeof what, "with %s", names[2]);
  fresh(HALF); /* left by a call that died while removing the half */
  CHECK_EQ_INT(mkdir(in_dir(names[2]), 0777), 0);
  check_next();
  fail_remove(dir);
}

/* ---- kills --------------------------------------------------------------- */

static void child(int64_t n) {
  sqlite3 *db = NULL;
  char text[300];
  struct env *env = strike_engine(vfs_strikes);
  disk_no_threads(env);
  env_set_default(env);
  if (open_db(in_dir("app.db"), &db))
    _exit(2);
  memset(&vfs, 0, sizeof vfs);
  vfs.nth = n;
  vfs.kills = 1;
  _exit(back_up(db, text) == SQLITE_OK ? 0 : 3);
}

TEST(killed_at_every_call) {
  if (THREAD_SANITIZED)
    SKIP("one thread");
  int kills = 0;
  (void)signal(SIGALRM, fail_alarm);
  strike_sqlite(vfs_strikes);
  if (!make_base())
    return;
  for (int target = 0; target < TARGETS; target++) {
    int again = target == AGAIN;
    int64_t step = (int64_t)help_share();
    int killed = 1;
    for (int64_t n = 1 + (int64_t)(test_random() % (uint64_t)step);
         killed && test_state.failures < TEST_PRINT_MAX; n += step) {
      int status = 0;
      (void)snprintf(what, sizeof what, "killed at call %d, %s", (int)n,
                     targets[target]);
      (void)snprintf(fail_watched, sizeof fail_watched, "%s", what);
      (void)alarm(120);
      fresh(target);
      pid_t pid = test_fork();
      if (pid == 0)
        child(n);
      CHECK(waitpid(pid, &status, 0) == pid);
      killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      SAY(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
          "%s: the child ended with %d", what, status);
      if (is_there("copy.db")) {
        int64_t has = copy_has();
        SAY(has == 2 || (again && has == 1), "%s: copy.db has %d", what,
            (int)has);
      } else {
        SAY(!again, "%s: copy.db is gone", what);
      }
      check_next();
      kills += killed;
      (void)alarm(0);
    }
  }
  CHECK(kills > 0);
  test_count("kill points", (uint64_t)kills);
  fail_remove(dir);
}

/* ---- with concurrent threads --------------------------------------------- */

static struct {
  _Atomic int stop;
  _Atomic int commits;
} crowd;

static void *write_rows(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  sqlite3 *db = NULL;
  char sql[600];
  if (open_db(in_dir("app.db"), &db) != SQLITE_OK)
    return NULL;
  (void)sqlite3_busy_timeout(db, 20000);
  while (!atomic_load(&crowd.stop)) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    int key = (int)(random >> 33) % 800 + 1, x = (int)(random >> 40) % 1000;
    (void)snprintf(sql, sizeof sql,
                   "BEGIN IMMEDIATE; INSERT OR REPLACE INTO t(rowid, x) "
                   "VALUES(%d, %d), (%d, %d); INSERT OR REPLACE INTO "
                   "items VALUES(%d, '[%d,0,0,0,0,0,0,0]'), "
                   "(%d, '[%d,0,0,0,0,0,0,0]'); DELETE FROM t WHERE rowid = "
                   "%d; DELETE FROM items WHERE key = %d; COMMIT",
                   key, x, key + 1, x, key, x, key + 1, x, key + 2, key + 2);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
      atomic_fetch_add(&crowd.commits, 1);
    else if (!sqlite3_get_autocommit(db))
      (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

static void *put_rows(void *arg) {
  sqlite3 *db = NULL;
  (void)arg;
  if (open_db(in_dir("app.db"), &db) != SQLITE_OK)
    return NULL;
  (void)sqlite3_busy_timeout(db, 20000);
  while (!atomic_load(&crowd.stop))
    (void)sqlite3_exec(db,
                       "SELECT emb_rmw('users', '[1,2,3,4]', (SELECT vector "
                       "|| vector || vector || vector FROM users WHERE key = "
                       "300))",
                       NULL, NULL, NULL);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

static void *interrupt_it(void *db) {
  struct timespec pause = {0, (long)(test_random() % 8000000)};
  (void)nanosleep(&pause, NULL);
  sqlite3_interrupt(db);
  return NULL;
}

static void check_copy_of_crowd(void) {
  sqlite3 *db = NULL;
  CHECK_EQ_INT(open_db(in_dir("copy.db"), &db), SQLITE_OK);
  SAY(number(db, "SELECT (SELECT count(*) FROM t JOIN items ON key = t.rowid "
                 "WHERE emb_to_json(vector) = '[' || x || ',0,0,0,0,0,0,0]') "
                 "= (SELECT count(*) FROM t) AND (SELECT count(*) FROM t) = "
                 "(SELECT count(*) FROM items)") == 1,
      "%s: rows and vectors differ", what);
  SAY(number(db, "SELECT count(*) FROM users") == 300, "%s: users", what);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static void beside(const char *mode) {
  enum { WRITERS = 3 };
  pthread_t threads[WRITERS + 1];
  sqlite3 *db = NULL;
  char text[300], sql[100];
  int rounds = SANITIZED ? 6 : 25, made = 0;
  fresh(0);
  CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
  (void)snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", mode);
  (void)exec(db, sql);
  (void)sqlite3_busy_timeout(db, 20000);
  atomic_store(&crowd.stop, 0);
  atomic_store(&crowd.commits, 0);
  for (uintptr_t i = 0; i < WRITERS; i++)
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, write_rows,
                                (void *)(test_random() + i)),
                 0);
  CHECK_EQ_INT(pthread_create(&threads[WRITERS], NULL, put_rows, NULL), 0);
  for (int i = 0; i < rounds && test_state.failures < TEST_PRINT_MAX; i++) {
    pthread_t stopper;
    int stops = i % 3 == 2;
    (void)snprintf(what, sizeof what, "%s, round %d", mode, i);
    if (i % 5 == 0) {
      (void)unlink(in_dir("copy.db"));
      fail_remove(in_dir("copy.db-emb"));
    }
    int there = is_there("copy.db");
    if (stops)
      stops = pthread_create(&stopper, NULL, interrupt_it, db) == 0;
    int rc = back_up(db, text);
    if (stops)
      (void)pthread_join(stopper, NULL);
    SAY(rc == SQLITE_OK || (stops && rc == SQLITE_INTERRUPT), "%s gave %d: %s",
        what, rc, text);
    /* The call may be interrupted after the copy is made, before its rows. */
    int is_made = rc == SQLITE_OK || there || is_there("copy.db");
    check_clean(is_made);
    if (is_made)
      check_copy_of_crowd();
    made += rc == SQLITE_OK;
  }
  atomic_store(&crowd.stop, 1);
  for (int i = 0; i <= WRITERS; i++)
    (void)pthread_join(threads[i], NULL);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK(atomic_load(&crowd.commits) > 0);
  printf("%s: %d backups beside %d commits\n", mode, made,
         atomic_load(&crowd.commits));
  test_count("backups beside writers", (uint64_t)made);
}

TEST(beside_threads_that_write) {
  if (make_base()) {
    beside("WAL");
    beside("DELETE");
  }
  fail_remove(dir);
}

/* Two backups to one target at the same time. */
struct made {
  int rc;
  char text[300];
};

static void *back_up_in_thread(void *arg) {
  sqlite3 *db = NULL;
  struct made *made = arg;
  CHECK_EQ_INT(open_db(in_dir("app.db"), &db), SQLITE_OK);
  (void)sqlite3_busy_timeout(db, 20000);
  made->rc = back_up(db, made->text);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

TEST(two_at_once_to_one_place) {
  if (!make_base())
    return;
  for (int i = 0; i < 10; i++) {
    pthread_t threads[2];
    struct made made[2] = {{-1, ""}, {-1, ""}};
    (void)snprintf(what, sizeof what, "two at once, round %d", i);
    fresh(i & 1);
    for (int k = 0; k < 2; k++)
      CHECK_EQ_INT(
          pthread_create(&threads[k], NULL, back_up_in_thread, &made[k]), 0);
    for (int k = 0; k < 2; k++)
      (void)pthread_join(threads[k], NULL);
    SAY(made[0].rc == SQLITE_OK || made[1].rc == SQLITE_OK,
        "%s gave %d and %d: %s; %s", what, made[0].rc, made[1].rc, made[0].text,
        made[1].text);
    check_clean(1);
    SAY(copy_has() == 2, "%s: the copy is not the database", what);
  }
  fail_remove(dir);
}

/* Makes a thread wait before it opens the lock file.  By then it must not have
** looked at anything that another backup may still replace. */
static int slow_open(sqlite3_vfs *self, const char *name, sqlite3_file *file,
                     int flags, int *out) {
  if (name && strstr(name, "-backup-new"))
    (void)usleep((useconds_t)(test_random() % 20000));
  return sqlite3_vfs_find("unix")->xOpen(self, name, file, flags, out);
}

static void *back_up_slowly(void *arg) {
  sqlite3 *db = NULL;
  struct made *made = arg;
  CHECK_EQ_INT(open_db_by(in_dir("app.db"), "slow", &db), SQLITE_OK);
  (void)sqlite3_busy_timeout(db, 20000);
  made->rc = back_up(db, made->text);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  return NULL;
}

TEST(one_is_slow_to_lock) {
  sqlite3_vfs slow = *sqlite3_vfs_find("unix");
  slow.zName = "slow";
  slow.xOpen = slow_open;
  CHECK_EQ_INT(sqlite3_vfs_register(&slow, 0), SQLITE_OK);
  if (!make_base())
    return;
  for (int i = 0; i < 10; i++) {
    pthread_t threads[2];
    struct made made[2] = {{-1, ""}, {-1, ""}};
    (void)snprintf(what, sizeof what, "one is slow, round %d", i);
    fresh(AGAIN);
    CHECK_EQ_INT(pthread_create(&threads[0], NULL, back_up_in_thread, &made[0]),
                 0);
    CHECK_EQ_INT(pthread_create(&threads[1], NULL, back_up_slowly, &made[1]),
                 0);
    for (int k = 0; k < 2; k++)
      (void)pthread_join(threads[k], NULL);
    check_clean(1);
    SAY(copy_has() == 2, "%s: the copy is not the database (%d: %s; %d: %s)",
        what, made[0].rc, made[0].text, made[1].rc, made[1].text);
  }
  CHECK_EQ_INT(sqlite3_vfs_unregister(&slow), SQLITE_OK);
  fail_remove(dir);
}
