/* SPDX-License-Identifier: MIT
**
** tvf_evicted.c -- which keys expired or were evicted.
**
**     CREATE TABLE emb_evicted(key, op, position, "table" HIDDEN, since HIDDEN)
**
**   emb_evicted(table [, since])   in the order in which they went; op is
**                                  'expire' or 'evict', and position what
**                                  `since` takes to go on behind the row
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum { KEY = 0, OP, POSITION, TABLE, SINCE };

#define ROWS 1024 /* read at once */

struct evicted_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  struct ext_link *link;    /* NULL: nothing is open */
  uint64_t since;           /* position of the last row read */
  size_t n, at;
  int64_t keys[ROWS];
  uint64_t positions[ROWS];
  uint8_t ops[ROWS];
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(db, conn,
                         "CREATE TABLE x(key INTEGER, op TEXT, position "
                         "INTEGER, \"table\" HIDDEN, since HIDDEN)",
                         out);
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int given[2] = {-1, -1}, n = 0;
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->iColumn < TABLE ||
        constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!constraint->usable)
      return SQLITE_CONSTRAINT;
    given[constraint->iColumn - TABLE] = i;
  }
  for (int i = 0; i < 2 && given[i] >= 0; i++) {
    info->aConstraintUsage[given[i]].argvIndex = ++n;
    info->aConstraintUsage[given[i]].omit = 1;
  }
  if (info->nOrderBy == 1 && info->aOrderBy[0].iColumn == POSITION &&
      !info->aOrderBy[0].desc)
    info->orderByConsumed = 1;
  info->estimatedCost = n ? 1000 : 1e12;
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct evicted_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void rewind_cursor(struct evicted_cursor *cursor) {
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  cursor->n = cursor->at = 0;
  cursor->since = 0;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  rewind_cursor((struct evicted_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int read_rows(struct evicted_cursor *cursor, char **err) {
  int rc = emb_evicted(cursor->link->session, cursor->since, ROWS, cursor->keys,
                       cursor->ops, cursor->positions, &cursor->n);
  cursor->at = 0;
  if (rc)
    return ext_link_error(cursor->link, rc, err);
  if (cursor->n)
    cursor->since = cursor->positions[cursor->n - 1];
  return SQLITE_OK;
}

static int arguments(struct ext_conn *conn, int argc, sqlite3_value **argv,
                     struct ext_table **table, uint64_t *since, char **err) {
  int rc;
  if (argc < 1)
    return ext_error(err, SQLITE_ERROR, "emb_evicted needs a table name");
  rc = ext_fn_table_to_write(conn, argv[0], table, err);
  if (rc == SQLITE_OK && argc > 1) {
    sqlite3_int64 at = sqlite3_value_int64(argv[1]);
    if (sqlite3_value_numeric_type(argv[1]) != SQLITE_INTEGER || at < 0)
      return ext_error(err, SQLITE_MISMATCH, "since must be a position, got %s",
                       emb_value_type_name(argv[1]));
    *since = (uint64_t)at;
  }
  return rc;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  struct ext_tvf_table *vtab = (struct ext_tvf_table *)base->pVtab;
  struct ext_table *table = NULL;
  char *err = NULL;
  int rc;
  (void)given, (void)plan;
  rewind_cursor(cursor);
  rc = arguments(vtab->conn, argc, argv, &table, &cursor->since, &err);
  if (rc == SQLITE_OK) {
    cursor->link = table->link;
    cursor->link->cursors++;
    rc = read_rows(cursor, &err);
  }
  return ext_vtab_error(base->pVtab, rc, err);
}

static int next(sqlite3_vtab_cursor *base) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (++cursor->at >= cursor->n)
    rc = read_rows(cursor, &err);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int eof(sqlite3_vtab_cursor *base) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  return cursor->at >= cursor->n;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  switch (i) {
  case KEY:
    sqlite3_result_int64(context, cursor->keys[cursor->at]);
    break;
  case OP:
    sqlite3_result_text(context,
                        cursor->ops[cursor->at] == EMB_DELTA_EXPIRE ? "expire"
                                                                    : "evict",
                        -1, SQLITE_STATIC);
    break;
  case POSITION:
    sqlite3_result_int64(context, (sqlite3_int64)cursor->positions[cursor->at]);
    break;
  }
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  struct evicted_cursor *cursor = (struct evicted_cursor *)base;
  *out = (sqlite3_int64)cursor->positions[cursor->at];
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

int ext_tvf_evicted_register(struct ext_conn *conn) {
  conn->refs++;
  return sqlite3_create_module_v2(conn->db, "emb_evicted", &module, conn,
                                  ext_conn_unref);
}
