/* SPDX-License-Identifier: MIT
**
** table.c -- the demo's side of SQL; see table.h.
*/
#include "table.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fflush(stdout);
  fputs("train: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

void *need(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) {
    die("out of memory");
  }
  return memory;
}

/* ---- statements -------------------------------------------------------- */

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  return statement;
}

/* 1 when there is a row, 0 at the end. */
static int step(sqlite3_stmt *statement) {
  int rc = sqlite3_step(statement);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
    die("%s\n  in: %s", sqlite3_errmsg(sqlite3_db_handle(statement)),
        sqlite3_sql(statement));
  }
  return rc == SQLITE_ROW;
}

sqlite3 *database_open(const char *file, const char *extension) {
  sqlite3 *db = NULL;
  if (sqlite3_open(file, &db) != SQLITE_OK) {
    die("%s: %s", file, sqlite3_errmsg(db));
  }
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  char *message = NULL;
  if (sqlite3_load_extension(db, extension, "sqlite3_emb_init", &message)) {
    die("%s", message ? message : sqlite3_errmsg(db));
  }
  return db;
}

void database_run(sqlite3 *db, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (!sql) {
    die("out of memory");
  }
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
    die("%s\n  in: %s", sqlite3_errmsg(db), sql);
  }
  sqlite3_free(sql);
}

void database_close(sqlite3 *db) {
  if (sqlite3_close(db) != SQLITE_OK) {
    die("close: %s", sqlite3_errmsg(db));
  }
}

/* ---- graph ------------------------------------------------------------- */

int64_t *graph_keys(sqlite3 *db, const char *from, size_t *count) {
  char *sql = sqlite3_mprintf(
      "SELECT id, count(*) OVER () FROM \"%w\" ORDER BY id", from);
  sqlite3_stmt *statement = prepare(db, sql);
  int64_t *keys = NULL;
  *count = 0;
  while (step(statement)) {
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
  sqlite3_stmt *statement =
      prepare(db, "SELECT head, relation, tail, count(*) OVER () FROM triple"
                  " WHERE ?1 IS NULL OR split = ?1"
                  " ORDER BY head, relation, tail");
  sqlite3_bind_text(statement, 1, split, -1, SQLITE_STATIC);
  struct triple *triples = NULL;
  *count = 0;
  while (step(statement)) {
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
  table->get = prepare(db, "SELECT emb_get(?1, ?2)");
  table->put = prepare(db, "SELECT emb_put(?1, ?2, ?3)");
  table->statistic =
      prepare(db, "SELECT value FROM emb_stats(?1) WHERE name = ?2");
}

void table_peek_only(struct table *table) {
  sqlite3_finalize(table->get);
  table->get = prepare(table->db, "SELECT emb_peek(?1, ?2)");
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

static void done(sqlite3_stmt *statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
}

void table_get(struct table *table, const int64_t *keys, size_t count,
               float *rows) {
  size_t bytes = count * table->width * sizeof(float);
  bind_keys(table, table->get, keys, count);
  if (!step(table->get)) {
    die("emb_get gave no row");
  }
  const void *blob = sqlite3_column_blob(table->get, 0);
  if ((size_t)sqlite3_column_bytes(table->get, 0) != bytes || bytes > INT_MAX) {
    die("emb_get gave a result of the wrong size");
  }
  memcpy(rows, blob, bytes);
  done(table->get);
}

void table_put(struct table *table, const int64_t *keys, size_t count,
               const float *rows) {
  bind_keys(table, table->put, keys, count);
  sqlite3_bind_blob64(table->put, 3, rows, count * table->width * sizeof(float),
                      SQLITE_STATIC);
  while (step(table->put)) {
  }
  done(table->put);
}

int64_t table_statistic(struct table *table, const char *counter) {
  sqlite3_bind_text(table->statistic, 1, table->name, -1, SQLITE_STATIC);
  sqlite3_bind_text(table->statistic, 2, counter, -1, SQLITE_STATIC);
  if (!step(table->statistic)) {
    die("emb_stats has no counter %s", counter);
  }
  int64_t value = sqlite3_column_int64(table->statistic, 0);
  done(table->statistic);
  return value;
}
