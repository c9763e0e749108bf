/* SPDX-License-Identifier: MIT
**
** value.c -- reads ids and features from SQLite's columns as bytes, and binds
** them to its parameters.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <xxhash.h>

int ext_join_column(sqlite3_stmt *row, int i, struct join_value *value) {
  sqlite3_int64 whole;
  double real;
  *value = (struct join_value){.type = sqlite3_column_type(row, i)};
  switch (value->type) {
  case SQLITE_INTEGER:
    whole = sqlite3_column_int64(row, i);
    memcpy(&value->bits, &whole, sizeof whole);
    value->n = sizeof whole;
    break;
  case SQLITE_FLOAT:
    real = sqlite3_column_double(row, i);
    memcpy(&value->bits, &real, sizeof real);
    value->n = sizeof real;
    break;
  case SQLITE_TEXT:
    value->at = sqlite3_column_text(row, i);
    value->n = (size_t)sqlite3_column_bytes(row, i);
    return value->at ? SQLITE_OK : SQLITE_NOMEM;
  case SQLITE_BLOB:
    value->at = sqlite3_column_blob(row, i);
    value->n = (size_t)sqlite3_column_bytes(row, i);
    return value->at || value->n == 0 ? SQLITE_OK : SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

int ext_join_bind(sqlite3_stmt *statement, int i,
                  const struct join_value *value) {
  sqlite3_int64 whole;
  double real;
  switch (value->type) {
  case SQLITE_INTEGER:
    memcpy(&whole, join_bytes(value), sizeof whole);
    return sqlite3_bind_int64(statement, i, whole);
  case SQLITE_FLOAT:
    memcpy(&real, join_bytes(value), sizeof real);
    return sqlite3_bind_double(statement, i, real);
  case SQLITE_TEXT:
    return sqlite3_bind_text64(statement, i, join_bytes(value), value->n,
                               SQLITE_STATIC, SQLITE_UTF8);
  case SQLITE_BLOB:
    return sqlite3_bind_blob64(statement, i, join_bytes(value), value->n,
                               SQLITE_STATIC);
  }
  return sqlite3_bind_null(statement, i);
}

/* The hash is also stored in the tables, so an id and type must always hash the
** same. */
uint64_t ext_join_hash(const struct join_value *id) {
  return XXH3_64bits_withSeed(join_bytes(id), id->n, (XXH64_hash_t)id->type);
}
