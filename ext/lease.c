/* SPDX-License-Identifier: MIT
**
** lease.c -- reads that count, on a table with a staleness bound.
**
** The engine counts a Get, by one session, of a key: a lease, which a Put of
** the key gives back.  What of SQL is a Get is decided in filter.c, cursor.c,
** fn_store.c and fn_async.c; what belongs together is decided here:
**
** STATEMENT    A statement counts a key once, however often SQLite comes to
**              its row: in a nested loop, a correlated subquery, a self join.
**              SQLite does not say which statement a cursor belongs to.  But
**              those of one statement overlap, for all stay open until it
**              ends; so a table object draws a new number when the first
**              cursor is opened on it, and all that are open at the same time
**              share it.  The price: two statements of one connection that
**              overlap on one table count a key once together.  The cursors of
**              a trigger end each time it has fired, so that is a statement of
**              its own.  A function call is one Get and has number 0.
**              A statement that fails gives back what it took: when a Get of
**              it fails, and when it wrote, outside of a transaction.  Not if
**              another is open on the table, whose leases these might be.
** TRANSACTION  Leases taken since BEGIN are marked in the engine, and ROLLBACK
**              gives them back.  SQLite tells only tables that were written
**              of COMMIT and ROLLBACK.  So after a transaction that only read,
**              the marks go with the first Get outside of one; and what it
**              took stays after ROLLBACK, until a Put or emb_release.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

static void set_mark(struct ext_link *link, int mark) {
  if (link->lease_mark != mark)
    emb_lease_mark(link->session, mark);
  link->lease_mark = mark;
}

void ext_lease_begin(struct ext_link *link, uint64_t statement) {
  if (!link->bounded)
    return;
  emb_statement(link->session, statement);
  set_mark(link, !sqlite3_get_autocommit(link->conn->db));
}

/* The statement failed; mine is how many cursors it has open. */
static void give_statement_back(struct ext_link *link, int mine) {
  int cursors = 0;
  for (struct ext_table *table = link->tables; table;
       table = table->next_of_link)
    cursors += table->cursors;
  if (link->bounded && cursors <= mine)
    (void)(EMB_SEED(26) ? 0 : emb_release_statement(link->session));
}

int ext_lease_get(struct ext_table *table, uint64_t statement,
                  const int64_t *keys, size_t n, float *vectors, uint8_t *found,
                  uint64_t *versions, char **err) {
  struct ext_link *link = table->link;
  int rc;
  if (vectors)
    ext_lease_begin(link, statement);
  rc = emb_get(link->session, keys, n, vectors, found, versions);
  if (rc == EMB_OK)
    return SQLITE_OK;
  rc = ext_link_error(link, rc, err);
  if (vectors && statement)
    give_statement_back(link, 1);
  return rc;
}

void ext_lease_commit(struct ext_link *link) { set_mark(link, 0); }

void ext_lease_rollback(struct ext_link *link) {
  if (link->lease_mark)
    emb_release_marked(link->session);
  else
    give_statement_back(link, 0);
  set_mark(link, 0);
}
