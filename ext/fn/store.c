/* SPDX-License-Identifier: MIT
**
** store.c -- functions that act on the engine at once.
**
**   emb_get(table, keys)             vectors in the order of the keys, zeros
**   emb_peek(table, keys)            for absent keys; n * 4 * dim bytes
**   emb_put(table, keys, vectors [, updated_at])
**                                    replaces or adds; number of keys
**   emb_rmw(table, keys, deltas [, lr [, step [, updated_at]]])
**                                    adds to the rows or, in a table with an
**                                    optimizer, applies gradients; number
**                                    found
**   emb_put_versions(table)          versions written by the last of these two:
**                                    8 bytes per key, NULL if there was none
**   emb_release(table)               returns all leases; their number
**   emb_gc()                         deletes stores that no table names;
**                                    their number
**
** `table` is 'items' or 'schema.items', and keys are as for items(:keys).  The
** functions take no SQLite lock and are not part of SQLite's transactions: rows
** written by emb_put stay after ROLLBACK, but emb_get sees the uncommitted
** writes of its own connection.
*/
#include "fn_state.h"
SQLITE_EXTENSION_INIT3

/* ---- reading ------------------------------------------------------------- */

static int store_get(struct ext_table *table, const int64_t *keys, size_t n,
                     float *vectors, char **err) {
  return ext_lease_get(table, 0, keys, n, &(emb_rows){.vectors = vectors}, err);
}

static int store_peek(struct ext_table *table, const int64_t *keys, size_t n,
                      float *vectors, char **err) {
  int rc = emb_peek(table->link->session, keys, n, vectors, NULL, NULL);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

static void read_batch(sqlite3_context *context, sqlite3_value **argv,
                       int (*read)(struct ext_table *, const int64_t *, size_t,
                                   float *, char **)) {
  struct ext_keys keys = {0};
  struct ext_table *table;
  float *vectors = NULL;
  size_t size = 0;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_new_vectors(table, keys.n, &vectors, &size, &err);
  if (rc == SQLITE_OK && read == store_get)
    rc = ext_fn_keys_look(table, &keys, &err);
  if (rc == SQLITE_OK && read == store_get && ext_keys_come(table))
    rc = ext_fn_rows_begin(table, keys.at, keys.n, &err);
  if (rc == SQLITE_OK && keys.peeks)
    read = store_peek;
  if (rc == SQLITE_OK)
    rc = read(table, keys.at, keys.n, vectors, &err);
  if (rc == SQLITE_OK && keys.settles)
    rc = ext_keys_settle(table, &keys, &err);
  ext_keys_free(&keys);
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, vectors, size, sqlite3_free);
  } else {
    sqlite3_free(vectors);
    ext_result_error(context, rc, err);
  }
}

static void fn_get(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  read_batch(context, argv, store_get);
}

static void fn_peek(sqlite3_context *context, int argc, sqlite3_value **argv) {
  (void)argc;
  read_batch(context, argv, store_peek);
}

/* ---- writing ------------------------------------------------------------- */

static int store_put(struct ext_link *link, const int64_t *keys, size_t n,
                     const float *vectors, const emb_update *how,
                     size_t *count) {
  (void)how;
  *count = n;
  return emb_put(link->session, keys, n, vectors, link->put_versions);
}

/* how: NULL for deltas, as always in a table without an optimizer. */
static int store_rmw(struct ext_link *link, const int64_t *keys, size_t n,
                     const float *deltas, const emb_update *how,
                     size_t *count) {
  uint8_t *found = sqlite3_malloc64(n ? n : 1);
  int rc = EMB_NOMEM;
  if (found && how)
    rc = emb_apply_gradients(
        link->session, keys, n, deltas, how,
        &(emb_rows){.found = found, .versions = link->put_versions});
  else if (found)
    rc = emb_rmw(link->session, keys, n, deltas, found, link->put_versions);
  *count = 0;
  for (size_t i = 0; rc == EMB_OK && i < n; i++)
    *count += found[i];
  sqlite3_free(found);
  return rc;
}

/* Reserves room for n versions, and invalidates those of the last call. */
static int reserve_versions(struct ext_link *link, size_t n) {
  link->put_valid = EMB_SEED(SEED_OLD_VERSIONS_RETURNED) && link->put_valid;
  if (n > link->put_capacity) {
    void *p = sqlite3_realloc64(link->put_versions, n * sizeof(uint64_t));
    if (p == NULL)
      return SQLITE_NOMEM;
    link->put_versions = p;
    link->put_capacity = n;
  }
  return SQLITE_OK;
}

