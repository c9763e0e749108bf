/* SPDX-License-Identifier: MIT
**
** signal.c -- an empty table to which SQLite reports the end of a transaction.
**
** Our CREATE and DROP write to it (orphan.c), which makes it part of the
** transaction.  Its name begins with sqlite_, so no user table can have it.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

struct signal {
  sqlite3_vtab base; /* must be first */
  struct ext_conn *conn;
};

static int signal_connect(sqlite3 *db, void *conn, int argc,
                          const char *const *argv, sqlite3_vtab **out,
                          char **message) {
  struct signal *table;
  int rc = ext_declare_vtab(db, "CREATE TABLE x(none)");
  (void)argc, (void)argv, (void)message;
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  table = rc == SQLITE_OK ? sqlite3_malloc64(sizeof *table) : NULL;
  if (table == NULL)
    return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
  memset(table, 0, sizeof *table);
  table->conn = conn;
  *out = &table->base;
  return SQLITE_OK;
}

static int signal_disconnect(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

static int signal_plan(sqlite3_vtab *table, sqlite3_index_info *info) {
  (void)table, (void)info;
  return SQLITE_OK;
}

static int signal_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  (void)table;
  *out = sqlite3_malloc64(sizeof **out);
  if (*out)
    memset(*out, 0, sizeof **out);
  return *out ? SQLITE_OK : SQLITE_NOMEM;
}

static int signal_close(sqlite3_vtab_cursor *cursor) {
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int signal_filter(sqlite3_vtab_cursor *cursor, int plan,
                         const char *text, int argc, sqlite3_value **argv) {
  (void)cursor, (void)plan, (void)text, (void)argc, (void)argv;
  return SQLITE_OK;
}

static int signal_next(sqlite3_vtab_cursor *cursor) {
  (void)cursor;
  return SQLITE_OK;
}

static int signal_eof(sqlite3_vtab_cursor *cursor) {
  (void)cursor;
  return 1;
}

static int signal_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context,
                         int column) {
  (void)cursor, (void)context, (void)column;
  return SQLITE_OK;
}

static int signal_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  (void)cursor;
  *rowid = 0;
  return SQLITE_OK;
}

static int signal_update(sqlite3_vtab *table, int argc, sqlite3_value **argv,
                         sqlite3_int64 *rowid) {
  (void)table, (void)argc, (void)argv, (void)rowid;
  return SQLITE_READONLY; /* always empty */
}

static int signal_begin(sqlite3_vtab *table) {
  (void)table;
  return SQLITE_OK;
}

static int signal_end(sqlite3_vtab *table) {
  struct ext_conn *conn = ((struct signal *)table)->conn;
  ext_orphan_settle_ended(conn);
  return SQLITE_OK;
}

static const sqlite3_module signal_module = {
    .iVersion = 1,
    .xConnect = signal_connect,
    .xBestIndex = signal_plan,
    .xDisconnect = signal_disconnect,
    .xOpen = signal_open,
    .xClose = signal_close,
    .xFilter = signal_filter,
    .xNext = signal_next,
    .xEof = signal_eof,
    .xColumn = signal_column,
    .xRowid = signal_rowid,
    .xUpdate = signal_update,
    .xBegin = signal_begin,
    .xCommit = signal_end,
    .xRollback = signal_end,
};

int ext_signal_register(struct ext_conn *conn) {
  conn->refs++;
  return sqlite3_create_module_v2(conn->db, EXT_SIGNAL, &signal_module, conn,
                                  ext_conn_unref);
}
