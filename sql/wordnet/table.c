/* SPDX-License-Identifier: MIT
**
** table.c -- the demo's side of SQL; see table.h.
*/
#include "table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- graph ------------------------------------------------------------- */

int64_t *graph_keys(sqlite3 *db, const char *from, size_t *count) {
  char *sql = sqlite3_mprintf(
      "SELECT id, count(*) OVER () FROM \"%w\" ORDER BY id", from);
  sqlite3_stmt *statement = statement_new(db, sql);
  int64_t *keys = NULL;
  *count = 0;
  while (statement_step(statement)) {
    if (!keys) {
      keys = need((size_t)sqlite3_column_int64(statement, 1), sizeof(*keys));
    }
    keys[(*count)++] = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_free(sql);
  return keys;
}

static int compare_keys(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static uint32_t position(const int64_t *keys, size_t entities, int64_t key) {
  const int64_t *at =
      bsearch(&key, keys, entities, sizeof(*keys), compare_keys);
  if (!at) {
    die("synset %lld is not an entity", (long long)key);
  }
  return (uint32_t)(at - keys);
}

struct triple *graph_triples(sqlite3 *db, const char *split,
                             const int64_t *keys, size_t entities,
                             size_t *count) {
  sqlite3_stmt *statement = statement_new(
      db, "SELECT head, relation, tail, count(*) OVER () FROM triple"
          " WHERE ?1 IS NULL OR split = ?1"
          " ORDER BY head, relation, tail");
  sqlite3_bind_text(statement, 1, split, -1, SQLITE_STATIC);
  struct triple *triples = NULL;
  *count = 0;
  while (statement_step(statement)) {
    if (!triples) {
      size_t all = (size_t)sqlite3_column_int64(statement, 3);
      triples = need(all, sizeof(*triples));
    }
    struct triple *to = &triples[(*count)++];
    to->head = position(keys, entities, sqlite3_column_int64(statement, 0));
    to->relation = (uint32_t)sqlite3_column_int(statement, 1) - 1;
    to->tail = position(keys, entities, sqlite3_column_int64(statement, 2));
  }
  sqlite3_finalize(statement);
  return triples;
}

/* ---- embedding tables -------------------------------------------------- */

void table_open(struct table *table, sqlite3 *db, const char *name,
                size_t width) {
  table->db = db;
  table->name = name;
  table->width = width;
  table->get = statement_new(db, "SELECT emb_get(?1, ?2)");
  table->put = statement_new(db, "SELECT emb_put(?1, ?2, ?3)");
  table->statistic =
      statement_new(db, "SELECT value FROM emb_stats(?1) WHERE name = ?2");
}

void table_peek_only(struct table *table) {
  sqlite3_finalize(table->get);
  table->get = statement_new(table->db, "SELECT emb_peek(?1, ?2)");
}

void table_close(struct table *table) {
  sqlite3_finalize(table->get);
  sqlite3_finalize(table->put);
  sqlite3_finalize(table->statistic);
}

static void bind_keys(struct table *table, sqlite3_stmt *statement,
                      const int64_t *keys, size_t count) {
  sqlite3_bind_text(statement, 1, table->name, -1, SQLITE_STATIC);
  sqlite3_bind_blob64(statement, 2, keys, count * sizeof(*keys), SQLITE_STATIC);
}

void table_get(struct table *table, const int64_t *keys, size_t count,
               float *rows) {
  size_t bytes = count * table->width * sizeof(float);
  bind_keys(table, table->get, keys, count);
  if (!statement_step(table->get)) {
    die("emb_get gave no row");
  }
  const void *blob = sqlite3_column_blob(table->get, 0);
  if ((size_t)sqlite3_column_bytes(table->get, 0) != bytes || bytes > INT_MAX) {
    die("emb_get gave a result of the wrong size");
  }
  memcpy(rows, blob, bytes);
  statement_end(table->get);
}

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
