/* SPDX-License-Identifier: MIT
**
** each.c -- the table-valued functions emb_each and emb_keys.
**
** They behave as if declared
**     CREATE TABLE emb_each(idx, value, vector HIDDEN)
**     CREATE TABLE emb_keys(value, keys HIDDEN)
** with one row per element of `vector`, or per key in `keys`.  Without an
** argument, or with NULL or an empty list, they have no rows.
*/
#include "fn_state.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

enum { PLAN_EMPTY = 0, PLAN_ARGUMENT = 1 };

static const struct list_kind *kind_of(const struct each_cursor *cursor) {
  return ((const struct list_table *)(const void *)cursor->base.pVtab)->kind;
}

static int list_connect(sqlite3 *db, void *client, int argc,
                        const char *const *argv, sqlite3_vtab **out,
                        char **err) {
  const struct list_kind *kind = client;
  struct list_table *table;
  int rc = ext_declare_vtab(db, kind->schema);
  (void)argc, (void)argv;
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  if (rc != SQLITE_OK) {
    *err = sqlite3_mprintf("emb: %s", sqlite3_errmsg(db));
    return rc;
  }
  table = sqlite3_malloc64(sizeof *table);
  if (!table)
    return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  table->kind = kind;
  table->db = db;
  *out = &table->base;
  return SQLITE_OK;
}

static int list_disconnect(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

static int list_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
  const struct list_kind *kind = ((struct list_table *)(void *)base)->kind;
  int i, found = -1;
  for (i = 0; i < info->nConstraint; i++) {
    if (info->aConstraint[i].iColumn != kind->argument_column ||
        info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!info->aConstraint[i].usable)
      return SQLITE_CONSTRAINT; /* makes SQLite try another join order */
    found = i;
  }
  info->idxNum = PLAN_EMPTY;
  info->estimatedCost = 1;
  info->estimatedRows = 1;
  if (found >= 0) {
    info->idxNum = PLAN_ARGUMENT;
    info->estimatedCost = 100;
    info->estimatedRows = 100;
    info->aConstraintUsage[found].argvIndex = 1;
    info->aConstraintUsage[found].omit = 1;
  }
  return SQLITE_OK;
}

static int list_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  struct each_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)table;
  if (!cursor)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

/* Resets the cursor to no rows. */
static void each_clear(struct each_cursor *cursor) {
  emb_check(ext_each_valid(cursor));
  if (cursor->owned) {
    sqlite3_free(cursor->floats);
    sqlite3_free(cursor->keys);
  }
  sqlite3_value_free(cursor->argument);
  cursor->argument = NULL;
  cursor->floats = NULL;
  cursor->keys = NULL;
  cursor->owned = 0;
  cursor->n = cursor->row = 0;
}

static int list_close(sqlite3_vtab_cursor *base) {
  struct each_cursor *cursor = (struct each_cursor *)base;
  each_clear(cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

/* Reads cursor->argument. */
static int each_load(struct each_cursor *cursor, char **err) {
  const struct list_kind *kind = kind_of(cursor);
  struct list_table *table = (struct list_table *)(void *)cursor->base.pVtab;
  struct ext_conn asked = {.db = table->db};
  char what[64];
  struct ext_floats floats;
  int rc;
  sqlite3_snprintf(sizeof what, what, "argument 1 of %s", kind->name);
  if (kind->is_keys)
    return ext_keys_from_value(
        cursor->argument, &(struct ext_arg){what, ext_link_interrupted, &asked},
        &cursor->keys, &cursor->owned, &cursor->n, err);
  rc = ext_vec_from_value(cursor->argument,
                          &(struct ext_arg){what, ext_link_interrupted, &asked},
                          0, &floats, err);
  cursor->floats = floats.at;
  cursor->owned = floats.owned;
  cursor->n = rc == SQLITE_OK ? floats.n : 0;
  return rc;
}

static int list_filter(sqlite3_vtab_cursor *base, int plan, const char *name,
                       int argc, sqlite3_value **argv) {
  struct each_cursor *cursor = (struct each_cursor *)base;
  char *err = NULL;
  int rc;
  (void)name;
  (void)argc;
  emb_assert(argc == plan); /* as list_best_index says */
  each_clear(cursor);
  if (plan == PLAN_EMPTY || sqlite3_value_type(argv[0]) == SQLITE_NULL)
    return SQLITE_OK;
  cursor->argument = sqlite3_value_dup(argv[0]);
  if (!cursor->argument)
    return SQLITE_NOMEM;
  rc = each_load(cursor, &err);
  if (rc != SQLITE_OK) {
    cursor->floats = NULL; /* undefined after an error */
    cursor->keys = NULL;
    cursor->n = 0;
    ext_vtab_error(base->pVtab, rc, err);
  }
  return rc;
}

static int list_next(sqlite3_vtab_cursor *base) {
  struct each_cursor *cursor = (struct each_cursor *)base;
  emb_assert(cursor->row < cursor->n);
  cursor->row++;
  return SQLITE_OK;
}

static int list_eof(sqlite3_vtab_cursor *base) {
  struct each_cursor *cursor = (struct each_cursor *)base;
  return cursor->row >= cursor->n;
}

static int each_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                       int column) {
  struct each_cursor *cursor = (struct each_cursor *)base;
  const struct list_kind *kind = kind_of(cursor);
  emb_assert(cursor->row < cursor->n);
  if (column == kind->argument_column)
    sqlite3_result_value(context, cursor->argument);
  else if (column != kind->value_column)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->row);
  else if (kind->is_keys)
    sqlite3_result_int64(context, cursor->keys[cursor->row]);
  else
    sqlite3_result_double(context, (double)cursor->floats[cursor->row]);
  return SQLITE_OK;
}

static int each_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  *rowid = (sqlite3_int64)((struct each_cursor *)base)->row;
  return SQLITE_OK;
}

/* xCreate is NULL: the table always exists under this name, and no other can be
** created. */
static const sqlite3_module list_module = {
    .xConnect = list_connect,
    .xBestIndex = list_best_index,
    .xDisconnect = list_disconnect,
    .xOpen = list_open,
    .xClose = list_close,
    .xFilter = list_filter,
    .xNext = list_next,
    .xEof = list_eof,
    .xColumn = each_column,
    .xRowid = each_rowid,
};

int ext_register_vector_tables(sqlite3 *db) {
  static const struct list_kind kinds[] = {
      {"emb_each", "CREATE TABLE x(idx INTEGER, value REAL, vector HIDDEN)", 1,
       2, 0},
      {"emb_keys", "CREATE TABLE x(value INTEGER, keys HIDDEN)", 0, 1, 1},
  };
  size_t i;
  int rc = SQLITE_OK;
  for (i = 0; rc == SQLITE_OK && i < sizeof kinds / sizeof *kinds; i++)
    rc = sqlite3_create_module(db, kinds[i].name, &list_module,
                               (void *)(uintptr_t)&kinds[i]);
  return rc;
}