struct batch {
  const int64_t *keys;
  size_t n;
  const float *rows;
  const emb_update *how;
};
typedef int store_write(struct ext_link *, const int64_t *, size_t,
                        const float *, const emb_update *, size_t *);

static int write_decided(struct ext_table *table, store_write *write,
                         const struct batch *batch, size_t *count, char **err) {
  int rc, attempts = 0;
  do
    rc = write(table->link, batch->keys, batch->n, batch->rows, batch->how,
               count);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc;
}

static void write_batch(sqlite3_context *context, int argc,
                        sqlite3_value **argv, const char *what, int time_at,
                        store_write *write) {
  emb_update how = {0};
  struct ext_table *table;
  struct ext_floats vectors = {0};
  struct ext_keys keys = {0};
  size_t n = 0, count = 0;
  char *err = NULL;
  int rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  n = keys.n;
  if (rc == SQLITE_OK)
    rc = ext_fn_vectors(argv[2], what, table, n, &vectors, &err);
  if (rc == SQLITE_OK)
    rc = ext_update_how(argc > 3 && time_at > 3 ? argv[3] : NULL,
                        argc > 4 ? argv[4] : NULL, &how, &err);
  if (rc == SQLITE_OK && (write == store_put || ext_keys_grow(table))) {
    rc = ext_fn_keys_add(table, &keys, &err);
    if (rc == SQLITE_OK)
      rc = ext_fn_rows_begin(table, keys.at, keys.n, &err);
  }
  if (rc == SQLITE_OK)
    rc = reserve_versions(table->link, n);
  if (rc == SQLITE_OK && argc > time_at)
    rc = ext_update_time(table, argv[time_at], &err);
  if (rc == SQLITE_OK) {
    int with = ext_vtab(table)->options.optimized || argc == 4 || argc == 5 ||
               how.lr > 0 || how.step > 0;
    const struct batch batch = {keys.at, n, vectors.at, with ? &how : NULL};
    rc = write_decided(table, write, &batch, &count, &err);
    ext_update_time_end(table);
    if (rc == SQLITE_OK && keys.absent == 0)
      rc = ext_keys_settle(table, &keys, &err);
  }
  ext_floats_free(&vectors);
  ext_keys_free(&keys);
  if (rc == SQLITE_OK) {
    table->link->put_n = n;
    table->link->put_valid = 1;
    emb_check(ext_fn_link_valid(table->link));
    sqlite3_result_int64(context, (sqlite3_int64)count);
  } else {
    ext_result_error(context, rc, err);
  }
}

static void fn_put(sqlite3_context *context, int argc, sqlite3_value **argv) {
  write_batch(context, argc, argv, "vectors", 3, store_put);
}

static void fn_rmw(sqlite3_context *context, int argc, sqlite3_value **argv) {
  write_batch(context, argc, argv, "deltas", 5, store_rmw);
}

/* ---- versions and leases ------------------------------------------------- */

static void fn_put_versions(sqlite3_context *context, int argc,
                            sqlite3_value **argv) {
  struct ext_table *table;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (table->link->put_valid)
    sqlite3_result_blob64(
        context, table->link->put_n ? (void *)table->link->put_versions : "",
        table->link->put_n * sizeof(uint64_t), SQLITE_TRANSIENT);
}

static void fn_release(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_table *table;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  /* If the owner has died, the leases are gone with it; emb_refresh reports
  ** that. */
  if (rc == SQLITE_OK && (rc = emb_refresh(table->link->session)) != EMB_OK)
    rc = ext_link_error(table->link, rc, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else
    sqlite3_result_int64(context,
                         (sqlite3_int64)emb_release(table->link->session));
}

int ext_fn_store_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_get", 2, fn_get},
      {"emb_peek", 2, fn_peek},
      {"emb_put", 3, fn_put},
      {"emb_put", 4, fn_put},
      {"emb_rmw", 3, fn_rmw},
      {"emb_rmw", 4, fn_rmw},
      {"emb_rmw", 5, fn_rmw},
      {"emb_rmw", 6, fn_rmw},
      {"emb_put_versions", 1, fn_put_versions},
      {"emb_release", 1, fn_release},
      {"emb_gc", 0, ext_fn_gc}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
