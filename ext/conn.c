/* SPDX-License-Identifier: MIT
**
** conn.c -- the state of one SQLite connection, and names of tables.
**
** LIFE      The entry point makes it; each module and function registered on
**           the connection holds a reference, and SQLite drops these when it
**           has closed the connection's files.  Loading the extension a
**           second time finds the first state in the process-wide list.
** NAMES     emb_get('items', ...) and its sisters are called in training
**           loops, so a name is looked up by SQL once and then remembered.
**           SQLite does not say which of several table objects is the current
**           one (an old one lives on while a statement holds it), but it must
**           ask the current one for a plan: so the lookup prepares a SELECT
**           and sees whose xBestIndex is called.  Invariants:
**             - names is empty after any table object came or went;
**             - nothing is remembered while a transaction with a CREATE, DROP
**               or RENAME of ours in it may still be rolled back.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <unistd.h>

static struct ext_conn *all; /* guarded by list_mutex() */

static sqlite3_mutex *list_mutex(void) {
  return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
}

struct ext_conn *ext_conn_ref(sqlite3 *db, int *fresh) {
  sqlite3_mutex *mutex = list_mutex();
  struct ext_conn *conn;
  sqlite3_mutex_enter(mutex);
  for (conn = all; conn && conn->db != db; conn = conn->next)
    ;
  *fresh = conn == NULL;
  if (conn == NULL && (conn = sqlite3_malloc64(sizeof *conn)) != NULL) {
    memset(conn, 0, sizeof *conn);
    conn->db = db;
    conn->process = getpid();
    conn->next = all;
    all = conn;
  }
  if (conn)
    conn->refs++;
  sqlite3_mutex_leave(mutex);
  return conn;
}

void ext_conn_unref(void *arg) {
  struct ext_conn *conn = arg;
  struct ext_conn **at = &all;
  sqlite3_mutex *mutex = list_mutex();
  sqlite3_mutex_enter(mutex);
  if (--conn->refs > 0) {
    sqlite3_mutex_leave(mutex);
    return;
  }
  while (*at != conn)
    at = &(*at)->next;
  *at = conn->next;
  sqlite3_mutex_leave(mutex);

  conn->closing = 1;
  while (conn->links)
    ext_link_close(conn->links);
  ext_orphan_settle_closed(conn);
  ext_conn_forget_names(conn);
  sqlite3_free(conn);
}

int ext_conn_check(const struct ext_conn *conn, char **err) {
  return conn->process == getpid()
             ? SQLITE_OK
             : ext_error(err, SQLITE_MISUSE,
                         "the connection was opened before fork()");
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

void ext_conn_forget_names(struct ext_conn *conn) {
  while (conn->names) {
    struct ext_name *name = conn->names;
    conn->names = name->next;
    sqlite3_free(name->text);
    sqlite3_free(name);
  }
}

/* Splits "aux.items" when aux is a schema of this connection, for a table
** name may itself hold a dot.  *schema is NULL when there is none. */
static int split_name(sqlite3 *db, const char *text, char **schema,
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
static int look_up(struct ext_conn *conn, const char *text,
                   struct ext_table **table, char **err) {
  sqlite3_stmt *statement = NULL;
  const char *name;
  char *schema, *sql;
  int rc = split_name(conn->db, text, &schema, &name);
  if (rc != SQLITE_OK)
    return rc;
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

/* Whether the schema is still the file that it was, and not one that has
** been attached under the same name. */
static int same_file(struct ext_table *table) {
  return strcmp(ext_place_file(table->conn->db, table->schema), table->file) ==
         0;
}

static void remember(struct ext_conn *conn, const char *text,
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

void ext_conn_tidy_now(struct ext_conn *conn) {
  ext_orphan_settle(conn);
  ext_link_close_detached(conn);
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
  rc = look_up(conn, text, table, err);
  if (rc == SQLITE_OK)
    remember(conn, text, *table);
  return rc;
}
