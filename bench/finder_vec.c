/* SPDX-License-Identifier: MIT
**
** finder_vec.c -- sqlite-vec as its users have it: the shared library of its
** npm package, with a vec0 table in an in-memory database, without an index and
** with those that later versions have.  It works in the calling thread.
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

/* 0: this version has no such index. */
static int create(sqlite3 *db, const struct points *points, const char *index) {
  char *text = sqlite3_mprintf(
      "CREATE VIRTUAL TABLE points USING vec0(vector FLOAT[%d] %s)",
      (int)points->dim, index);
  int rc = sqlite3_exec(db, text, NULL, NULL, NULL);
  sqlite3_free(text);
  return rc == SQLITE_OK;
}

static void load(sqlite3 *db, const struct points *points) {
  sql_run(db, "BEGIN");
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

static void *open_with(const struct finder_options *options,
                       const char *index) {
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
  if (!create(vec->db, options->points, index)) {
    sql_close(vec->db);
    free(vec);
    return NULL;
  }
  load(vec->db, options->points);
  vec->dim = options->points->dim;
  vec->nearest = sql_prepare(vec->db, "SELECT rowid, distance FROM points"
                                      " WHERE vector MATCH ? AND k = ?");
  return vec;
}

static void *vec_open(const struct finder_options *options) {
  return open_with(options, "");
}

static void *bits_open(const struct finder_options *options) {
  return open_with(options, "INDEXED BY rescore(quantizer=bit)");
}

static void *int8_open(const struct finder_options *options) {
  return open_with(options, "INDEXED BY rescore(quantizer=int8)");
}

static void *diskann_open(const struct finder_options *options) {
  return open_with(options, "INDEXED BY diskann(neighbor_quantizer=binary)");
}

static void vec_close(void *finder) {
  struct vec *vec = finder;
  sqlite3_finalize(vec->nearest);
  /* Its rescore index leaves statements behind (0.1.10-alpha.3). */
  (void)sqlite3_close_v2(vec->db);
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

const struct finder_kind finder_vec_bits = {
    .name = "sqlite-vec rescore, bits",
    .about = "vec0 INDEXED BY rescore(quantizer=bit)",
    .open = bits_open,
    .close = vec_close,
    .ask = vec_ask,
};

const struct finder_kind finder_vec_int8 = {
    .name = "sqlite-vec rescore, int8",
    .about = "vec0 INDEXED BY rescore(quantizer=int8)",
    .open = int8_open,
    .close = vec_close,
    .ask = vec_ask,
};

const struct finder_kind finder_vec_diskann = {
    .name = "sqlite-vec DiskANN",
    .about = "vec0 INDEXED BY diskann(neighbor_quantizer=binary)",
    .open = diskann_open,
    .close = vec_close,
    .ask = vec_ask,
};
