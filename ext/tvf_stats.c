/* SPDX-License-Identifier: MIT
**
** tvf_stats.c -- SELECT name, value FROM emb_stats('items').
**
**     CREATE TABLE emb_stats(name TEXT, value, "table" HIDDEN)
**
** One row for each figure of the store, taken when the query starts.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define STATS_MAX 96

enum { NAME = 0, VALUE, TABLE };

struct stats_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  emb_stat *stats;
  size_t n, at;
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn, "CREATE TABLE x(name TEXT, value, \"table\" HIDDEN)", out);
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int is_given = 0;
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn != TABLE ||
        constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!constraint->usable)
      return SQLITE_CONSTRAINT;
    if (is_given)
      continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    is_given = 1;
  }
  info->estimatedCost = 100;
  info->estimatedRows = 100;
  if (!is_given) /* part of an OR, or a mistake: xFilter says so */
    info->estimatedCost = 1e12;
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct stats_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  sqlite3_free(((struct stats_cursor *)base)->stats);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int flags, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  struct ext_tvf *vtab = (struct ext_tvf *)base->pVtab;
  const char *name = NULL;
  struct ext_table *table;
  char *err = NULL;
  int rc;
  (void)flags, (void)plan;
  sqlite3_free(cursor->stats);
  cursor->stats = NULL;
  cursor->n = cursor->at = 0;
  if (argc == 0) {
    rc = ext_error(&err, SQLITE_ERROR, "emb_stats needs a table name");
    return ext_vtab_error(base->pVtab, rc, err);
  }
  name = (const char *)sqlite3_value_text(argv[0]);
  if (name == NULL)
    return SQLITE_OK;
  rc = ext_fn_named(vtab->conn, name, 0, &table, &err);
  if (rc == SQLITE_OK) {
    cursor->stats = sqlite3_malloc64(STATS_MAX * sizeof *cursor->stats);
    if (cursor->stats == NULL)
      return SQLITE_NOMEM;
    cursor->n = emb_stats(table->link->store, cursor->stats, STATS_MAX);
  }
  return ext_vtab_error(base->pVtab, rc, err);
}

static int next(sqlite3_vtab_cursor *base) {
  ((struct stats_cursor *)base)->at++;
  return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  return cursor->at >= cursor->n;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  struct stats_cursor *cursor = (struct stats_cursor *)base;
  const emb_stat *stat = &cursor->stats[cursor->at];
  if (i == NAME)
    sqlite3_result_text(context, stat->name, -1, SQLITE_TRANSIENT);
  else if (i == VALUE && stat->text)
    sqlite3_result_text(context, stat->text, -1, SQLITE_TRANSIENT);
  else if (i == VALUE)
    sqlite3_result_int64(context, stat->value);
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = (sqlite3_int64)((struct stats_cursor *)base)->at;
  return SQLITE_OK;
}

/* No xCreate: it exists in every schema without being created. */
static const sqlite3_module module = {
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = ext_tvf_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

int ext_tvf_stats_register(struct ext_conn *conn) {
  conn->refs++;
  return sqlite3_create_module_v2(conn->db, "emb_stats", &module, conn,
                                  ext_conn_unref);
}
