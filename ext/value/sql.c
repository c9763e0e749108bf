/* SPDX-License-Identifier: MIT
**
** sql.c -- runs SQL on a connection; error messages and column texts.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <stdarg.h>
#include <string.h>

int ext_sql_error(char **err, sqlite3 *db, int code) {
  const char *text;
  if (code == SQLITE_OK || code == SQLITE_NOMEM)
    return code;
  /* The message may be ours, from a virtual table callback. */
  text = sqlite3_errmsg(db);
  return ext_error(err, code, "%s",
                   strncmp(text, "emb: ", 5) == 0 ? text + 5 : text);
}

int ext_column_text(sqlite3_stmt *row, int i, const char **text) {
  int is_null = sqlite3_column_type(row, i) == SQLITE_NULL;
  *text = (const char *)sqlite3_column_text(row, i);
  return *text == NULL && !is_null ? SQLITE_NOMEM : SQLITE_OK;
}

int ext_exec(sqlite3 *db, char **err, const char *format, ...) {
  va_list args;
  char *sql;
  int rc;
  va_start(args, format);
  sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (sql == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return ext_sql_error(err, db, rc);
}
