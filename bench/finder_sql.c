/* SPDX-License-Identifier: MIT
**
** finder_sql.c -- emb through SQL: SELECT key, distance ... WHERE vector MATCH.
** A statement uses as many threads as there are processors.
*/
#include <stdlib.h>

#include "finder.h"
#include "harness.h"
#include "sql.h"

enum { ROWS = 8192 };

struct emb_sql {
  sqlite3 *db;
  sqlite3_stmt *nearest;
  size_t dim;
};

static void fill(sqlite3 *db, const struct points *points) {
  sqlite3_stmt *put = sql_prepare(db, "SELECT emb_put('items', ?, ?)");
  int64_t *keys = need(ROWS, sizeof(*keys));
  for (size_t from = 0; from < points->n; from += ROWS) {
    size_t left = points->n - from, n = left < ROWS ? left : ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i + 1);
    }
    sqlite3_bind_blob(put, 1, keys, (int)(n * sizeof(*keys)), SQLITE_STATIC);
    sqlite3_bind_blob64(put, 2, points->vectors + from * points->dim,
                        n * points->dim * sizeof(float), SQLITE_STATIC);
    sql_do(put);
  }
  sqlite3_finalize(put);
  free(keys);
}

static void *emb_sql_open(const struct finder_options *options) {
  const struct points *points = options->points;
  struct emb_sql *emb = need(1, sizeof(*emb));
  emb->dim = points->dim;
  emb->db = sql_open(path("%s/emb.db", options->directory), options->extension);
  sql_run(emb->db,
          "PRAGMA journal_mode = WAL;"
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d], memory=%lld)",
          (int)points->dim,
          (long long)(points->n * (points->dim * sizeof(float) + 64) +
                      ((uint64_t)256 << 20)));
  /* An emb.so without MATCH cannot prepare the statement. */
  if (sqlite3_prepare_v2(emb->db,
                         "SELECT key, distance FROM items"
                         " WHERE vector MATCH ? AND k = ?",
                         -1, &emb->nearest, NULL)) {
    sql_close(emb->db);
    free(emb);
    return NULL;
  }
  fill(emb->db, points);
  return emb;
}

static void emb_sql_close(void *finder) {
  struct emb_sql *emb = finder;
  sqlite3_finalize(emb->nearest);
  sql_close(emb->db);
  free(emb);
}

static void emb_sql_ask(void *finder, const struct question *question,
                        int64_t *keys, double *distances) {
  struct emb_sql *emb = finder;
  sql_neighbours(emb->nearest, emb->dim, question->queries, question->n,
                 question->k, keys, distances);
}

const struct finder_kind finder_emb_sql = {
    .name = "emb SQL",
    .about = "by MATCH, all in memory",
    .open = emb_sql_open,
    .close = emb_sql_close,
    .ask = emb_sql_ask,
};
