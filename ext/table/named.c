/* SPDX-License-Identifier: MIT
**
** named.c -- looks up a table by name and prepares it for a function.
**
** A function gets only a name, and holds the table that it finds until the call
** ends (conn/call.c).
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

/* Maximum number of lookups of a table when the schema keeps changing. */
#define SCHEMA_ATTEMPTS 10

int ext_table_find(struct ext_conn *conn, const char *text,
                   struct ext_table **table, char **err) {
  int rc = ext_conn_find(conn, text, table, err);
  if (rc == SQLITE_OK)
    ext_table_hold(*table);
  return rc;
}

static int named_make_ready(struct ext_table *table, int writes, char **err) {
  int rc = ext_txn_read(table, err);
  if (rc == SQLITE_OK && writes && table->link->readonly)
    rc = ext_error(err, SQLITE_READONLY, "database \"%s\" is read-only",
                   table->schema);
  if (rc == SQLITE_OK && writes)
    rc = ext_txn_immediate(table, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_begin(table, err);
  return rc;
}

/* The schema has just been read: does the name still refer to this table
** object?  An old object is unchanged while a prepared statement uses it. */
static int named_is_current(struct ext_conn *conn, const char *text,
                            struct ext_table *table) {
  struct ext_table *now = NULL;
  char *err = NULL;
  ext_conn_forget_names(conn);
  int rc = ext_conn_find(conn, text, &now, &err);
  sqlite3_free(err);
  return rc == SQLITE_OK && now == table;
}

int ext_table_named(struct ext_conn *conn, const char *text, int writes,
                    struct ext_table **table, char **err) {
  for (int attempt = 0; attempt < SCHEMA_ATTEMPTS; attempt++) {
    int rc = ext_table_find(conn, text, table, err);
    if (rc != SQLITE_OK)
      return rc;
    int was_open = (*table)->link != NULL;
    rc = named_make_ready(*table, writes, err);
    if (rc != SQLITE_OK)
      ext_link_passed_over(conn); /* do not wait for an owner again below */
    int is_current = was_open || named_is_current(conn, text, *table);
    if (!(*table)->gone && is_current) {
      if (rc != SQLITE_OK) /* else the call continues after its wait */
        ext_link_reported(conn);
      return rc;
    }
    sqlite3_free(*err);
    *err = NULL;
  }
  return ext_error(err, SQLITE_SCHEMA, "the schema keeps changing");
}
