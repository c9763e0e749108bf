/* SPDX-License-Identifier: MIT
**
** lookahead.c -- reads rows ahead that will be needed soon.
**
**     CREATE TABLE emb_lookahead(
**       number, asked, in_memory, absent, to_read, read, refused, done,
**       "table" HIDDEN, keys HIDDEN, dest HIDDEN)
**
**   emb_lookahead(table, keys [, dest])    starts a look-ahead; a row of counts
**   emb_lookahead(table)                   one row for each of the connection's
**                                          last look-aheads, newest first
**
** and the function emb_lookahead_wait(table [, number]), which waits for a
** look-ahead, by default the newest; its number, or NULL if there was none.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

/* The number of look-aheads that the engine keeps. */
#define AHEADS_MAX 64

enum {
  LOOKAHEAD_NUMBER = 0,
  LOOKAHEAD_ASKED,
  LOOKAHEAD_IN_MEMORY,
  LOOKAHEAD_ABSENT,
  LOOKAHEAD_TO_READ,
  LOOKAHEAD_READ,
  LOOKAHEAD_REFUSED,
  LOOKAHEAD_DONE,
  LOOKAHEAD_TABLE,
  LOOKAHEAD_KEYS,
  LOOKAHEAD_DEST,
};

struct ahead_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_ahead rows[AHEADS_MAX];
};

static int read_dest(sqlite3_value *value, int *dest, char **err) {
  const char *text = (const char *)sqlite3_value_text(value);
  *dest = EMB_AHEAD_BUFFER;
  if (text == NULL || near_is("buffer", text))
    return SQLITE_OK;
  if (!near_is("cache", text))
    return ext_error(err, SQLITE_ERROR,
                     "unknown destination: %s; expected buffer or cache", text);
  *dest = EMB_AHEAD_CACHE;
  return SQLITE_OK;
}

/* dest may be NULL. */
static int look_ahead(struct ahead_cursor *cursor, struct ext_table *table,
                      sqlite3_value *keys_value, sqlite3_value *dest_value,
                      char **err) {
  struct ext_link *link = table->link;
  struct ext_keys keys = {0};
  int dest = EMB_AHEAD_BUFFER;
  int rc = dest_value ? read_dest(dest_value, &dest, err) : SQLITE_OK;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, keys_value, "keys", &keys, err);
  if (rc == SQLITE_OK) {
    rc = emb_lookahead(link->session, keys.at, keys.n, dest, &cursor->rows[0]);
    if (rc)
      rc = ext_link_error(link, rc, err);
  }
  ext_keys_free(&keys);
  if (rc == SQLITE_OK) {
    link->aheads = cursor->rows[0].number;
    cursor->base.n = 1;
  }
  return rc;
}

static int list_aheads(struct ahead_cursor *cursor, struct ext_link *link,
                       char **err) {
  uint64_t number = link->aheads;
  for (; number > 0 && cursor->base.n < AHEADS_MAX; number--) {
    int rc = emb_lookahead_progress(link->session, number,
                                    &cursor->rows[cursor->base.n]);
    if (rc)
      return ext_link_error(link, rc, err);
    cursor->base.n++;
  }
  return SQLITE_OK;
}

static int lookahead_begin(struct ext_tvf_cursor *base,
                           sqlite3_value **arguments, char **err) {
  struct ahead_cursor *cursor = (struct ahead_cursor *)base;
  sqlite3_value *keys = arguments[1], *dest = arguments[2];
  struct ext_table *table;
  int rc;
  if (dest && !keys)
    return ext_error(err, SQLITE_ERROR, "emb_lookahead needs keys for dest");
  rc = ext_fn_table(base->conn, arguments[0], &table, err);
  if (rc != SQLITE_OK)
    return rc;
  return keys ? look_ahead(cursor, table, keys, dest, err)
              : list_aheads(cursor, table->link, err);
}

static void lookahead_column(struct ext_tvf_cursor *base,
                             sqlite3_context *context, int i) {
  const emb_ahead *row = &((struct ahead_cursor *)base)->rows[base->at];
  const uint64_t values[] = {[LOOKAHEAD_NUMBER] = row->number,
                             [LOOKAHEAD_ASKED] = row->asked,
                             [LOOKAHEAD_IN_MEMORY] = row->in_memory,
                             [LOOKAHEAD_ABSENT] = row->absent,
                             [LOOKAHEAD_TO_READ] = row->to_read,
                             [LOOKAHEAD_READ] = row->read,
                             [LOOKAHEAD_REFUSED] = row->refused,
                             [LOOKAHEAD_DONE] = row->done != 0};
  if (i < LOOKAHEAD_TABLE)
    sqlite3_result_int64(context, (sqlite3_int64)values[i]);
}

static sqlite3_int64 lookahead_rowid(struct ext_tvf_cursor *base) {
  return (sqlite3_int64)((struct ahead_cursor *)base)->rows[base->at].number;
}

static const struct ext_tvf lookahead = {
    .name = "emb_lookahead",
    .declaration =
        "CREATE TABLE x(number INTEGER, asked INTEGER, in_memory INTEGER, "
        "absent INTEGER, to_read INTEGER, read INTEGER, refused INTEGER, "
        "done INTEGER, \"table\" HIDDEN, keys HIDDEN, dest HIDDEN)",
    .argument = LOOKAHEAD_TABLE,
    .arguments = 3,
    .needed = 1,
    .needs = "a table name",
    .cost = 100,
    .rows = AHEADS_MAX,
    .cursor_size = sizeof(struct ahead_cursor),
    .begin = lookahead_begin,
    .column = lookahead_column,
    .rowid = lookahead_rowid,
};

/* ---- emb_lookahead_wait -------------------------------------------------- */

/* Reads the number of a look-ahead. */
static int lookahead_number(sqlite3_value *value, const struct ext_table *table,
                            uint64_t *number, char **err) {
  uint64_t last = table->link->aheads;
  int rc = ext_arg_number(value, "number", number, err);
  if (rc == SQLITE_OK &&
      (*number == 0 || *number > last || last - *number >= AHEADS_MAX))
    rc = ext_error(err, SQLITE_ERROR,
                   "%lld is not among the last %d look-aheads of %s",
                   sqlite3_value_int64(value), AHEADS_MAX, table->name);
  return rc;
}

static void fn_wait(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_table *table;
  uint64_t number = 0;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK && argc == 1)
    number = table->link->aheads;
  else if (rc == SQLITE_OK && sqlite3_value_type(argv[1]) != SQLITE_NULL)
    rc = lookahead_number(argv[1], table, &number, &err);
  if (rc == SQLITE_OK && number > 0) {
    rc = emb_lookahead_wait(table->link->session, number);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (number > 0)
    sqlite3_result_int64(context, (sqlite3_int64)number);
}

int ext_tvf_lookahead_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_lookahead_wait", 1, fn_wait}, {"emb_lookahead_wait", 2, fn_wait}};
  int rc = ext_tvf_register(conn, &lookahead);
  return rc == SQLITE_OK ? ext_fn_register(conn, functions, 2) : rc;
}
