/* SPDX-License-Identifier: MIT
**
** trivial.c -- a virtual table over an array; see trivial.h.
**
** key = ? is one row; anything else is all rows.  UPDATE changes the vector.
** No checks, no transactions.
*/
#include "trivial.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct array {
  float *vectors;
  size_t dim, keys;
  sqlite3_destructor_type lifetime;
};

struct table {
  sqlite3_vtab base;
  const struct array *array;
};

struct cursor {
  sqlite3_vtab_cursor base;
  sqlite3_int64 key, last;
};

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                   sqlite3_vtab **vtab, char **error) {
  (void)argc, (void)argv, (void)error;
  struct table *table = sqlite3_malloc(sizeof(*table));
  if (!table) {
    return SQLITE_NOMEM;
  }
  memset(table, 0, sizeof(*table));
  table->array = aux;
  *vtab = &table->base;
  return sqlite3_declare_vtab(
      db, "CREATE TABLE x(key INTEGER PRIMARY KEY, vector BLOB)");
}

static int disconnect(sqlite3_vtab *vtab) {
  sqlite3_free(vtab);
  return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  info->estimatedCost = 1e9;
  for (int i = 0; i < info->nConstraint; i++) {
    if (info->aConstraint[i].usable && info->aConstraint[i].iColumn <= 0 &&
        info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ) {
      info->aConstraintUsage[i].argvIndex = 1;
      info->aConstraintUsage[i].omit = 1;
      info->idxNum = 1;
      info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
      info->estimatedRows = 1;
      info->estimatedCost = 1;
      break;
    }
  }
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **to) {
  (void)vtab;
  struct cursor *cursor = sqlite3_malloc(sizeof(*cursor));
  if (!cursor) {
    return SQLITE_NOMEM;
  }
  memset(cursor, 0, sizeof(*cursor));
  *to = &cursor->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  sqlite3_free(base);
  return SQLITE_OK;
}

static const struct array *array_of(sqlite3_vtab_cursor *base) {
  return ((struct table *)base->pVtab)->array;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *text,
                  int argc, sqlite3_value **argv) {
  (void)text, (void)argc;
  struct cursor *cursor = (struct cursor *)base;
  cursor->key = number ? sqlite3_value_int64(argv[0]) : 1;
  cursor->last = number ? cursor->key : (sqlite3_int64)array_of(base)->keys;
  return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base) {
  ((struct cursor *)base)->key++;
  return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base) {
  struct cursor *cursor = (struct cursor *)base;
  return cursor->key > cursor->last;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  const struct array *array = array_of(base);
  sqlite3_int64 key = ((struct cursor *)base)->key;
  if (i == 0) {
    sqlite3_result_int64(context, key);
  } else if (!sqlite3_vtab_nochange(context)) {
    sqlite3_result_blob(context,
                        array->vectors + (size_t)(key - 1) * array->dim,
                        (int)(array->dim * sizeof(float)), array->lifetime);
  }
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id) {
  *id = ((struct cursor *)base)->key;
  return SQLITE_OK;
}

static int update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
                  sqlite3_int64 *id) {
  const struct array *array = ((struct table *)vtab)->array;
  (void)id;
  if (argc != 4 || sqlite3_value_type(argv[0]) != SQLITE_INTEGER) {
    return SQLITE_READONLY;
  }
  sqlite3_int64 key = sqlite3_value_int64(argv[0]);
  memcpy(array->vectors + (size_t)(key - 1) * array->dim,
         sqlite3_value_blob(argv[3]), array->dim * sizeof(float));
  return SQLITE_OK;
}

static const sqlite3_module module = {
    .xCreate = connect,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xDestroy = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
    .xUpdate = update,
};

static void add(sqlite3 *db, const char *name, const struct array *from,
                sqlite3_destructor_type lifetime) {
  struct array *array = need(1, sizeof(*array));
  *array = *from;
  array->lifetime = lifetime;
  if (sqlite3_create_module_v2(db, name, &module, array, free)) {
    die("%s", sqlite3_errmsg(db));
  }
}

void trivial_register(sqlite3 *db, float *vectors, size_t dim, size_t keys) {
  struct array array = {vectors, dim, keys, SQLITE_STATIC};
  add(db, "trivial", &array, SQLITE_STATIC);
  add(db, "trivial_copied", &array, SQLITE_TRANSIENT);
}
