/* SPDX-License-Identifier: MIT
**
** named.c -- the table of a name, ready to be used by a function.
**
** A function is only given a name, and holds the table that it finds until the
** call ends (conn/call.c).
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

/* Times that a table is looked up again because the schema changed. */
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

/* The schema has just been looked at: is this the table that it means?  An old
** one stays as it is while a prepared statement has it. */
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
      ext_link_passed_over(conn); /* what follows waits for no owner again */
    int is_current = was_open || named_is_current(conn, text, *table);
    if (!(*table)->gone && is_current) {
      if (rc != SQLITE_OK) /* else the call has waited, and goes on */
        ext_link_reported(conn);
      return rc;
    }
    sqlite3_free(*err);
    *err = NULL;
  }
  return ext_error(err, SQLITE_SCHEMA, "the schema keeps changing");
}
