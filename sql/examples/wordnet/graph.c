/* SPDX-License-Identifier: MIT
**
** graph.c -- the graph, read from SQL; see graph.h.
*/
#include "graph.h"

#include <stdlib.h>

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
