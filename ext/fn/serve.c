/* SPDX-License-Identifier: MIT
**
** serve.c -- SELECT emb_serve('items'), and the code shared with the
** table-valued emb_serve (tvf/serve.c).
**
**   emb_serve(table, ...)   owns the tables' stores and serves them to other
**                           processes, until it is interrupted
**   emb_serve()             all tables of main
**
** LOCKS     A SELECT without FROM has no transaction, and the tables are read
**           through separate connections (struct ext_serve), which have no
**           transaction open between two checks.  So other connections can
**           commit at any time.
** WAITING   emb_serve waits in short sleeps, and polls the connection's
**           interrupt in them.  Between sleeps it decides transactions that
**           clients have left in doubt, and owns again a table that was dropped
**           and re-created.
** STATES    of a struct ext_serve: zeros; own (ext_serve_open); closed.
*/
#include "fn_state.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <time.h>

/* Sleep while waiting for another process's lock, and while idle. */
#define WAIT_MS 20
#define NAP_MS 100
/* Interval between checks of a transaction in doubt, until it can be
** decided. */
#define DOUBT_US 100000
/* Limit of waits for another process's commit. */
#define COMMIT_WAITS 250

uint64_t ext_serve_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the connection ------------------------------------------------------ */

/* Called while SQLite or the engine works for the separate connection. */
static int serve_progress(void *conn) { return ext_link_interrupted(conn); }

static int serve_busy(void *conn, int waits) {
  if (waits >= COMMIT_WAITS || ext_link_interrupted(conn))
    return 0;
  sqlite3_sleep(WAIT_MS);
  return 1;
}

/* Opens a connection with nothing registered on it but the tables. */
static int serve_connect(struct ext_serve *serve, struct ext_table *table,
                         char **err) {
  int rc;
  sqlite3_free(serve->name);
  serve->name = sqlite3_mprintf("%s", table->name);
  rc = serve->name ? ext_place_connect(table, &serve->db) : SQLITE_NOMEM;
  if (rc != SQLITE_OK)
    return rc == SQLITE_NOMEM || serve->db == NULL
               ? SQLITE_NOMEM
               : ext_sql_error(err, serve->db, rc);
  sqlite3_progress_handler(serve->db, 500, serve_progress, serve->conn);
  sqlite3_busy_handler(serve->db, serve_busy, serve->conn);
  serve->own = ext_conn_ref(serve->db);
  if (serve->own == NULL)
    return SQLITE_NOMEM;
  serve->own->refs++;
  rc = sqlite3_create_module_v2(serve->db, "emb", ext_vtab_module(), serve->own,
                                ext_conn_unref);
  ext_conn_unref(serve->own);
  return rc;
}

/* ---- owning -------------------------------------------------------------- */

static int serve_sleep(const struct ext_serve *serve, int ms, char **err) {
  if (ext_link_interrupted(serve->conn))
    return ext_error(err, SQLITE_INTERRUPT, "interrupted");
  sqlite3_sleep(ms);
  return SQLITE_OK;
}

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

/* *later: SQLITE_OK was returned, but the caller must retry. */
static int serve_own_once(const struct ext_serve *serve, uint64_t start,
                          int *later, char **err) {
  struct ext_table *table;
  emb_err error;
  int rc = ext_table_named(serve->own, serve->name, 0, &table, err);
  if (rc == SQLITE_OK && table->link->readonly)
    rc = ext_error(err, SQLITE_READONLY, "database of %s is read-only",
                   serve->name);
  if (rc != SQLITE_OK)
    return rc;
  rc = try_to_own(table->link, &error);
  *later = (rc == EMB_BUSY || rc == EMB_LOCKED || rc == EMB_LOST) &&
           ext_serve_now_us() - start <
               ext_vtab(table)->options.config.timeout_ms * 1000;
  return rc == EMB_OK || *later
             ? SQLITE_OK
             : ext_store_error(err, rc, error.text, table,
                               emb_directory(table->link->store));
}

static int serve_own(struct ext_serve *serve, char **err) {
  uint64_t start = ext_serve_now_us();
  for (;;) {
    int later = 0;
    ext_call_begin(serve->own);
    int rc = serve_own_once(serve, start, &later, err);
    ext_call_end(serve->own);
    if (rc == SQLITE_OK && later)
      rc = serve_sleep(serve, WAIT_MS, err);
    if (rc != SQLITE_OK || !later)
      return rc;
  }
}

int ext_serve_open(struct ext_serve *serve, struct ext_conn *conn,
                   struct ext_table *table, char **err) {
  emb_assert(!serve->db && !serve->own);
  serve->conn = conn;
  if (!table->file[0])
    return ext_error(err, SQLITE_ERROR,
                     "%s is temporary: no other process can use it",
                     table->name);
  if (sqlite3_db_readonly(conn->db, table->schema) == 1)
    return ext_error(err, SQLITE_READONLY, "database \"%s\" is read-only",
                     table->schema);
  int rc = serve_connect(serve, table, err);
  return rc == SQLITE_OK ? serve_own(serve, err) : rc;
}

void ext_serve_close(struct ext_serve *serve) {
  sqlite3_free(serve->name);
  sqlite3_close(serve->db);
  memset(serve, 0, sizeof *serve);
}

/* ---- keeping ------------------------------------------------------------- */

enum serve_state { SERVED, IN_DOUBT, NOT_SERVED };

