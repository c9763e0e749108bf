/* SPDX-License-Identifier: MIT
**
** named.c -- the table of a name, ready to be used by a function.
**
** A function or a table-valued one holds no table as a statement does: when
** SQLite finds in a call that the schema has changed, it disconnects all
** tables.  One that is held here stays in memory until it is released.
*/
#include "table.h"
SQLITE_EXTENSION_INIT3

/* Times that a table is looked up again because the schema changed. */
#define SCHEMA_ATTEMPTS 10

void ext_table_hold(struct ext_table *table) {
  table->conn->in_use = table;
  table->conn->in_use_gone = 0;
}

int ext_table_let_go(struct ext_table *table) {
  int gone = table->conn->in_use_gone;
  table->conn->in_use = NULL;
  if (gone)
    ext_table_free_gone(table);
  return gone;
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
    int rc = ext_conn_find(conn, text, table, err);
    if (rc != SQLITE_OK)
      return rc;
    int was_open = (*table)->link != NULL;
    ext_table_hold(*table);
    rc = named_make_ready(*table, writes, err);
    if (rc != SQLITE_OK)
      ext_link_passed_over(conn); /* what follows waits for no owner again */
    int is_current = was_open || named_is_current(conn, text, *table);
    if (!ext_table_let_go(*table) && is_current) {
      ext_link_reported(conn);
      return rc;
    }
    sqlite3_free(*err);
    *err = NULL;
  }
  return ext_error(err, SQLITE_SCHEMA, "the schema changes all the time");
}
