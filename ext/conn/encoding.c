/* SPDX-License-Identifier: MIT
**
** encoding.c -- the text encoding of a database that was just opened.
**
** SQLite learns the encoding with the schema.  A statement that names no table,
** such as SELECT emb_get('items', ?), is compiled and started without it, and
** permanently marks its constant texts as UTF-8.  If one of our functions is
** the first to read the schema of a UTF-16 database, SQLite takes the same
** bytes for UTF-16 when the statement runs again, and misreads the table name.
** Therefore such statements are recompiled, which SQLite does when a setting of
** the connection has changed.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

/* Toggles a setting that nothing here depends on. */
static void expire_statements(sqlite3 *db) {
  int is;
  if (sqlite3_db_config(db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, -1, &is))
    return;
  sqlite3_db_config(db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, !is, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, is, NULL);
}

void ext_conn_learn_encoding(struct ext_conn *conn) {
  sqlite3_stmt *pragma = NULL;
  int bytes = 0, most;
  if (conn->encoding_known)
    return;
  /* With a schema in memory, statements were compiled with its encoding, and
  ** expire_statements would abort running ones. */
  if (sqlite3_db_status(conn->db, SQLITE_DBSTATUS_SCHEMA_USED, &bytes, &most,
                        0) == SQLITE_OK &&
      bytes > 0) {
    conn->encoding_known = 1;
  } else if (sqlite3_prepare_v2(conn->db, "PRAGMA encoding", -1, &pragma,
                                NULL) == SQLITE_OK &&
             sqlite3_step(pragma) == SQLITE_ROW) {
    const char *encoding = (const char *)sqlite3_column_text(pragma, 0);
    conn->encoding_known = encoding != NULL;
    if (encoding && sqlite3_stricmp(encoding, "UTF-8") != 0)
      expire_statements(conn->db);
  }
  sqlite3_finalize(pragma);
}
