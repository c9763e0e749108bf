/* SPDX-License-Identifier: MIT
**
** sql.c -- SQLite in a few lines; see sql.h.
*/
#include "sql.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "harness.h"
#include "keys.h"

sqlite3 *sql_open(const char *file, const char *extension) {
  sqlite3 *db;
  if (sqlite3_open_v2(file, &db,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                          SQLITE_OPEN_NOMUTEX,
                      NULL)) {
    die("%s: %s", file, sqlite3_errmsg(db));
  }
  sqlite3_busy_timeout(db, 60000);
  if (extension) {
    char *message = NULL;
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    if (sqlite3_load_extension(db, extension, "sqlite3_emb_init", &message)) {
      die("%s: %s", extension, message ? message : sqlite3_errmsg(db));
    }
  }
  return db;
}

void sql_close(sqlite3 *db) {
  if (sqlite3_close(db)) {
    die("sqlite3_close: %s", sqlite3_errmsg(db));
  }
}

static char *text_of(const char *format, va_list args) {
  char *sql = sqlite3_vmprintf(format, args);
  if (!sql) {
    die("out of memory");
  }
  return sql;
}

void sql_run(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = text_of(format, args);
  va_end(args);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL)) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  sqlite3_free(sql);
}

sqlite3_stmt *sql_prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                         NULL)) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  return statement;
}

int sql_step(sqlite3_stmt *statement) {
  int rc = sqlite3_step(statement);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
    die("%s\n  in: %s", sqlite3_errmsg(sqlite3_db_handle(statement)),
        sqlite3_sql(statement));
  }
  return rc == SQLITE_ROW;
}

void sql_do(sqlite3_stmt *statement) {
  while (sql_step(statement)) {
  }
  sqlite3_reset(statement);
}

sqlite3_int64 sql_number(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = text_of(format, args);
  va_end(args);
  sqlite3_stmt *statement = sql_prepare(db, sql);
  sqlite3_int64 value =
      sql_step(statement) ? sqlite3_column_int64(statement, 0) : -1;
  sqlite3_finalize(statement);
  sqlite3_free(sql);
  return value;
}

void sql_fill(sqlite3 *db, size_t dim, int64_t first, size_t n) {
  int64_t keys[BATCH];
  float *vectors = need(BATCH * dim, sizeof *vectors);
  sqlite3_stmt *put = sql_prepare(db, "SELECT emb_put('items', ?, ?)");
  for (size_t from = 0; from < n; from += BATCH) {
    size_t some = n - from < BATCH ? n - from : BATCH;
    for (size_t i = 0; i < some; i++) {
      keys[i] = first + (int64_t)(from + i);
      vector_fill(vectors + i * dim, dim, keys[i], 1);
    }
    sqlite3_bind_blob64(put, 1, keys, some * sizeof *keys, SQLITE_STATIC);
    sqlite3_bind_blob64(put, 2, vectors, some * dim * sizeof *vectors,
                        SQLITE_STATIC);
    sql_do(put);
  }
  sqlite3_finalize(put);
  free(vectors);
}

void sql_neighbours(sqlite3_stmt *statement, size_t dim, const float *queries,
                    size_t n, size_t k, int64_t *keys, double *distances) {
  for (size_t i = 0; i < n; i++) {
    size_t at = i * k, end = at + k;
    sqlite3_bind_blob(statement, 1, queries + i * dim,
                      (int)(dim * sizeof(float)), SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)k);
    for (; at < end && sql_step(statement); at++) {
      keys[at] = sqlite3_column_int64(statement, 0);
      distances[at] = sqlite3_column_double(statement, 1);
    }
    for (; at < end; at++) {
      keys[at] = 0;
      distances[at] = INFINITY;
    }
    sqlite3_reset(statement);
  }
}
