/* SPDX-License-Identifier: MIT
**
** savepoint.c -- the savepoint of a function that writes all or nothing.
**
** Called by the functions that write several tables (data/join/,
** data/pipeline/), which run inside a statement of the user.
**
** INTERRUPT  While that statement is interrupted, SQLite refuses every other
**            one, also ROLLBACK TO, and the savepoint would stay open after it:
**            an open transaction that nobody ends.  But a statement that writes
**            and is interrupted ends the transaction (as an interrupted INSERT
**            of the user does), so one is prepared in advance.  It is BEGIN
**            IMMEDIATE: without an interrupt it fails and changes nothing.
**            The others are prepared in advance, too.  A progress handler may
**            report an interrupt of a statement that has been carried out.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static int savepoint_prepare(struct ext_savepoint *savepoint, const char *verb,
                             const char *name, sqlite3_stmt **statement) {
  char *sql = sqlite3_mprintf("%s%s", verb, name);
  int rc = sql == NULL
               ? SQLITE_NOMEM
               : sqlite3_prepare_v2(savepoint->db, sql, -1, statement, NULL);
  sqlite3_free(sql);
  return rc;
}

static int savepoint_step(sqlite3_stmt *statement) {
  (void)sqlite3_step(statement);
  return sqlite3_reset(statement);
}

static void savepoint_undo(struct ext_savepoint *savepoint) {
  int undo = savepoint_step(savepoint->back);
  int released = savepoint_step(savepoint->release);
  if ((undo || released) && !sqlite3_get_autocommit(savepoint->db))
    (void)savepoint_step(savepoint->refused);
}

static void savepoint_free(struct ext_savepoint *savepoint) {
  sqlite3_finalize(savepoint->back);
  sqlite3_finalize(savepoint->release);
  sqlite3_finalize(savepoint->refused);
  memset(savepoint, 0, sizeof *savepoint);
}

int ext_savepoint_begin(struct ext_savepoint *savepoint, sqlite3 *db,
                        const char *name, char **err) {
  int rc, is_first = sqlite3_get_autocommit(db);
  memset(savepoint, 0, sizeof *savepoint);
  savepoint->db = db;
  rc = savepoint_prepare(savepoint, "BEGIN IMMEDIATE", "", &savepoint->refused);
  if (rc == SQLITE_OK)
    rc = savepoint_prepare(savepoint, "ROLLBACK TO ", name, &savepoint->back);
  if (rc == SQLITE_OK)
    rc = savepoint_prepare(savepoint, "RELEASE ", name, &savepoint->release);
  if (rc != SQLITE_OK)
    rc = ext_sql_error(err, db, rc);
  else
    rc = ext_exec(db, err, "SAVEPOINT %s", name);
  if (rc != SQLITE_OK && is_first && !sqlite3_get_autocommit(db))
    savepoint_undo(savepoint);
  if (rc != SQLITE_OK)
    savepoint_free(savepoint);
  return rc;
}

int ext_savepoint_end(struct ext_savepoint *savepoint, int rc, char **err) {
  sqlite3 *db = savepoint->db;
  if (rc == SQLITE_OK) {
    rc = savepoint_step(savepoint->release);
    if (rc != SQLITE_OK)
      rc = ext_sql_error(err, db, rc);
  }
  /* The first error is reported; SQLite may have rolled back by itself. */
  if (rc != SQLITE_OK && !sqlite3_get_autocommit(db))
    savepoint_undo(savepoint);
  savepoint_free(savepoint);
  return rc;
}
