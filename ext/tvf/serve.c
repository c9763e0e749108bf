/* SPDX-License-Identifier: MIT
**
** serve.c -- SELECT * FROM emb_serve('app.items', 10).
**
**     CREATE TABLE emb_serve(
**       time INTEGER, seconds REAL, clients INTEGER, calls INTEGER,
**       rows INTEGER, state TEXT,
**       "table" HIDDEN, every HIDDEN, times HIDDEN)
**
** Owns the table's store and serves it to other processes, until the statement
** is interrupted or has returned `times` rows: the first at once, then one
** every `every` seconds; a text may have a unit, '1 min'.
**
** LOCKS     While a statement with any table in it runs, SQLite holds a read
**           lock on `main`, and also on every database it then reads.  With
**           that lock nobody could commit; or, in WAL mode, the WAL would grow
**           without bound.  So the table must be in a database other than main,
**           and is read through a separate connection (fn/serve.c).  The
**           function without FROM holds no such lock.
** STATES    own -> row -> wait -> row -> wait ... -> interrupted, or done
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <time.h>

enum {
  SERVE_TIME = 0,
  SERVE_SECONDS,
  SERVE_CLIENTS,
  SERVE_CALLS,
  SERVE_ROWS,
  SERVE_STATE,
  SERVE_TABLE,
  SERVE_EVERY,
  SERVE_TIMES
};

struct serve_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct ext_serve serve;
  int is_open;
  uint64_t every_us, began_us, due_us;
  sqlite3_int64 left; /* rows; negative: no limit */
  sqlite3_int64 time, clients, calls, calls_before, rows;
  const char *state;
};

/* ---- the rows ------------------------------------------------------------ */

/* Seconds, or a text like '1 min'; 0: it is neither. */
static int serve_seconds(sqlite3_value *value, double *seconds) {
  const char *text;
  uint64_t us = 0;
  int type = sqlite3_value_numeric_type(value);
  *seconds = sqlite3_value_double(value);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT)
    return 1;
  text = type == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  if (text == NULL || !unit_time(&text, 1000000, &us) || *text)
    return 0;
  *seconds = (double)us / 1e6;
  return 1;
}

static int serve_every(sqlite3_value *value, uint64_t *every_us, char **err) {
  double seconds = 10;
  int is = value == NULL || serve_seconds(value, &seconds);
  if (!is || !(seconds >= 0.1 && seconds <= 1e9))
    return ext_error(err, SQLITE_ERROR,
                     "emb_serve's second argument must be a number of seconds, "
                     "at least 0.1, or a time like '1 min'");
  *every_us = (uint64_t)(seconds * 1e6);
  return SQLITE_OK;
}

static int serve_times(sqlite3_value *value, sqlite3_int64 *left, char **err) {
  *left = -1;
  if (value == NULL)
    return SQLITE_OK;
  *left = sqlite3_value_int64(value);
  return sqlite3_value_type(value) == SQLITE_INTEGER && *left > 0
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "emb_serve's third argument is a number of rows, at "
                         "least 1");
}

/* NULL means the default. */
static sqlite3_value *null_if_default(sqlite3_value *value) {
  return value && sqlite3_value_type(value) != SQLITE_NULL ? value : NULL;
}

/* See LOCKS. */
static int serve_check(struct serve_cursor *cursor, struct ext_table *table,
                       char **err) {
  sqlite3 *db = cursor->base.conn->db;
  if (!table->file[0])
    return SQLITE_OK; /* ext_serve_open reports the error */
  if (strcmp(ext_place_file(db, "main"), table->file) == 0)
    return ext_error(err, SQLITE_LOCKED,
                     "emb_serve in FROM holds a read lock on main: SELECT "
                     "emb_serve('%s') does not",
                     table->name);
  if (sqlite3_txn_state(db, table->schema) != SQLITE_TXN_NONE)
    return ext_error(err, SQLITE_LOCKED,
                     "emb_serve cannot run while this connection reads or "
                     "writes \"%s\"",
                     table->schema);
  return SQLITE_OK;
}

static int serve_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                       char **err) {
  struct serve_cursor *cursor = (struct serve_cursor *)base;
  const char *name = (const char *)sqlite3_value_text(arguments[0]);
  struct ext_table *table;
  int rc;
  if (name == NULL)
    return SQLITE_OK; /* and `more` returns no rows */
  rc = serve_every(null_if_default(arguments[1]), &cursor->every_us, err);
  if (rc == SQLITE_OK)
    rc = serve_times(null_if_default(arguments[2]), &cursor->left, err);
  if (rc == SQLITE_OK)
    rc = ext_conn_check(base->conn, err);
  if (rc == SQLITE_OK)
    rc = ext_table_find(base->conn, name, &table, err);
  if (rc == SQLITE_OK)
    rc = serve_check(cursor, table, err);
  if (rc == SQLITE_OK)
    rc = ext_serve_open(&cursor->serve, base->conn, table, err);
  cursor->is_open = rc == SQLITE_OK;
  cursor->began_us = cursor->due_us = ext_serve_now_us();
  return rc;
}

