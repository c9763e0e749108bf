/* SPDX-License-Identifier: MIT
**
** lease.c -- reads that count, on a table with a staleness bound.
**
** The engine counts a Get, by one session, of a key: a lease, which a Put of
** the key gives back.  What of SQL is a Get is decided in table/, in
** fn/store.c and fn/async.c; what belongs together is decided here:
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
**              its own.  A function call is one Get and has number 0; the
**              statement around it goes on after it.
**              A statement that fails gives back what it took: when a Get of
**              it fails, and when it wrote, outside of a transaction.  Not if
**              another is open on the table, whose leases these might be.
** TRANSACTION  Leases taken since BEGIN, or since xBegin by a statement outside
**              of a transaction, are marked in the engine, and ROLLBACK gives
**              them back.  SQLite reports COMMIT and ROLLBACK only to tables
**              that were written.  So after a transaction that only read, the
**              marks go with the first Get outside of one; and what it took
**              stays after ROLLBACK, until a Put or emb_release.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

static void lease_set_mark(struct ext_link *link, int mark) {
  if (link->bounded && link->lease_mark != mark)
    emb_lease_mark(link->session, mark);
  link->lease_mark = mark;
}

void ext_lease_begin(struct ext_link *link, uint64_t statement) {
  if (!link->bounded)
    return;
  emb_statement(link->session, statement);
  lease_set_mark(link,
                 link->lease_write || !sqlite3_get_autocommit(link->conn->db));
}

/* Cursors that are open on the store. */
static int open_cursors(const struct ext_link *link) {
  int cursors = 0;
  for (const struct ext_table *table = link->tables; table;
       table = table->next_of_link)
    cursors += table->cursors;
  return cursors;
}

int ext_lease_get(struct ext_table *table, uint64_t statement,
                  const int64_t *keys, size_t n, const emb_rows *to,
                  char **err) {
  struct ext_link *link = table->link;
  int rc;
  if (to->vectors)
    ext_lease_begin(link, statement);
  rc = emb_get(link->session, keys, n, to->vectors, to->found, to->versions);
  if (rc == EMB_OK)
    return SQLITE_OK;
  rc = ext_link_error(link, rc, err);
  if (to->vectors && statement && link->bounded && open_cursors(link) <= 1)
    emb_release_statement(link->session);
  return rc;
}

void ext_lease_write(struct ext_link *link) {
  link->lease_write = sqlite3_get_autocommit(link->conn->db);
  if (link->lease_write)
    lease_set_mark(link, 0); /* of a transaction that has only read */
  lease_set_mark(link, 1);
}

void ext_lease_commit(struct ext_link *link) {
  link->lease_write = 0;
  lease_set_mark(link, 0);
}

void ext_lease_rollback(struct ext_link *link) {
  if (link->lease_mark && link->bounded &&
      !(link->lease_write && open_cursors(link)) &&
      !EMB_SEED(SEED_FAILED_STATEMENT_KEEPS_LEASES))
    emb_release_marked(link->session);
  ext_lease_commit(link);
}
