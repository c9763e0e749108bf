/* SPDX-License-Identifier: MIT
**
** call.c -- the tables a function call holds.
**
** A statement that names a table in FROM keeps SQLite from disconnecting it; a
** function gets only the name.  The SQL that a call runs, or that the engine
** runs to decide a transaction, may discover a schema change, and SQLite then
** disconnects all tables.
**
** CALL      A function, and each step of a table-valued function, runs between
**           ext_call_begin and ext_call_end.  Calls nest, because some run the
**           user's SQL.
** HOLD      A table found during a call stays in memory, with its link, until
**           the outermost call ends.  `gone` says that SQLite has disconnected
**           it in the meantime.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

void ext_call_begin(struct ext_conn *conn) { conn->calls++; }

void ext_call_end(struct ext_conn *conn) {
  emb_assert(conn->calls > 0);
  if (--conn->calls > 0)
    return;
  while (conn->held) {
    struct ext_table *table = conn->held;
    conn->held = table->next_held;
    table->held = 0;
    if (table->gone) /* deferred while the table was held */
      (void)table->base.pModule->xDisconnect(&table->base);
  }
}

void ext_table_hold(struct ext_table *table) {
  struct ext_conn *conn = table->conn;
  emb_assert(conn->calls > 0 && !table->gone);
  if (table->held)
    return;
  table->held = 1;
  table->next_held = conn->held;
  conn->held = table;
}
