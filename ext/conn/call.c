/* SPDX-License-Identifier: MIT
**
** call.c -- what a call of a function holds.
**
** A statement that names a table in FROM keeps SQLite from disconnecting it.  A
** function is only given the name.  The SQL that a call runs, and that the
** engine makes it run to decide a transaction, may find that the schema has
** changed; then SQLite disconnects all tables.
**
** CALL      A function, and each step of a table-valued one, runs between
**           ext_call_begin and ext_call_end.  Calls nest: some run the SQL of
**           a user.
** HOLD      A table that a call has found stays in memory, with its link, until
**           the outermost call ends.  `gone` says that SQLite has disconnected
**           it meanwhile.
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
    if (table->gone) /* as SQLite asked, when it was held */
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
