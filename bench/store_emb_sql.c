/* SPDX-License-Identifier: MIT
**
** store_emb_sql.c -- emb through SQL, with prepared statements: Get by emb_get
** or by the table-valued function, Put by emb_put.
**
** The extension is loaded in the usual way.  Its engine and the one that
** store_emb.c is linked with are independent; each has its own table.  A result
** stays where SQLite has it until the session's next call, as a program would
** use it.  The budget is fixed when the table is created: under a memory limit
** the caller must know the size of the index.
*/
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "sql.h"
#include "store.h"

struct emb_sql {
  char file[512], extension[512];
  size_t dim;
  sqlite3 *db; /* keeps the table open, and reads statistics */
};

struct session {
  sqlite3 *db;
  sqlite3_stmt *get, *table, *put;
  size_t dim;
};

static void *emb_sql_open(const struct store_options *options) {
  struct emb_sql *emb = need(1, sizeof(*emb));
  snprintf(emb->file, sizeof(emb->file), "%s/emb.db", options->directory);
  snprintf(emb->extension, sizeof(emb->extension), "%s", options->extension);
  emb->dim = options->dim;
  emb->db = sql_open(emb->file, emb->extension);
  if (options->create) {
    uint64_t memory = options->budget_bytes;
    if (!memory) {
      memory = (options->keys + 100000) * (options->dim * 4 + 32) +
               (UINT64_C(512) << 20);
    }
    sql_run(emb->db,
            "PRAGMA journal_mode = WAL;"
            "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d],"
            " memory=%lld)",
            (int)options->dim, (long long)memory);
  }
  /* the first statement connects the table, which opens the store */
  sql_number(emb->db, "SELECT value FROM emb_stats('items')");
  return emb;
}

static void emb_sql_close(void *store) {
  struct emb_sql *emb = store;
  sql_close(emb->db);
  free(emb);
}

static void *emb_sql_session_open(void *store) {
  struct emb_sql *emb = store;
  struct session *s = need(1, sizeof(*s));
  s->db = sql_open(emb->file, emb->extension);
  s->dim = emb->dim;
  s->get = sql_prepare(s->db, "SELECT emb_get('items', ?)");
  s->table = sql_prepare(s->db, "SELECT vectors FROM items(?)");
  s->put = sql_prepare(s->db, "SELECT emb_put('items', ?, ?)");
  return s;
}

static void emb_sql_session_close(void *session) {
  struct session *s = session;
  sqlite3_finalize(s->get);
  sqlite3_finalize(s->table);
  sqlite3_finalize(s->put);
  sql_close(s->db);
  free(s);
}

static const float *get_by(sqlite3_stmt *statement, const int64_t *keys,
                           size_t n, size_t dim) {
  sqlite3_reset(statement);
  sqlite3_bind_blob64(statement, 1, keys, n * sizeof(*keys), SQLITE_STATIC);
  if (!sql_step(statement) ||
      (size_t)sqlite3_column_bytes(statement, 0) != n * dim * sizeof(float)) {
    die("emb gave no vectors");
  }
  return sqlite3_column_blob(statement, 0);
}

static const float *get_by_function(void *session, const int64_t *keys,
                                    size_t n, float *buffer) {
  struct session *s = session;
  (void)buffer;
  return get_by(s->get, keys, n, s->dim);
}

static const float *get_by_table(void *session, const int64_t *keys, size_t n,
                                 float *buffer) {
  struct session *s = session;
  (void)buffer;
  return get_by(s->table, keys, n, s->dim);
}

static void put(void *session, const int64_t *keys, size_t n,
                const float *vectors) {
  struct session *s = session;
  sqlite3_bind_blob64(s->put, 1, keys, n * sizeof(*keys), SQLITE_STATIC);
  sqlite3_bind_blob64(s->put, 2, vectors, n * s->dim * sizeof(float),
                      SQLITE_STATIC);
  sql_do(s->put);
}

static int64_t figure(void *store, const char *name) {
  return sql_number(((struct emb_sql *)store)->db,
                    "SELECT value FROM emb_stats('items') WHERE name = %Q",
                    name);
}

const struct store_kind store_emb_sql = {
    .name = "emb SQL",
    .about = "SELECT emb_get('items', ?) and SELECT emb_put('items', ?, ?)",
    .open = emb_sql_open,
    .close = emb_sql_close,
    .session_open = emb_sql_session_open,
    .session_close = emb_sql_session_close,
    .get = get_by_function,
    .put = put,
    .figure = figure,
};

const struct store_kind store_emb_table = {
    .name = "emb SQL items(?)",
    .about = "SELECT vectors FROM items(?), the same table as emb SQL",
    .open = emb_sql_open,
    .close = emb_sql_close,
    .session_open = emb_sql_session_open,
    .session_close = emb_sql_session_close,
    .get = get_by_table,
    .put = put,
    .figure = figure,
};
