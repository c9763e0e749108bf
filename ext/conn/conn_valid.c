/* SPDX-License-Identifier: MIT
**
** conn_valid.c -- checks that a connection's objects are as conn.h says, and
** that SQLite may make a given call now.  Only in builds with self-checks
** (engine/base/debug.h).
**
** SQLite's callbacks do not come in pairs (table/txn.c).  The order asserted
** here is what SQLite's source does for one table object, in every version
** since 3.38:
**
**   state     comes in by                  leaves by
**   outside   xConnect, xCommit,           xBegin, xCreate
**             xRollback
**   begun     xBegin, xCreate, or          xSync (no error), xRollback
**             xUpdate, xSavepoint after
**             a COMMIT that was refused
**   synced    xSync                        xCommit, xRollback
**
**   xUpdate, xSavepoint, xRelease, xRollbackTo  not outside
**   xSync       not outside; again in `synced`, after a COMMIT that was refused
**   xDisconnect in any state, because after an undone DROP the object gets no
**               more calls; but not while a cursor is open on it
**   xColumn, xRowid, xNext  on a row: xEof was 0 after the cursor's last move
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0
#include <unistd.h>

int ext_txn_may(const struct ext_table *table, enum ext_call call, int i) {
  emb_assert(table->begun || (!table->synced && table->level == -1));
  switch (call) {
  case EXT_CALL_BEGIN:
    emb_assert(!table->begun);
    break;
  case EXT_CALL_COMMIT:
    emb_assert(table->synced);
    break;
  case EXT_CALL_SAVEPOINT:
    emb_assert(table->begun && i >= 0);
    break;
  case EXT_CALL_ROLLBACK_TO: /* -1: the transaction, begun by SAVEPOINT */
    emb_assert(table->begun && i >= -1);
    break;
  default:
    emb_assert(table->begun);
  }
  return 1;
}

/* Returns the number of the link's table objects in SQLite's transaction. */
static int check_link(const struct ext_conn *conn,
                      const struct ext_link *link) {
  int begun = 0;
  emb_assert(link->conn == conn && link->store && link->session);
  emb_assert(link->cursors >= 0);
  emb_assert(!link->in_txn == !emb_in_transaction(link->session));
  emb_assert(!link->dirty || link->in_txn);
  emb_assert(!link->removes || link->removes_dir >= 0);
  for (const struct ext_table *table = link->tables; table;
       table = table->next_of_link) {
    emb_assert(table->link == link && table->conn == conn);
    emb_assert(table->begun || table->level == -1);
    emb_assert(table->cursors >= 0);
    begun += table->begun;
  }
  return begun;
}

int ext_conn_valid(const struct ext_conn *conn) {
  int begun = 0, attached = 0;
  if (conn->process != getpid())
    return 1; /* a child after fork() undoes nothing */
  emb_assert(conn->refs > 0);
  for (const struct ext_link *link = conn->links; link; link = link->next) {
    begun += check_link(conn, link);
    attached += link->attached;
  }
  /* A table whose link was closed since then has none. */
  emb_assert(begun <= conn->begun);
  emb_assert(attached == conn->attached);
  return 1;
}

#endif