/* Another connection of the process that drops the table may close the link,
** but not while this thread holds the mutex. */
static enum serve_state serve_look_at(struct ext_serve *serve) {
  sqlite3_mutex *mutex = sqlite3_db_mutex(serve->db);
  enum serve_state state = NOT_SERVED;
  sqlite3_mutex_enter(mutex);
  struct ext_link *link = serve->own->links;
  emb_client owner = {0};
  emb_err error;
  if (link && !emb_is_dropped(ext_link_store(link)) &&
      emb_is_served(link->store, &error) == EMB_OK) {
    state = emb_in_doubt(ext_link_store(link)) ? IN_DOUBT : SERVED;
    emb_clients(ext_link_store(link), &owner, 1);
    emb_session_progress(link->session, "serve", "calls", owner.calls, 0);
  }
  sqlite3_mutex_leave(mutex);
  return state;
}

int ext_serve_keep(struct ext_serve *serve, int owns_again, char **err) {
  enum serve_state state;
  uint64_t now = ext_serve_now_us();
  struct ext_table *table;
  char *later = NULL;
  int rc = SQLITE_OK;
  emb_check(ext_serve_valid(serve));
  state = serve_look_at(serve);
  if (state == NOT_SERVED && owns_again)
    return serve_own(serve, err);
  if (state == IN_DOUBT && now >= serve->doubt_us) {
    ext_call_begin(serve->own);
    rc = ext_table_named(serve->own, serve->name, 0, &table, &later);
    ext_call_end(serve->own);
    serve->doubt_us = ext_serve_now_us() + DOUBT_US;
    sqlite3_free(later); /* retried later */
  }
  return rc == SQLITE_NOMEM ? rc : SQLITE_OK;
}

int ext_serve_nap(const struct ext_serve *serve, uint64_t us, char **err) {
  return serve_sleep(serve, us < NAP_MS * 1000 ? (int)(us / 1000) + 1 : NAP_MS,
                     err);
}

/* ---- the function -------------------------------------------------------- */

struct serve_list {
  struct ext_conn *conn;
  struct ext_serve *all;
  size_t n;
};

static int serve_add(struct serve_list *list, const char *schema,
                     const char *name) {
  struct ext_serve *all =
      sqlite3_realloc64(list->all, (list->n + 1) * sizeof *all);
  if (all == NULL)
    return SQLITE_NOMEM;
  list->all = all;
  memset(&all[list->n], 0, sizeof *all);
  all[list->n].name = schema ? sqlite3_mprintf("%s.%s", schema, name)
                             : sqlite3_mprintf("%s", name);
  return all[list->n++].name ? SQLITE_OK : SQLITE_NOMEM;
}

/* For ext_conn_each, which runs a reading statement: the tables are opened
** after it. */
static int serve_add_table(void *list, struct ext_table *table, char **err) {
  (void)err;
  return serve_add(list, table->schema, table->name);
}

/* A reading statement keeps other connections from committing, as does a
** transaction begun earlier. */
static int serve_check_locks(const struct ext_conn *conn, char **err) {
  return sqlite3_txn_state(conn->db, NULL) == SQLITE_TXN_NONE
             ? SQLITE_OK
             : ext_error(err, SQLITE_LOCKED,
                         "emb_serve cannot run while this connection reads or "
                         "writes; call it in a SELECT without FROM, outside a "
                         "transaction");
}

static int serve_list_names(struct serve_list *list, int argc,
                            sqlite3_value **argv, char **err) {
  if (argc == 0) {
    int rc = ext_conn_each(list->conn, "main", serve_add_table, list, err);
    return rc == SQLITE_OK && list->n == 0
               ? ext_error(err, SQLITE_ERROR, "main has no emb table to serve")
               : rc;
  }
  for (int i = 0; i < argc; i++) {
    const char *name = (const char *)sqlite3_value_text(argv[i]);
    int rc =
        name ? serve_add(list, NULL, name)
             : ext_error(err, SQLITE_MISMATCH, "table must be a name, got %s",
                         ext_value_type_name(argv[i]));
    if (rc != SQLITE_OK)
      return rc;
  }
  return SQLITE_OK;
}

static int serve_open_all(struct serve_list *list, char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < list->n; i++) {
    struct ext_table *table;
    rc = ext_table_find(list->conn, list->all[i].name, &table, err);
    if (rc == SQLITE_OK)
      rc = ext_serve_open(&list->all[i], list->conn, table, err);
  }
  return rc;
}

static void fn_serve(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct serve_list list = {.conn = ext_fn_conn(context)};
  char *err = NULL;
  int rc = ext_conn_check(list.conn, &err);
  if (rc == SQLITE_OK)
    rc = serve_check_locks(list.conn, &err);
  if (rc == SQLITE_OK)
    rc = serve_list_names(&list, argc, argv, &err);
  if (rc == SQLITE_OK)
    rc = serve_open_all(&list, &err);
  while (rc == SQLITE_OK) {
    for (size_t i = 0; rc == SQLITE_OK && i < list.n; i++)
      rc = ext_serve_keep(&list.all[i], 1, &err);
    if (rc == SQLITE_OK)
      rc = ext_serve_nap(&list.all[0], UINT64_MAX, &err);
  }
  for (size_t i = 0; i < list.n; i++)
    ext_serve_close(&list.all[i]);
  sqlite3_free(list.all);
  ext_result_error(context, rc, err);
}

int ext_fn_serve_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {{"emb_serve", -1, fn_serve}};
  return ext_fn_register(conn, functions, 1);
}
