/* SPDX-License-Identifier: MIT
**
** lease.c -- counted reads of a table with a staleness bound.
**
** The engine counts each Get of a key by a session: a lease, which a Put of the
** key returns.  table/, fn/store.c and fn/async.c decide which SQL is a Get;
** this file decides which Gets belong together:
**
** STATEMENT    A statement counts a key once, however often SQLite visits its
**              row: in a nested loop, a correlated subquery, a self join.
**              SQLite does not say which statement a cursor belongs to, but the
**              cursors of one statement overlap, because all stay open until it
**              ends.  So a table object draws a new number when the first
**              cursor is opened on it, and all cursors open at the same time
**              share the number.  The price: two statements of one connection
**              that overlap on one table count a key once together.  The
**              cursors of a trigger are closed each time it has fired, so each
**              firing is a statement of its own.  A function call is one Get
**              and has number 0, because its statement goes on after it.
**              A statement that fails returns the leases it took if a Get
**              failed, or if it wrote outside a transaction; but not if another
**              statement is open on the table, because the leases might belong
**              to that one.
** TRANSACTION  Leases taken since BEGIN, or since xBegin by a statement outside
**              a transaction, are marked in the engine, and ROLLBACK returns
**              them.  SQLite reports COMMIT and ROLLBACK only to tables that
**              were written.  So after a read-only transaction the marks are
**              cleared by the first Get outside a transaction, and its leases
**              survive ROLLBACK until a Put or emb_release.
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

/* Returns the number of cursors open on the store. */
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
    lease_set_mark(link, 0); /* clears marks of a read-only transaction */
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
