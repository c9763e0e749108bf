/* SPDX-License-Identifier: MIT
**
** tvf_stats.c -- SELECT name, value FROM emb_stats('items').
**
**     CREATE TABLE emb_stats(name TEXT, value, "table" HIDDEN)
**
** One row for each figure of the store, taken when the query starts.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#define STATS_MAX 96

enum { NAME = 0, VALUE, TABLE };

struct stats_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_stat *stats;
};

static int begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                 char **err) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  const char *name = (const char *)sqlite3_value_text(arguments[0]);
  struct ext_table *table;
  int rc;
  if (name == NULL)
    return SQLITE_OK;
  rc = ext_fn_named(base->conn, name, 0, &table, err);
  if (rc != SQLITE_OK)
    return rc;
  cursor->stats = sqlite3_malloc64(STATS_MAX * sizeof *cursor->stats);
  if (cursor->stats == NULL)
    return SQLITE_NOMEM;
  base->n = emb_stats(table->link->store, cursor->stats, STATS_MAX);
  return SQLITE_OK;
}

static void end(struct ext_tvf_cursor *base) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  sqlite3_free(cursor->stats);
  cursor->stats = NULL;
}

static void column(struct ext_tvf_cursor *base, sqlite3_context *context,
                   int i) {
  const emb_stat *stat = &((struct stats_cursor *)base)->stats[base->at];
  if (i == NAME)
    sqlite3_result_text(context, stat->name, -1, SQLITE_TRANSIENT);
  else if (i == VALUE && stat->text)
    sqlite3_result_text(context, stat->text, -1, SQLITE_TRANSIENT);
  else if (i == VALUE)
    sqlite3_result_int64(context, stat->value);
}

static const struct ext_tvf stats = {
    .name = "emb_stats",
    .declaration = "CREATE TABLE x(name TEXT, value, \"table\" HIDDEN)",
    .argument = TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .cost = 100,
    .rows = 100,
    .cursor_size = sizeof(struct stats_cursor),
    .begin = begin,
    .column = column,
    .end = end,
};

int ext_tvf_stats_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &stats);
}
