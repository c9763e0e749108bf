/* SPDX-License-Identifier: MIT
**
** finder_vec.c -- sqlite-vec as its users have it: the shared library of its
** npm package, with a vec0 table in an in-memory database.  It works in the
** calling thread.
*/
#include <stdlib.h>
#include <unistd.h>

#include "finder.h"
#include "harness.h"
#include "sql.h"

struct vec {
  sqlite3 *db;
  sqlite3_stmt *nearest;
  size_t dim;
};

static void load(sqlite3 *db, const struct points *points) {
  sql_run(db, "CREATE VIRTUAL TABLE points USING vec0(vector FLOAT[%d]); BEGIN",
          (int)points->dim);
  sqlite3_stmt *insert =
      sql_prepare(db, "INSERT INTO points(rowid, vector) VALUES(?, ?)");
  for (size_t i = 0; i < points->n; i++) {
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)i + 1);
    sqlite3_bind_blob(insert, 2, points->vectors + i * points->dim,
                      (int)(points->dim * sizeof(float)), SQLITE_STATIC);
    sql_do(insert);
  }
  sqlite3_finalize(insert);
  sql_run(db, "COMMIT");
}

static void *vec_open(const struct finder_options *options) {
  const char *library = path("%s/vec0.so", options->results);
  char *message = NULL;
  if (access(library, R_OK)) {
    return NULL;
  }
  struct vec *vec = need(1, sizeof(*vec));
  vec->db = sql_open(":memory:", NULL);
  sqlite3_db_config(vec->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  if (sqlite3_load_extension(vec->db, library, "sqlite3_vec_init", &message)) {
    die("%s: %s", library, message);
  }
  load(vec->db, options->points);
  vec->dim = options->points->dim;
  vec->nearest = sql_prepare(vec->db, "SELECT rowid, distance FROM points"
                                      " WHERE vector MATCH ? AND k = ?");
  return vec;
}

static void vec_close(void *finder) {
  struct vec *vec = finder;
  sqlite3_finalize(vec->nearest);
  sql_close(vec->db);
  free(vec);
}

static void vec_ask(void *finder, const struct question *question,
                    int64_t *keys, double *distances) {
  struct vec *vec = finder;
  sql_neighbours(vec->nearest, vec->dim, question->queries, question->n,
                 question->k, keys, distances);
}

const struct finder_kind finder_sqlite_vec = {
    .name = "sqlite-vec",
    .about = "vec0 in memory, by MATCH, one thread",
    .open = vec_open,
    .close = vec_close,
    .ask = vec_ask,
};
