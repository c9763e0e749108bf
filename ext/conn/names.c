/* SPDX-License-Identifier: MIT
**
** names.c -- which table object a name means.
**
** emb_get('items', ...) and similar functions are called in training loops, so
** a name is looked up by SQL once and then cached.  SQLite does not say which
** of several table objects is the current one (an old one lives on while a
** statement holds it), but it must ask the current one for a plan.  So the
** lookup prepares a SELECT and notes whose xBestIndex is called.  Invariants:
**   - names is empty after any table object is created or destroyed;
**   - nothing is cached while a transaction with a CREATE, DROP or RENAME
**     of an emb table may still be rolled back.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_conn_split_name(sqlite3 *db, const char *text, char **schema,
                        const char **table) {
  const char *dot = strchr(text, '.');
  *schema = NULL;
  *table = text;
  if (dot == NULL)
    return SQLITE_OK;
  *schema = sqlite3_mprintf("%.*s", (int)(dot - text), text);
  if (*schema == NULL)
    return SQLITE_NOMEM;
  if (sqlite3_db_readonly(db, *schema) < 0) {
    sqlite3_free(*schema);
    *schema = NULL;
  } else {
    *table = dot + 1;
  }
  return SQLITE_OK;
}

/* Asks SQLite which table object a name means now. */
static int name_look_up(struct ext_conn *conn, const char *text,
                        struct ext_table **table, char **err) {
  sqlite3_stmt *statement = NULL;
  const char *name;
  char *schema, *sql;
  int rc = ext_conn_split_name(conn->db, text, &schema, &name);
  if (rc != SQLITE_OK)
    return rc;
  ext_conn_learn_encoding(conn);
  ext_link_close_detached(conn);
  sql = schema ? sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w\"", schema, name)
               : sqlite3_mprintf("SELECT 1 FROM \"%w\"", name);
  if (sql == NULL) {
    rc = SQLITE_NOMEM;
  } else {
    conn->probed = NULL;
    conn->probing = 1;
    rc = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);
    conn->probing = 0;
    *table = conn->probed;
  }
  if (rc != SQLITE_OK)
    rc = ext_sql_error(err, conn->db, rc);
  else if (*table == NULL || sqlite3_stricmp((*table)->name, name) != 0)
    rc = ext_error(err, SQLITE_ERROR, "not an emb table: %s", text);
  sqlite3_finalize(statement);
  sqlite3_free(schema);
  sqlite3_free(sql);
  return rc;
}

/* Is the schema still the same file, and not another one attached under the
** same name? */
static int same_file(struct ext_table *table) {
  return strcmp(ext_place_file(table->conn->db, table->schema), table->file) ==
         0;
}

static void name_remember(struct ext_conn *conn, const char *text,
                          struct ext_table *table) {
  struct ext_name *name;
  if (conn->ddl || (name = sqlite3_malloc64(sizeof *name)) == NULL)
    return;
  name->text = sqlite3_mprintf("%s", text);
  name->table = table;
  name->next = conn->names;
  conn->names = name;
  if (name->text == NULL) {
    conn->names = name->next;
    sqlite3_free(name);
  }
}

int ext_conn_find(struct ext_conn *conn, const char *text,
                  struct ext_table **table, char **err) {
  int rc;
  ext_conn_tidy(conn);
  if (conn->ddl && sqlite3_txn_state(conn->db, NULL) != SQLITE_TXN_WRITE) {
    conn->ddl = 0;
    ext_conn_forget_names(conn);
  }
  for (struct ext_name *name = conn->names; name; name = name->next)
    if (strcmp(name->text, text) == 0 && same_file(name->table)) {
      *table = name->table;
      return SQLITE_OK;
    }
  rc = name_look_up(conn, text, table, err);
  if (rc == SQLITE_OK)
    name_remember(conn, text, *table);
  return rc;
}

/* Visits the table if it is an emb table. */
static int visit_name(struct ext_conn *conn, const char *schema,
                      const char *name,
                      int (*visit)(void *, struct ext_table *, char **),
                      void *arg, char **err) {
  struct ext_table *table;
  char *why = NULL;
  char *full = sqlite3_mprintf("%s.%s", schema, name);
  int rc = full ? ext_conn_find(conn, full, &table, &why) : SQLITE_NOMEM;
  sqlite3_free(full);
  sqlite3_free(why);
  if (rc != SQLITE_OK)
    return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
  return visit(arg, table, err);
}

int ext_conn_each(struct ext_conn *conn, const char *schema,
                  int (*visit)(void *, struct ext_table *, char **), void *arg,
                  char **err) {
  sqlite3_stmt *names = NULL;
  char *sql = sqlite3_mprintf("SELECT name FROM \"%w\".sqlite_schema WHERE "
                              "type = 'table' AND rootpage = 0 AND "
                              "sql LIKE '%%USING%%emb%%' ORDER BY name",
                              schema);
  int rc =
      sql ? sqlite3_prepare_v2(conn->db, sql, -1, &names, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  while (rc == SQLITE_OK && sqlite3_step(names) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(names, 0);
    rc = name ? visit_name(conn, schema, name, visit, arg, err) : SQLITE_NOMEM;
  }
  /* The loop may also have ended because memory ran out. */
  int end = sqlite3_finalize(names);
  return rc == SQLITE_OK ? end : rc;
}