/* While other connections keep the database busy, the previous row is shown
** again. */
static int serve_look_now(struct serve_cursor *cursor, char **err) {
  struct ext_table *table;
  emb_client owner = {0};
  emb_err error;
  cursor->time = (sqlite3_int64)time(NULL);
  cursor->calls = 0;
  int rc =
      ext_table_named(cursor->serve.own, cursor->serve.name, 0, &table, err);
  if (rc == SQLITE_BUSY) {
    sqlite3_free(*err);
    *err = NULL;
    cursor->state = "busy";
    return SQLITE_OK;
  }
  if (rc != SQLITE_OK)
    return rc;
  emb_store *store = table->link->store;
  rc = emb_is_served(store, &error);
  if (rc)
    return ext_store_error(err, rc, error.text, table, emb_directory(store));
  size_t n = emb_clients(ext_link_store(table->link), &owner, 1);
  sqlite3_int64 calls = (sqlite3_int64)owner.calls;
  cursor->clients = n ? (sqlite3_int64)n - 1 : 0;
  cursor->calls = calls - cursor->calls_before;
  cursor->calls_before = calls;
  cursor->state = emb_in_doubt(ext_link_store(table->link)) ? "in doubt" : "ok";
  return ext_link_count_now(table->link, &cursor->rows, err);
}

static int serve_look(struct serve_cursor *cursor, char **err) {
  ext_call_begin(cursor->serve.own);
  int rc = serve_look_now(cursor, err);
  ext_call_end(cursor->serve.own);
  return rc;
}

static int serve_more(struct ext_tvf_cursor *base, char **err) {
  struct serve_cursor *cursor = (struct serve_cursor *)base;
  uint64_t now = ext_serve_now_us();
  int rc = SQLITE_OK;
  if (!cursor->is_open || cursor->left == 0)
    return SQLITE_OK;
  while (rc == SQLITE_OK && now < cursor->due_us) {
    rc = ext_serve_keep(&cursor->serve, 0, err);
    if (rc == SQLITE_OK)
      rc = ext_serve_nap(&cursor->serve, cursor->due_us - now, err);
    now = ext_serve_now_us();
  }
  if (rc == SQLITE_OK)
    rc = serve_look(cursor, err);
  if (rc != SQLITE_OK)
    return rc;
  cursor->due_us += cursor->every_us;
  cursor->left -= cursor->left > 0;
  base->n = 1;
  return SQLITE_OK;
}

static void serve_end(struct ext_tvf_cursor *base) {
  struct serve_cursor *cursor = (struct serve_cursor *)base;
  ext_serve_close(&cursor->serve);
  memset((char *)cursor + sizeof *base, 0, sizeof *cursor - sizeof *base);
}

static void serve_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                         int i) {
  const struct serve_cursor *cursor = (struct serve_cursor *)base;
  if (i == SERVE_TIME)
    sqlite3_result_int64(context, cursor->time);
  else if (i == SERVE_SECONDS)
    sqlite3_result_double(
        context, (double)(ext_serve_now_us() - cursor->began_us) / 1e6);
  else if (i == SERVE_CLIENTS)
    sqlite3_result_int64(context, cursor->clients);
  else if (i == SERVE_CALLS)
    sqlite3_result_int64(context, cursor->calls);
  else if (i == SERVE_ROWS)
    sqlite3_result_int64(context, cursor->rows);
  else if (i == SERVE_STATE)
    sqlite3_result_text(context, cursor->state, -1, SQLITE_STATIC);
}

static const struct ext_tvf serve_tvf = {
    .name = "emb_serve",
    .declaration = "CREATE TABLE x(time INTEGER, seconds REAL, "
                   "clients INTEGER, calls INTEGER, rows INTEGER, state TEXT, "
                   "\"table\" HIDDEN, every HIDDEN, times HIDDEN)",
    .argument = SERVE_TABLE,
    .arguments = 3,
    .needed = 1,
    .needs = "a table name",
    .cost = 1e9,
    .rows = 1000000,
    .cursor_size = sizeof(struct serve_cursor),
    .begin = serve_begin,
    .more = serve_more,
    .column = serve_column,
    .end = serve_end,
};

int ext_tvf_serve_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &serve_tvf);
}
