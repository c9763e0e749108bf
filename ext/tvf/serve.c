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
** is interrupted or has given so many rows: the first at once, then one every
** so many seconds.
**
** LOCKS     SQLite holds a read lock on `main` while a statement runs that has
**           any table in it, and then also on what is read meanwhile.  With it
**           nobody could commit, or with a log, that would grow without end. So
**           the table has to be in another database than main, and all that is
**           read here is read through a connection of its own, which is in no
**           transaction between two looks.
** WAITING   In short sleeps, in which the connection's interrupt is polled;
**           what a client has left in doubt is decided within them.
** STATES    own -> row -> wait -> row -> wait ... -> interrupted, or at the end
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

#define NAP_MS 20
/* What is in doubt is looked at so often until it can be decided. */
#define DOUBT_US 100000
/* How long another process's commit is waited for. */
#define COMMIT_NAPS 250

struct serve_cursor {
  struct ext_tvf_cursor base; /* must be first */
  sqlite3 *db;                /* its own connection */
  struct ext_conn *own;       /* and what belongs to that */
  char *name;                 /* of the table there */
  uint64_t every_us, began_us, due_us, doubt_us;
  sqlite3_int64 left; /* rows; below 0: no end */
  sqlite3_int64 time, clients, calls, calls_before, rows;
  const char *state;
};

static uint64_t serve_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the connection ------------------------------------------------------ */

/* While SQLite works, or the engine, for the connection of its own. */
static int serve_progress(void *conn) { return ext_link_interrupted(conn); }

static int serve_busy(void *conn, int naps) {
  if (naps >= COMMIT_NAPS || ext_link_interrupted(conn))
    return 0;
  sqlite3_sleep(NAP_MS);
  return 1;
}

/* A connection with nothing in it but the tables. */
static int serve_connect(struct serve_cursor *cursor, struct ext_table *table,
                         char **err) {
  struct ext_conn *conn = cursor->base.conn;
  int fresh, rc;
  cursor->name = sqlite3_mprintf("%s", table->name);
  rc = cursor->name ? ext_place_connect(table, &cursor->db) : SQLITE_NOMEM;
  if (rc != SQLITE_OK)
    return rc == SQLITE_NOMEM || cursor->db == NULL
               ? SQLITE_NOMEM
               : ext_sql_error(err, cursor->db, rc);
  sqlite3_progress_handler(cursor->db, 500, serve_progress, conn);
  sqlite3_busy_handler(cursor->db, serve_busy, conn);
  cursor->own = ext_conn_ref(cursor->db, &fresh);
  if (cursor->own == NULL)
    return SQLITE_NOMEM;
  cursor->own->refs++;
  rc = sqlite3_create_module_v2(cursor->db, "emb", ext_vtab_module(),
                                cursor->own, ext_conn_unref);
  ext_conn_unref(cursor->own);
  return rc;
}

/* ---- waiting ------------------------------------------------------------- */

static int serve_nap(struct serve_cursor *cursor, char **err) {
  if (ext_link_interrupted(cursor->base.conn))
    return ext_error(err, SQLITE_INTERRUPT, "interrupted");
  sqlite3_sleep(NAP_MS);
  return SQLITE_OK;
}

/* Another connection of the process that drops the table may close the link
** meanwhile, but not while it has the mutex. */
static int is_in_doubt(struct serve_cursor *cursor) {
  sqlite3_mutex *mutex = sqlite3_db_mutex(cursor->db);
  sqlite3_mutex_enter(mutex);
  struct ext_link *link = cursor->own->links;
  int is = link && emb_in_doubt(link->store) != 0;
  sqlite3_mutex_leave(mutex);
  return is;
}

