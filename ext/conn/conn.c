/* SPDX-License-Identifier: MIT
**
** conn.c -- the connections of the process.
**
** LIFE      The entry point creates the state of a connection.  Each module and
**           function registered on the connection holds a reference, and SQLite
**           drops these after it has closed the connection's files.  Loading
**           the extension a second time finds the existing state in the
**           process-wide list.
** THREADS   A mutex guards the list; the rest of a connection belongs to
**           whichever thread SQLite admits.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <unistd.h>

static struct ext_conn *all; /* guarded by list_mutex() */

static sqlite3_mutex *list_mutex(void) {
  return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
}

struct ext_conn *ext_conn_ref(sqlite3 *db) {
  sqlite3_mutex *mutex = list_mutex();
  struct ext_conn *conn;
  sqlite3_mutex_enter(mutex);
  for (conn = all; conn && conn->db != db; conn = conn->next)
    ;
  if (conn == NULL && (conn = sqlite3_malloc64(sizeof *conn)) != NULL) {
    memset(conn, 0, sizeof *conn);
    conn->db = db;
    conn->process = getpid();
    conn->patience.interrupt = ext_link_interrupted;
    conn->patience.interrupt_arg = conn;
    conn->next = all;
    all = conn;
  }
  if (conn)
    conn->refs++;
  sqlite3_mutex_leave(mutex);
  return conn;
}

/* Drops a reference.  If it was the last, removes the connection from the list
** and returns 1. */
int ext_conn_leave(struct ext_conn *conn) {
  struct ext_conn **at = &all;
  sqlite3_mutex *mutex = list_mutex();
  int is_last;
  sqlite3_mutex_enter(mutex);
  emb_assert(conn->refs > 0 && !conn->closing);
  is_last = --conn->refs == 0;
  if (is_last) {
    while (*at != conn)
      at = &(*at)->next;
    *at = conn->next;
  }
  sqlite3_mutex_leave(mutex);
  return is_last;
}

/* A free mutex means that no other thread is in a call on the connection.  A
** connection without a mutex (SQLITE_OPEN_NOMUTEX) must close its own links.  A
** running statement may be further up on this very stack. */
static int conn_is_running(sqlite3 *db) {
  sqlite3_stmt *statement = NULL;
  while ((statement = sqlite3_next_stmt(db, statement)) != NULL)
    if (sqlite3_stmt_busy(statement))
      return 1;
  return 0;
}

void ext_conn_sweep(struct ext_conn *self) {
  sqlite3_mutex *list = list_mutex();
  sqlite3_mutex_enter(list);
  for (struct ext_conn *conn = all; conn; conn = conn->next) {
    sqlite3_mutex *mutex =
        conn == self || conn->process != self->process || conn->closing
            ? NULL
            : sqlite3_db_mutex(conn->db);
    if (mutex && !EMB_SEED(SEED_DROPPED_STORE_KEPT_OPEN) &&
        sqlite3_mutex_try(mutex) == SQLITE_OK) {
      if (!conn_is_running(conn->db))
        ext_link_close_dropped(conn);
      sqlite3_mutex_leave(mutex);
    }
  }
  sqlite3_mutex_leave(list);
}

int ext_conn_is_inherited(const struct ext_conn *conn) {
  return conn->process != getpid();
}

int ext_conn_check(const struct ext_conn *conn, char **err) {
  return ext_conn_is_inherited(conn)
             ? ext_error(err, SQLITE_MISUSE,
                         "the connection was opened before fork()")
             : SQLITE_OK;
}

/* An authorizer may refuse the PRAGMA; the caller is then not restricted. */
static int read_query_only(const struct ext_conn *conn, int *is) {
  sqlite3_stmt *pragma = NULL;
  int rc;
  *is = 0;
  rc = sqlite3_prepare_v2(conn->db, "PRAGMA query_only", -1, &pragma, NULL);
  if (rc == SQLITE_OK && (rc = sqlite3_step(pragma)) == SQLITE_ROW)
    *is = sqlite3_column_int(pragma, 0);
  sqlite3_finalize(pragma);
  return rc == SQLITE_ROW || rc == SQLITE_AUTH ? SQLITE_OK : rc;
}

static int find_query_only(struct ext_conn *conn, int *is) {
  static char answers[2];
  char *known = conn->context ? sqlite3_get_auxdata(conn->context, 0) : NULL;
  int rc = SQLITE_OK;
  if (known)
    *is = known == &answers[1];
  else
    rc = read_query_only(conn, is);
  if (known == NULL && conn->context && rc == SQLITE_OK)
    sqlite3_set_auxdata(conn->context, 0, &answers[*is != 0], NULL);
  return rc;
}

int ext_conn_is_query_only(struct ext_conn *conn) {
  int is;
  return find_query_only(conn, &is) != SQLITE_OK || is;
}

int ext_conn_may_write(struct ext_conn *conn, char **err) {
  int is;
  int rc = find_query_only(conn, &is);
  if (rc == SQLITE_OK && is && !EMB_SEED(SEED_QUERY_ONLY_IGNORED))
    rc = ext_error(err, SQLITE_READONLY,
                   "attempt to write a readonly database: PRAGMA query_only "
                   "is on");
  return rc;
}

void ext_conn_forget_names(struct ext_conn *conn) {
  while (conn->names) {
    struct ext_name *name = conn->names;
    conn->names = name->next;
    sqlite3_free(name->text);
    sqlite3_free(name);
  }
}
