/* SPDX-License-Identifier: MIT
**
** fn_store.c -- functions that act on the engine at once.
**
**   emb_get(table, keys)             vectors in the order of the keys, zeros
**   emb_peek(table, keys)            where absent; n * 4 * dim bytes
**   emb_put(table, keys, vectors)    replaces or adds; number of keys
**   emb_rmw(table, keys, deltas)     adds to what is there; number found
**   emb_gc()                         deletes stores that no table names;
**                                    how many
**
** `table` is 'items' or 'schema.items', keys as for items(:keys).  They take
** no lock of SQLite and are no part of its transactions: what emb_put writes
** stays after ROLLBACK, though emb_get sees what its own connection has not
** committed yet.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

static int find_table(sqlite3_context *context, sqlite3_value *name,
                      struct ext_table **table, char **err) {
  const char *text = (const char *)sqlite3_value_text(name);
  int rc;
  if (text == NULL)
    return ext_error(err, SQLITE_MISMATCH, "table must be a name, got %s",
                     emb_value_type_name(name));
  rc = ext_conn_find(sqlite3_user_data(context), text, table, err);
  return rc == SQLITE_OK ? ext_txn_read(*table, err) : rc;
}

/* After an error there is nothing to free. */
static int read_keys(sqlite3_value *value, int64_t **keys, int *owned,
                     size_t *n, char **err) {
  int rc = emb_keys_from_value(value, "keys", keys, owned, n, err);
  if (rc != SQLITE_OK)
    *owned = 0;
  return rc;
}

static void get(sqlite3_context *context, sqlite3_value **argv,
                int (*read)(emb_session *, const int64_t *, size_t, float *,
                            uint8_t *, uint64_t *)) {
  struct ext_table *table;
  float *vectors = NULL;
  int64_t *keys = NULL;
  size_t n = 0, size = 0;
  int owned = 0;
  char *err = NULL;
  int rc = find_table(context, argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = read_keys(argv[1], &keys, &owned, &n, &err);
  if (rc == SQLITE_OK)
    rc = ext_check_size(table->conn->db, n, table->options.config.dim, &err);
  if (rc == SQLITE_OK) {
    size = n * table->options.config.dim * sizeof *vectors;
    vectors = sqlite3_malloc64(size ? size : 1);
    rc = vectors ? read(table->link->session, keys, n, vectors, NULL, NULL)
                 : EMB_NOMEM;
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (owned)
    sqlite3_free(keys);
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, vectors, size, sqlite3_free);
  } else {
    sqlite3_free(vectors);
    ext_result_error(context, rc, err);
  }
}

static void fn_get(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  get(context, argv, emb_get);
}

static void fn_peek(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  get(context, argv, emb_peek);
}

static int put(emb_session *session, const int64_t *keys, size_t n,
               const float *vectors, size_t *count) {
  *count = n;
  return emb_put(session, keys, n, vectors, NULL);
}

static int rmw(emb_session *session, const int64_t *keys, size_t n,
               const float *deltas, size_t *count) {
  uint8_t *found = sqlite3_malloc64(n ? n : 1);
  int rc = found ? emb_rmw(session, keys, n, deltas, found, NULL) : EMB_NOMEM;
  *count = 0;
  for (size_t i = 0; rc == EMB_OK && i < n; i++)
    *count += found[i];
  sqlite3_free(found);
  return rc;
}

static void set(sqlite3_context *context, sqlite3_value **argv,
                const char *what,
                int (*write)(emb_session *, const int64_t *, size_t,
                             const float *, size_t *)) {
  struct ext_table *table;
  float *vectors = NULL;
  int64_t *keys = NULL;
  size_t n = 0, count = 0;
  int keys_owned = 0, vectors_owned = 0;
  char *err = NULL;
  int rc = find_table(context, argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = read_keys(argv[1], &keys, &keys_owned, &n, &err);
  if (rc == SQLITE_OK) {
    rc = emb_matrix_from_value(argv[2], what, table->options.config.dim, n,
                               &vectors, &vectors_owned, &err);
    vectors_owned &= rc == SQLITE_OK;
  }
  if (rc == SQLITE_OK && table->link->readonly)
    rc = ext_error(&err, SQLITE_READONLY, "database \"%s\" is read-only",
                   table->schema);
  if (rc == SQLITE_OK) {
    rc = write(table->link->session, keys, n, vectors, &count);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (vectors_owned)
    sqlite3_free(vectors);
  if (keys_owned)
    sqlite3_free(keys);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)count);
  else
    ext_result_error(context, rc, err);
}

static void fn_put(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  set(context, argv, "vectors", put);
}

static void fn_rmw(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  set(context, argv, "deltas", rmw);
}

int ext_fn_store_register(struct ext_conn *conn) {
  static const struct {
    const char *name;
    int argc;
    void (*call)(sqlite3_context *, int, sqlite3_value **);
  } functions[] = {{"emb_get", 2, fn_get},
                   {"emb_peek", 2, fn_peek},
                   {"emb_put", 3, fn_put},
                   {"emb_rmw", 3, fn_rmw},
                   {"emb_gc", 0, ext_orphan_gc}};
  int rc = SQLITE_OK;
  for (size_t i = 0;
       i < sizeof functions / sizeof functions[0] && rc == SQLITE_OK; i++) {
    conn->refs++;
    rc = sqlite3_create_function_v2(
        conn->db, functions[i].name, functions[i].argc,
        SQLITE_UTF8 | SQLITE_DIRECTONLY, conn, functions[i].call, NULL, NULL,
        ext_conn_unref);
  }
  return rc;
}