/* What fits into the time of a nap is done there. */
static int serve_decide(struct serve_cursor *cursor) {
  uint64_t now = serve_now_us();
  struct ext_table *table;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (now >= cursor->doubt_us && is_in_doubt(cursor)) {
    rc = ext_table_named(cursor->own, cursor->name, 0, &table, &err);
    cursor->doubt_us = serve_now_us() + DOUBT_US;
    sqlite3_free(err); /* it will be tried again */
  }
  return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

/* ---- owning -------------------------------------------------------------- */

/* EMB_OK: this process serves the store.  EMB_BUSY, EMB_LOCKED, EMB_LOST: not
** yet. */
static int try_to_own(struct ext_link *link, emb_err *error) {
  int rc = emb_own(link->session);
  if (rc) {
    error->code = rc;
    sqlite3_snprintf(sizeof error->text, error->text, "%s",
                     emb_errmsg(link->session));
    return rc;
  }
  return emb_is_served(link->store, error);
}

static int serve_own(struct serve_cursor *cursor, char **err) {
  uint64_t start = serve_now_us();
  for (;;) {
    struct ext_table *table;
    emb_err error;
    int rc = ext_table_named(cursor->own, cursor->name, 0, &table, err);
    if (rc == SQLITE_OK && table->link->readonly)
      rc = ext_error(err, SQLITE_READONLY, "database of %s is read-only",
                     cursor->name);
    if (rc != SQLITE_OK)
      return rc;
    rc = try_to_own(table->link, &error);
    if (rc == EMB_OK)
      return SQLITE_OK;
    if ((rc != EMB_BUSY && rc != EMB_LOCKED && rc != EMB_LOST) ||
        serve_now_us() - start >=
            ext_vtab(table)->options.config.timeout_ms * 1000)
      return ext_store_error(err, rc, error.text, table,
                             emb_directory(table->link->store));
    rc = serve_nap(cursor, err);
    if (rc != SQLITE_OK)
      return rc;
  }
}

/* ---- the rows ------------------------------------------------------------ */

static int serve_every(sqlite3_value *value, uint64_t *every_us, char **err) {
  double seconds = value ? sqlite3_value_double(value) : 10;
  *every_us = (uint64_t)(seconds * 1e6);
  return seconds >= 0.1 && seconds <= 1e9
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "emb_serve's second argument is seconds, at least "
                         "0.1");
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

/* NULL stands for the default. */
static sqlite3_value *given(sqlite3_value *value) {
  return value && sqlite3_value_type(value) != SQLITE_NULL ? value : NULL;
}

/* See LOCKS. */
static int serve_check(struct serve_cursor *cursor, struct ext_table *table,
                       char **err) {
  sqlite3 *db = cursor->base.conn->db;
  if (!table->file[0])
    return ext_error(err, SQLITE_ERROR,
                     "%s is temporary: no other process can use it",
                     table->name);
  if (sqlite3_db_readonly(db, table->schema) == 1)
    return ext_error(err, SQLITE_READONLY, "database \"%s\" is read-only",
                     table->schema);
  if (strcmp(ext_place_file(db, "main"), table->file) == 0)
    return ext_error(err, SQLITE_LOCKED,
                     "emb_serve holds a read lock on main: begin with another "
                     "database, as :memory:, ATTACH this one AS app, and serve "
                     "app.%s",
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
    return SQLITE_OK; /* and `more` finds none */
  rc = serve_every(given(arguments[1]), &cursor->every_us, err);
  if (rc == SQLITE_OK)
    rc = serve_times(given(arguments[2]), &cursor->left, err);
  if (rc == SQLITE_OK)
    rc = ext_conn_check(base->conn, err);
  if (rc == SQLITE_OK)
    rc = ext_conn_find(base->conn, name, &table, err);
  if (rc == SQLITE_OK)
    rc = serve_check(cursor, table, err);
  if (rc == SQLITE_OK)
    rc = serve_connect(cursor, table, err);
  if (rc == SQLITE_OK)
    rc = serve_own(cursor, err);
  cursor->began_us = cursor->due_us = serve_now_us();
  return rc;
}

/* While others commit all the time, the row before is shown once more. */
static int serve_look(struct serve_cursor *cursor, char **err) {
  struct ext_table *table;
  emb_client owner = {0};
  emb_err error;
  cursor->time = (sqlite3_int64)time(NULL);
  cursor->calls = 0;
  int rc = ext_table_named(cursor->own, cursor->name, 0, &table, err);
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
  size_t n = emb_clients(store, &owner, 1);
  sqlite3_int64 calls = (sqlite3_int64)owner.calls;
  cursor->clients = n ? (sqlite3_int64)n - 1 : 0;
  cursor->calls = calls - cursor->calls_before;
  cursor->calls_before = calls;
  cursor->rows = emb_count(table->link->session);
  cursor->state = emb_in_doubt(store) ? "in doubt" : "ok";
  return SQLITE_OK;
}

static int serve_more(struct ext_tvf_cursor *base, char **err) {
  struct serve_cursor *cursor = (struct serve_cursor *)base;
  int rc = SQLITE_OK;
  if (cursor->db == NULL || cursor->left == 0)
    return SQLITE_OK;
  while (rc == SQLITE_OK && serve_now_us() < cursor->due_us) {
    rc = serve_decide(cursor);
    if (rc == SQLITE_OK)
      rc = serve_nap(cursor, err);
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
  sqlite3_free(cursor->name);
  sqlite3_close(cursor->db);
  memset((char *)cursor + sizeof *base, 0, sizeof *cursor - sizeof *base);
}

static void serve_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                         int i) {
  const struct serve_cursor *cursor = (struct serve_cursor *)base;
  if (i == SERVE_TIME)
    sqlite3_result_int64(context, cursor->time);
  else if (i == SERVE_SECONDS)
    sqlite3_result_double(context,
                          (double)(serve_now_us() - cursor->began_us) / 1e6);
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
