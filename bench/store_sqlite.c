/* SPDX-License-Identifier: MIT
**
** store_sqlite.c -- a plain SQLite table: key INTEGER PRIMARY KEY, a BLOB.
**
** Write-ahead log, synchronous=OFF; one transaction per batch, prepared
** statements.  If everything fits, the file is mapped (faster than the page
** cache here).  Under a memory limit it is not mapped, each connection has a
** cache of 3/8 of the limit, and the system's page cache uses the rest.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "sql.h"
#include "store.h"

struct table {
  char file[512];
  size_t dim;
  uint64_t memory_bytes;
  sqlite3 *db;
};

struct session {
  sqlite3 *db;
  sqlite3_stmt *begin, *begin_write, *commit, *get, *put;
  size_t dim;
};

static sqlite3 *connect(const struct table *table) {
  sqlite3 *db = sql_open(table->file, NULL);
  sql_run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
              "PRAGMA wal_autocheckpoint = 16384");
  if (table->memory_bytes) {
    sql_run(db, "PRAGMA cache_size = -%lld; PRAGMA mmap_size = 0",
            (long long)(table->memory_bytes * 3 / 8 / 1024));
  } else {
    sql_run(db, "PRAGMA cache_size = -65536; PRAGMA mmap_size = 68719476736");
  }
  return db;
}

static void *table_open(const struct store_options *options) {
  struct table *table = need(1, sizeof(*table));
  snprintf(table->file, sizeof(table->file), "%s/plain.db", options->directory);
  table->dim = options->dim;
  table->memory_bytes = options->memory_bytes;
  table->db = connect(table);
  if (options->create) {
    sql_run(table->db,
            "CREATE TABLE items(key INTEGER PRIMARY KEY, vector BLOB)");
  }
  return table;
}

static void table_close(void *store) {
  struct table *table = store;
  sql_close(table->db);
  free(table);
}

static void *session_open(void *store) {
  struct table *table = store;
  struct session *s = need(1, sizeof(*s));
  s->db = connect(table);
  s->dim = table->dim;
  s->begin = sql_prepare(s->db, "BEGIN");
  s->begin_write = sql_prepare(s->db, "BEGIN IMMEDIATE");
  s->commit = sql_prepare(s->db, "COMMIT");
  s->get = sql_prepare(s->db, "SELECT vector FROM items WHERE key = ?");
  s->put = sql_prepare(s->db, "REPLACE INTO items VALUES (?, ?)");
  return s;
}

static void session_close(void *session) {
  struct session *s = session;
  sqlite3_finalize(s->begin);
  sqlite3_finalize(s->begin_write);
  sqlite3_finalize(s->commit);
  sqlite3_finalize(s->get);
  sqlite3_finalize(s->put);
  sql_close(s->db);
  free(s);
}

static const float *get(void *session, const int64_t *keys, size_t n,
                        float *buffer) {
  struct session *s = session;
  size_t bytes = s->dim * sizeof(float);
  sql_do(s->begin);
  for (size_t i = 0; i < n; i++) {
    sqlite3_bind_int64(s->get, 1, keys[i]);
    if (!sql_step(s->get) || (size_t)sqlite3_column_bytes(s->get, 0) != bytes) {
      die("SQLite: key %lld is absent", (long long)keys[i]);
    }
    memcpy(buffer + i * s->dim, sqlite3_column_blob(s->get, 0), bytes);
    sqlite3_reset(s->get);
  }
  sql_do(s->commit);
  return buffer;
}

static void put(void *session, const int64_t *keys, size_t n,
                const float *vectors) {
  struct session *s = session;
  size_t bytes = s->dim * sizeof(float);
  sql_do(s->begin_write);
  for (size_t i = 0; i < n; i++) {
    sqlite3_bind_int64(s->put, 1, keys[i]);
    sqlite3_bind_blob(s->put, 2, vectors + i * s->dim, (int)bytes,
                      SQLITE_STATIC);
    sql_do(s->put);
  }
  sql_do(s->commit);
}

/* The write-ahead log is checkpointed and the file synced outside the
** measurement, in SQLite's favour. */
static void rest(void *store) {
  struct table *table = store;
  sql_run(table->db, "PRAGMA wal_checkpoint(PASSIVE)");
}

const struct store_kind store_sqlite = {
    .name = "SQLite table",
    .about = "key INTEGER PRIMARY KEY, BLOB; WAL, synchronous=OFF",
    .open = table_open,
    .close = table_close,
    .session_open = session_open,
    .session_close = session_close,
    .get = get,
    .put = put,
    .rest = rest,
};
