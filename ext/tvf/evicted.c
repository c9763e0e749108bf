/* SPDX-License-Identifier: MIT
**
** evicted.c -- keys that expired or were evicted.
**
**     CREATE TABLE emb_evicted(key, op, position, "table" HIDDEN, since HIDDEN)
**
**   emb_evicted(table [, since])   in order of removal; op is 'expire' or
**                                  'evict', and position is the `since` with
**                                  which to continue after the row
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

enum {
  EVICTED_KEY = 0,
  EVICTED_OP,
  EVICTED_POSITION,
  EVICTED_TABLE,
  EVICTED_SINCE
};

#define ROWS 1024 /* per read */

struct evicted_cursor {
  struct ext_tvf_cursor base; /* must be first */
  uint64_t since;             /* position of the last row read */
  int is_read;                /* and the rows after it are in memory: */
  size_t read;
  int64_t keys[ROWS];
  uint64_t positions[ROWS];
  uint8_t ops[ROWS];
};

static void evicted_plan(sqlite3_index_info *info) {
  info->orderByConsumed = info->nOrderBy == 1 &&
                          info->aOrderBy[0].iColumn == EVICTED_POSITION &&
                          !info->aOrderBy[0].desc;
}

static int read_since(sqlite3_value *value, uint64_t *since, char **err) {
  sqlite3_int64 at = sqlite3_value_int64(value);
  if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER || at < 0)
    return ext_error(err, SQLITE_MISMATCH, "since must be a position, got %s",
                     ext_value_type_name(value));
  *since = (uint64_t)at;
  return SQLITE_OK;
}

static int evicted_read(struct evicted_cursor *cursor, size_t *n) {
  int rc = emb_evicted(cursor->base.link->session, cursor->since, ROWS,
                       &(emb_rows){.keys = cursor->keys,
                                   .ops = cursor->ops,
                                   .positions = cursor->positions},
                       n);
  if (rc == EMB_OK && *n)
    cursor->since = cursor->positions[*n - 1];
  return rc;
}

/* Reads the first rows while the table is at hand, so that a transaction in
** doubt can be decided and the read retried. */
static int evicted_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                         char **err) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  struct ext_table *table;
  int attempts = 0;
  int rc = ext_fn_table_to_write(base->conn, arguments[0], &table, err);
  cursor->since = 0;
  if (rc == SQLITE_OK && arguments[1])
    rc = read_since(arguments[1], &cursor->since, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_tvf_hold(base, table->link);
  do
    rc = evicted_read(cursor, &cursor->read);
  while (ext_txn_again(table, &attempts, &rc, err));
  cursor->is_read = rc == SQLITE_OK;
  return rc;
}

static int evicted_more(struct ext_tvf_cursor *base, char **err) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  int rc;
  if (cursor->is_read) {
    cursor->is_read = 0;
    base->n = cursor->read;
    return SQLITE_OK;
  }
  rc = evicted_read(cursor, &base->n);
  return rc ? ext_link_error(base->link, rc, err) : SQLITE_OK;
}

static void evicted_column(struct ext_tvf_cursor *base,
                           sqlite3_context *context, int i) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  switch (i) {
  case EVICTED_KEY:
    ext_key_result(context, base->link, cursor->keys[base->at]);
    break;
  case EVICTED_OP:
    sqlite3_result_text(
        context, cursor->ops[base->at] == EMB_DELTA_EXPIRE ? "expire" : "evict",
        -1, SQLITE_STATIC);
    break;
  case EVICTED_POSITION:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->positions[base->at]);
    break;
  }
}

static sqlite3_int64 evicted_rowid(struct ext_tvf_cursor *base) {
  return (sqlite3_int64)((struct evicted_cursor *)base)->positions[base->at];
}

static const struct ext_tvf evicted = {
    .name = "emb_evicted",
    .declaration = "CREATE TABLE x(key, op TEXT, position INTEGER, "
                   "\"table\" HIDDEN, since HIDDEN)",
    .argument = EVICTED_TABLE,
    .arguments = 2,
    .needed = 1,
    .needs = "a table name",
    .cost = 1000,
    .rows = 25,
    .plan = evicted_plan,
    .cursor_size = sizeof(struct evicted_cursor),
    .begin = evicted_begin,
    .more = evicted_more,
    .column = evicted_column,
    .rowid = evicted_rowid,
};

int ext_tvf_evicted_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &evicted);
}
