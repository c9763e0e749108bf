/* SPDX-License-Identifier: MIT
**
** pending.c -- gradients that are being averaged and not yet applied.
**
**     CREATE TABLE emb_pending(key, n, age_ms, "table" HIDDEN)
**
**   emb_pending(table)           the keys with pending gradients, in no order;
**                                n gradients, and the age of the oldest
**   emb_flush_gradients(table)   applies them; the number of keys updated
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

enum { PENDING_KEY = 0, PENDING_N, PENDING_AGE_MS, PENDING_TABLE };

struct pending_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_pending_key *list;
};

static int pending_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                         char **err) {
  struct pending_cursor *cursor = (struct pending_cursor *)base;
  struct ext_table *table;
  size_t room = 64, n = room;
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  if (rc != SQLITE_OK)
    return rc;
  while (n >= room) { /* more keys may have been added */
    room = n + n / 4 + 1;
    sqlite3_free(cursor->list);
    cursor->list = sqlite3_malloc64(room * sizeof *cursor->list);
    if (cursor->list == NULL)
      return SQLITE_NOMEM;
    rc = emb_pending(table->link->session, cursor->list, room, &n);
    if (rc)
      return ext_link_error(table->link, rc, err);
  }
  ext_tvf_hold(base, table->link);
  base->n = n;
  return SQLITE_OK;
}

static void pending_end(struct ext_tvf_cursor *base) {
  struct pending_cursor *cursor = (struct pending_cursor *)base;
  sqlite3_free(cursor->list);
  cursor->list = NULL;
}

static void pending_column(struct ext_tvf_cursor *base,
                           sqlite3_context *context, int i) {
  const emb_pending_key *key = &((struct pending_cursor *)base)->list[base->at];
  switch (i) {
  case PENDING_KEY:
    ext_key_result(context, base->link, key->key);
    break;
  case PENDING_N:
    sqlite3_result_int64(context, key->gradients);
    break;
  case PENDING_AGE_MS:
    sqlite3_result_int64(context, (sqlite3_int64)(key->age_us / 1000));
    break;
  }
}

static const struct ext_tvf pending = {
    .name = "emb_pending",
    .declaration = "CREATE TABLE x(key, n INTEGER, age_ms INTEGER, "
                   "\"table\" HIDDEN)",
    .argument = PENDING_TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .cost = 1000,
    .rows = 1000,
    .cursor_size = sizeof(struct pending_cursor),
    .begin = pending_begin,
    .column = pending_column,
    .end = pending_end,
};

static void fn_flush_gradients(sqlite3_context *context, int argc,
                               sqlite3_value **argv) {
  struct ext_table *table;
  char *err = NULL;
  uint64_t steps = 0;
  int attempts = 0;
  int rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    do
      rc = emb_flush_gradients(table->link->session, &steps);
    while (ext_txn_again(table, &attempts, &rc, &err));
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)steps);
  else
    ext_result_error(context, rc, err);
}

int ext_tvf_pending_register(struct ext_conn *conn) {
  static const struct ext_function flush = {"emb_flush_gradients", 1,
                                            fn_flush_gradients};
  int rc = ext_tvf_register(conn, &pending);
  return rc == SQLITE_OK ? ext_fn_register(conn, &flush, 1) : rc;
}
