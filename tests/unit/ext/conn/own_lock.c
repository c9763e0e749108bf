/* SPDX-License-Identifier: MIT
**
** own_lock.c -- DROP TABLE on a connection that keeps its lock of the database
** (PRAGMA locking_mode = EXCLUSIVE) does not wait for that lock.  drop.test
** tests which files are left.
*/
#include "sql_help.h"

static int sleeps;
static int (*system_sleep)(sqlite3_vfs *, int);

static int counted_sleep(sqlite3_vfs *vfs, int us) {
  sleeps++;
  return system_sleep(vfs, us);
}

static void drop_with(const char *journal) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  char file[400], sql[200];
  (void)snprintf(file, sizeof file, "%s/%s.db", test_dir(), journal);
  (void)snprintf(sql, sizeof sql,
                 "PRAGMA journal_mode = %s; PRAGMA locking_mode = EXCLUSIVE;"
                 "CREATE VIRTUAL TABLE v USING emb(vector FLOAT[1]);"
                 "INSERT INTO v VALUES(1, '[1]')",
                 journal);
  sqlite3 *db = sql_connect(file, 0);
  if (!sql_runs(db, sql))
    return;
  system_sleep = vfs->xSleep;
  vfs->xSleep = counted_sleep;
  sleeps = 0;
  (void)sql_runs(db, "DROP TABLE v");
  CHECK_EQ_INT(sleeps, 0);
  vfs->xSleep = system_sleep;
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(with_a_journal) { drop_with("delete"); }
TEST(with_wal) { drop_with("wal"); }
