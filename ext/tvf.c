/* SPDX-License-Identifier: MIT
**
** tvf.c -- what the table-valued functions (tvf_*.c) have in common: an object
** that knows its connection, may not stand in the schema, and owns nothing.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_tvf_connect(sqlite3 *db, struct ext_conn *conn, const char *declaration,
                    sqlite3_vtab **out) {
  struct ext_tvf *tvf;
  int rc = sqlite3_declare_vtab(db, declaration);
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  if (rc != SQLITE_OK)
    return rc;
  tvf = sqlite3_malloc64(sizeof *tvf);
  if (tvf == NULL)
    return SQLITE_NOMEM;
  memset(tvf, 0, sizeof *tvf);
  tvf->conn = conn;
  *out = &tvf->base;
  return SQLITE_OK;
}

int ext_tvf_disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}
