/* SPDX-License-Identifier: MIT
**
** table.c -- an embedding table in batches; see table.h.
*/
#include "table.h"

#include <limits.h>
#include <string.h>

void table_open(struct table *table, sqlite3 *db, const char *name,
                size_t width) {
  table->db = db;
  table->name = name;
  table->width = width;
  table->get = statement_new(db, "SELECT emb_get(?1, ?2)");
  table->put = statement_new(db, "SELECT emb_put(?1, ?2, ?3)");
  char *find = sqlite3_mprintf("SELECT vectors, found FROM \"%w\"(?1)", name);
  table->find = statement_new(db, find);
  sqlite3_free(find);
  table->statistic =
      statement_new(db, "SELECT value FROM emb_stats(?1) WHERE name = ?2");
}

void table_peek_only(struct table *table) {
  sqlite3_finalize(table->get);
  table->get = statement_new(table->db, "SELECT emb_peek(?1, ?2)");
}

void table_close(struct table *table) {
  sqlite3_finalize(table->get);
  sqlite3_finalize(table->find);
  sqlite3_finalize(table->put);
  sqlite3_finalize(table->statistic);
}

static void bind_keys(struct table *table, sqlite3_stmt *statement,
                      const int64_t *keys, size_t count) {
  sqlite3_bind_text(statement, 1, table->name, -1, SQLITE_STATIC);
  sqlite3_bind_blob64(statement, 2, keys, count * sizeof(*keys), SQLITE_STATIC);
}

/* A column of a statement's current row. */
static const void *column(sqlite3_stmt *statement, int number, size_t bytes) {
  const void *blob = sqlite3_column_blob(statement, number);
  if ((size_t)sqlite3_column_bytes(statement, number) != bytes ||
      bytes > INT_MAX) {
    die("a batch gave a result of the wrong size");
  }
  return blob;
}

void table_get(struct table *table, const int64_t *keys, size_t count,
               float *rows) {
  size_t bytes = count * table->width * sizeof(float);
  bind_keys(table, table->get, keys, count);
  if (!statement_step(table->get)) {
    die("emb_get gave no row");
  }
  memcpy(rows, column(table->get, 0, bytes), bytes);
  statement_end(table->get);
}

const float *table_find(struct table *table, const int64_t *keys, size_t count,
                        const uint8_t **found) {
  sqlite3_bind_blob64(table->find, 1, keys, count * sizeof(*keys),
                      SQLITE_STATIC);
  if (!statement_step(table->find)) {
    die("%s(keys) gave no row", table->name);
  }
  *found = column(table->find, 1, count);
  return column(table->find, 0, count * table->width * sizeof(float));
}

void table_find_end(struct table *table) { statement_end(table->find); }

void table_put(struct table *table, const int64_t *keys, size_t count,
               const float *rows) {
  bind_keys(table, table->put, keys, count);
  sqlite3_bind_blob64(table->put, 3, rows, count * table->width * sizeof(float),
                      SQLITE_STATIC);
  while (statement_step(table->put)) {
  }
  statement_end(table->put);
}

int64_t table_statistic(struct table *table, const char *counter) {
  sqlite3_bind_text(table->statistic, 1, table->name, -1, SQLITE_STATIC);
  sqlite3_bind_text(table->statistic, 2, counter, -1, SQLITE_STATIC);
  if (!statement_step(table->statistic)) {
    die("emb_stats has no counter %s", counter);
  }
  int64_t value = sqlite3_column_int64(table->statistic, 0);
  statement_end(table->statistic);
  return value;
}
