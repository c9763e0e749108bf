/* SPDX-License-Identifier: MIT
**
** amid_commit.c -- what another connection does at the moment when SQLite has
** committed and released its lock, and the store has not been told yet.
**
** The locks of the database's file show the moment: its methods are those of
** the default VFS, except for two that say when the lock needed to write is
** released.  Then a thread runs one statement on its own connection.  The
** commit goes on when that statement has ended, or waits.
**
** MUST HOLD The statement succeeds, and sees the whole commit.
*/
#include "sql_help.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 30, WAL_WRITE_LOCK = 0 };

static const struct {
  const char *sql;
  int64_t value; /* of the first column; NONE: of no interest */
} statements[] = {
#define NONE INT64_MIN
    {"SELECT state = 'ok' AND txn = store_txn FROM emb_tables", 1},
    {"INSERT INTO v(v) VALUES('integrity-check')", NONE},
    {"INSERT INTO v(v) VALUES('checkpoint')", NONE},
    {"INSERT INTO v(v) VALUES('optimize')", NONE},
    {"SELECT count(*) FROM emb_backup('%s')", NONE},
    {"SELECT emb_distance_l2(vector, '[0]') FROM v WHERE key = 1", 2},
    {"SELECT emb_distance_l2(vector, '[0]') FROM v", 2},
    {"SELECT emb_distance_l2(emb_get('v', '[1]'), '[0]')", 2},
    {"SELECT emb_distance_l2(emb_prefetch_synchronize('v', "
     "emb_prefetch('v', '[1]')), '[0]')",
     2},
    {"SELECT distance FROM v WHERE vector MATCH '[0]' AND k = 1", 2},
    {"UPDATE v SET vector = emb_add(vector, '[1]') WHERE key = 1", NONE},
    {"SELECT emb_put('v', '[9]', '[9]')", NONE},
    {"SELECT emb_rmw('v', '[1]', '[1]')", NONE},
    {"SELECT emb_snapshot('v', 's')", NONE},
    {"SELECT emb_delta_begin('v', 'c')", NONE},
    {"SELECT n FROM p", 2},
};
enum { STATEMENTS = sizeof statements / sizeof statements[0] };

static struct moment {
  const sqlite3_io_methods *system;
  sqlite3_io_methods methods;
  int is_armed;
  pthread_t thread;
  char path[500], sql[700];
  int64_t value;
  sqlite3 *db; /* or NULL: the thread opens one */
  _Atomic int ended;
} moment;

/* ---- the moment ---------------------------------------------------------- */

static void *make_statement(void *arg) {
  sqlite3 *db = moment.db ? moment.db : sql_connect(moment.path, 0);
  (void)arg;
  if (moment.value == NONE)
    (void)sql_runs(db, moment.sql);
  else
    CHECK_EQ_INT(sql_integer(db, moment.sql), moment.value);
  if (!moment.db)
    CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  atomic_store(&moment.ended, 1);
  return NULL;
}

static void at_moment(void) {
  if (!moment.is_armed)
    return;
  moment.is_armed = 0;
  if (!CHECK_EQ_INT(pthread_create(&moment.thread, NULL, make_statement, NULL),
                    0))
    return;
  for (int ms = 0; ms < WAIT_MS && !atomic_load(&moment.ended); ms++)
    (void)usleep(1000);
}

static int unlock(sqlite3_file *file, int lock) {
  int rc = moment.system->xUnlock(file, lock);
  at_moment();
  return rc;
}

static int shm_lock(sqlite3_file *file, int first, int n, int flags) {
  int rc = moment.system->xShmLock(file, first, n, flags);
  if (first == WAL_WRITE_LOCK && flags & SQLITE_SHM_UNLOCK)
    at_moment();
  return rc;
}

/* From now on the connection's locks are seen. */
static int observe_locks(sqlite3 *db) {
  sqlite3_file *file = NULL;
  int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER,
                                (void *)&file);
  if (!CHECK(rc == SQLITE_OK && file && file->pMethods))
    return 0;
  moment.system = file->pMethods;
  moment.methods = *file->pMethods;
  moment.methods.xUnlock = unlock;
  moment.methods.xShmLock = shm_lock;
  file->pMethods = &moment.methods;
  return 1;
}

/* ---- one commit ---------------------------------------------------------- */

static void commit(const char *journal, int i, int opens) {
  static int number;
  char sql[300];
  memset(&moment, 0, sizeof moment);
  (void)snprintf(moment.path, sizeof moment.path, "%s/%d.db", test_dir(),
                 ++number);
  (void)snprintf(sql, sizeof sql, "%s/%d-copy.db", test_dir(), number);
  (void)snprintf(moment.sql, sizeof moment.sql, statements[i].sql, sql);
  moment.value = statements[i].value;
  sqlite3 *db = sql_connect(moment.path, 0);
  (void)snprintf(sql, sizeof sql,
                 "PRAGMA journal_mode = %s; PRAGMA synchronous = OFF;"
                 "CREATE VIRTUAL TABLE v USING emb(vector FLOAT[1]);"
                 "CREATE TABLE p(n); INSERT INTO p VALUES(1);"
                 "INSERT INTO v VALUES(1, '[1]')",
                 journal);
  int good = sql_runs(db, sql) && observe_locks(db);
  if (good && !opens) {
    moment.db = sql_connect(moment.path, 0);
    good = sql_runs(moment.db, "SELECT vector FROM v WHERE key = 1");
  }
  good = good && sql_runs(db, "BEGIN; UPDATE p SET n = 2;"
                              "UPDATE v SET vector = '[2]' WHERE key = 1");
  moment.is_armed = good;
  good = good && sql_runs(db, "COMMIT");
  if (CHECK(good && !moment.is_armed))
    CHECK_EQ_INT(pthread_join(moment.thread, NULL), 0);
  if (moment.db)
    CHECK_EQ_INT(sqlite3_close(moment.db), SQLITE_OK);
  if (good) {
    int64_t added = strstr(moment.sql, "emb_add") || strstr(moment.sql, "rmw");
    CHECK_EQ_INT(
        sql_integer(db, "SELECT emb_distance_l2(vector, '[0]') FROM v WHERE "
                        "key = 1"),
        2 + added);
    (void)sql_runs(db, "INSERT INTO v(v) VALUES('integrity-check')");
  }
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static void commits(const char *journal, int opens) {
  for (int i = 0; i < STATEMENTS; i++)
    commit(journal, i, opens);
}

TEST(wal) { commits("WAL", 0); }
TEST(wal_opens) { commits("WAL", 1); }
TEST(delete) { commits("DELETE", 0); }
TEST(delete_opens) { commits("DELETE", 1); }
TEST(persist) { commits("PERSIST", 0); }
