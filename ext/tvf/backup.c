/* SPDX-License-Identifier: MIT
**
** backup.c -- backups in SQL.
**
**     CREATE TABLE emb_backup(
**       "table" TEXT, rows INTEGER, bytes INTEGER, copied INTEGER,
**       mode TEXT, path HIDDEN, schema HIDDEN)
**
** SELECT * FROM emb_backup('copy.db') makes the copy when the query starts; the
** first row, whose table is NULL, describes the database's own file.
**
**     CREATE TABLE emb_backup_check(
**       "table" TEXT, rows INTEGER, bytes INTEGER, problem TEXT, path HIDDEN)
**
** reads a whole backup; problem is 'ok' or the problems, one per line.
*/
#include "tvf.h"
#include "ext/backup/backup.h"
SQLITE_EXTENSION_INIT3

struct backup_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct backup_rows rows;
};

static void backup_tvf_end(struct ext_tvf_cursor *base) {
  ext_backup_free(&((struct backup_cursor *)base)->rows);
}

static const struct backup_row *row_of(struct ext_tvf_cursor *base) {
  return &((struct backup_cursor *)base)->rows.rows[base->at];
}

/* ---- emb_backup ---------------------------------------------------------- */

enum {
  BACKUP_TABLE = 0,
  BACKUP_ROWS,
  BACKUP_BYTES,
  BACKUP_COPIED,
  BACKUP_MODE,
  BACKUP_PATH
};

static int backup_tvf_begin(struct ext_tvf_cursor *base,
                            sqlite3_value **arguments, char **err) {
  struct backup_cursor *cursor = (struct backup_cursor *)base;
  const char *path, *schema = "main";
  int rc = ext_arg_text(arguments[0], "path", &path, err);
  if (rc == SQLITE_OK && arguments[1])
    rc = ext_arg_text(arguments[1], "schema", &schema, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_make(base->conn, schema, path, &cursor->rows, err);
  base->n = rc == SQLITE_OK ? cursor->rows.n : 0;
  return rc;
}

static void backup_tvf_column(struct ext_tvf_cursor *base,
                              sqlite3_context *context, int i) {
  const struct backup_row *row = row_of(base);
  if (i == BACKUP_TABLE && row->table)
    sqlite3_result_text(context, row->table, -1, SQLITE_TRANSIENT);
  else if (i == BACKUP_ROWS && row->table)
    sqlite3_result_int64(context, row->rows);
  else if (i == BACKUP_BYTES)
    sqlite3_result_int64(context, row->bytes);
  else if (i == BACKUP_COPIED)
    sqlite3_result_int64(context, row->copied);
  else if (i == BACKUP_MODE)
    sqlite3_result_text(context, row->incremental ? "incremental" : "full", -1,
                        SQLITE_STATIC);
}

static const struct ext_tvf backup = {
    .name = "emb_backup",
    .declaration =
        "CREATE TABLE x(\"table\" TEXT, rows INTEGER, bytes INTEGER, "
        "copied INTEGER, mode TEXT, path HIDDEN, schema HIDDEN)",
    .argument = BACKUP_PATH,
    .arguments = 2,
    .needed = 1,
    .needs = "a path",
    .cost = 1000000,
    .rows = 10,
    .cursor_size = sizeof(struct backup_cursor),
    .begin = backup_tvf_begin,
    .column = backup_tvf_column,
    .end = backup_tvf_end,
};

/* ---- emb_backup_check ---------------------------------------------------- */

enum { BACKUP_PROBLEM = 3, BACKUP_CHECK_PATH };

static int check_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                       char **err) {
  struct backup_cursor *cursor = (struct backup_cursor *)base;
  const char *path;
  int rc = ext_arg_text(arguments[0], "path", &path, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_check(base->conn, path, &cursor->rows, err);
  base->n = rc == SQLITE_OK ? cursor->rows.n : 0;
  return rc;
}

static void check_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                         int i) {
  const struct backup_row *row = row_of(base);
  if (i == BACKUP_PROBLEM)
    sqlite3_result_text(context, row->problem ? row->problem : "ok", -1,
                        SQLITE_TRANSIENT);
  else
    backup_tvf_column(base, context, i);
}

static const struct ext_tvf tvf_backup_check = {
    .name = "emb_backup_check",
    .declaration = "CREATE TABLE x(\"table\" TEXT, rows INTEGER, "
                   "bytes INTEGER, problem TEXT, path HIDDEN)",
    .argument = BACKUP_CHECK_PATH,
    .arguments = 1,
    .needed = 1,
    .needs = "a path",
    .cost = 1000000,
    .rows = 10,
    .cursor_size = sizeof(struct backup_cursor),
    .begin = check_begin,
    .column = check_column,
    .end = backup_tvf_end,
};

int ext_tvf_backup_register(struct ext_conn *conn) {
  int rc = ext_tvf_register(conn, &backup);
  return rc == SQLITE_OK ? ext_tvf_register(conn, &tvf_backup_check) : rc;
}
