/* SPDX-License-Identifier: MIT
**
** stats.c -- SELECT name, value FROM emb_stats('items').
**
**     CREATE TABLE emb_stats(name TEXT, value, "table" HIDDEN)
**
** One row for each metric of the store, taken when the query starts.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

enum { STATS_NAME = 0, STATS_VALUE, STATS_TABLE };

struct stats_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_stat *stats;
};

int ext_tvf_stats(struct ext_conn *conn, const char *name,
                  struct ext_table **table, emb_stat **stats, size_t *n,
                  char **err) {
  int rc = ext_table_named(conn, name, 0, table, err);
  if (rc == SQLITE_BUSY && conn->patience.is_silent) {
    /* Use the existing link: it shows which process owns the store. */
    char *why = NULL;
    int found = ext_table_find(conn, name, table, &why);
    sqlite3_free(why);
    if (found == SQLITE_OK && (*table)->link) {
      sqlite3_free(*err);
      *err = NULL;
      rc = SQLITE_OK;
    }
  }
  if (rc != SQLITE_OK)
    return rc;
  size_t room = emb_stats(ext_link_store((*table)->link), NULL, 0);
  *stats = sqlite3_malloc64((room ? room : 1) * sizeof **stats);
  if (*stats == NULL)
    return SQLITE_NOMEM;
  *n = room ? emb_stats(ext_link_store((*table)->link), *stats, room) : 0;
  return SQLITE_OK;
}

static int stats_tvf_begin(struct ext_tvf_cursor *base,
                           sqlite3_value **arguments, char **err) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  const char *name = (const char *)sqlite3_value_text(arguments[0]);
  struct ext_table *table;
  return name ? ext_tvf_stats(base->conn, name, &table, &cursor->stats,
                              &base->n, err)
              : SQLITE_OK;
}

static void stats_tvf_end(struct ext_tvf_cursor *base) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  sqlite3_free(cursor->stats);
  cursor->stats = NULL;
}

static void stats_tvf_column(struct ext_tvf_cursor *base,
                             sqlite3_context *context, int i) {
  const emb_stat *stat = &((struct stats_cursor *)base)->stats[base->at];
  if (i == STATS_NAME)
    sqlite3_result_text(context, stat->name, -1, SQLITE_TRANSIENT);
  else if (i == STATS_VALUE && stat->text)
    sqlite3_result_text(context, stat->text, -1, SQLITE_TRANSIENT);
  else if (i == STATS_VALUE)
    sqlite3_result_int64(context, stat->value);
}

static const struct ext_tvf stats = {
    .name = "emb_stats",
    .declaration = "CREATE TABLE x(name TEXT, value, \"table\" HIDDEN)",
    .argument = STATS_TABLE,
    .arguments = 1,
    .needed = 1,
    .needs = "a table name",
    .is_state = 1,
    .cost = 100,
    .rows = 100,
    .cursor_size = sizeof(struct stats_cursor),
    .begin = stats_tvf_begin,
    .column = stats_tvf_column,
    .end = stats_tvf_end,
};

int ext_tvf_stats_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &stats);
}
