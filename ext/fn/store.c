/* SPDX-License-Identifier: MIT
**
** store.c -- functions that act on the engine at once.
**
**   emb_get(table, keys [, options]) vectors in the order of the keys, zeros
**   emb_peek(table, keys [, options])
**                                    for absent keys; n * 4 * dim bytes
**   emb_found(table, keys)           a byte for each key: 1, or 0 if absent
**   emb_put(table, keys, vectors [, updated_at])
**                                    replaces or adds; number of keys
**   emb_rmw(table, keys, deltas [, updated_at])
**                                    adds to the rows; number found
**   emb_apply(table, keys, gradients [, lr [, step [, updated_at]]])
**                                    makes a step of the table's optimizer;
**                                    number found
**   emb_put_versions(table)          versions written by the last of these
**                                    three: 8 bytes per key, NULL if there was
**                                    none
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

#include <string.h>

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

static void read_batch(sqlite3_context *context, int argc, sqlite3_value **argv,
                       int (*read)(struct ext_table *, const int64_t *, size_t,
                                   float *, char **)) {
  struct ext_keys keys = {0};
  struct ext_table *table;
  float *vectors = NULL;
  uint32_t column = EXT_FN_ALL_COLUMNS;
  size_t size = 0;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK && argc > 2)
    rc = ext_fn_column_option(table, argv[2], &column, &err);
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
  if (rc == SQLITE_OK)
    size = ext_fn_column_keep(table, column, vectors, keys.n);
  ext_keys_free(&keys);
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, vectors, size, sqlite3_free);
  } else {
    sqlite3_free(vectors);
    ext_result_error(context, rc, err);
  }
}

static void fn_get(sqlite3_context *context, int argc, sqlite3_value **argv) {
  read_batch(context, argc, argv, store_get);
}

static void fn_peek(sqlite3_context *context, int argc, sqlite3_value **argv) {
  read_batch(context, argc, argv, store_peek);
}

/* Reads no vector, so it neither counts nor waits. */
static void fn_found(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_keys keys = {0};
  struct ext_table *table;
  uint8_t *found = NULL;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  if (rc == SQLITE_OK &&
      (found = sqlite3_malloc64(keys.n ? keys.n : 1)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    rc = emb_peek(table->link->session, keys.at, keys.n, NULL, found, NULL);
    rc = rc ? ext_link_error(table->link, rc, &err) : SQLITE_OK;
  }
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, found, keys.n, sqlite3_free);
  } else {
    sqlite3_free(found);
    ext_result_error(context, rc, err);
  }
  ext_keys_free(&keys);
}

/* ---- writing ------------------------------------------------------------- */

static int store_put(struct ext_link *link, const int64_t *keys, size_t n,
                     const float *vectors, const emb_update *how,
                     uint8_t *found) {
  (void)how;
  memset(found, 1, n);
  return emb_put(link->session, keys, n, vectors, link->put_versions);
}

static int store_rmw(struct ext_link *link, const int64_t *keys, size_t n,
                     const float *deltas, const emb_update *how,
                     uint8_t *found) {
  (void)how;
  return emb_rmw(link->session, keys, n, deltas, found, link->put_versions);
}

static int store_apply(struct ext_link *link, const int64_t *keys, size_t n,
                       const float *gradients, const emb_update *how,
                       uint8_t *found) {
  return emb_apply_gradients(
      link->session, keys, n, gradients, how,
      &(emb_rows){.found = found, .versions = link->put_versions});
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

/* A function that writes: what its third argument is, where the time is among
** its arguments, and the call. */
struct store_writer {
  const char *what;
  int time_at;
  int (*write)(struct ext_link *, const int64_t *, size_t, const float *,
               const emb_update *, uint8_t *);
};
static const struct store_writer store_putter = {"vectors", 3, store_put};
static const struct store_writer store_adder = {"deltas", 3, store_rmw};
static const struct store_writer store_stepper = {"gradients", 5, store_apply};

struct batch {
  const int64_t *keys;
  size_t n;
  const float *rows;
  emb_update how;
};

/* *count: the rows written. */
static int write_decided(struct ext_table *table,
                         const struct store_writer *writer,
                         const struct batch *batch, size_t *count, char **err) {
  uint8_t *found = sqlite3_malloc64(batch->n ? batch->n : 1);
  int rc, attempts = 0;
  do
    rc = found ? writer->write(table->link, batch->keys, batch->n, batch->rows,
                               &batch->how, found)
               : EMB_NOMEM;
  while (ext_txn_again(table, &attempts, &rc, err));
  *count = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < batch->n; i++)
    *count += found[i];
  sqlite3_free(found);
  return rc;
}

int ext_fn_has_optimizer(const struct ext_table *table, char **err) {
  int is_main = sqlite3_stricmp(table->schema, "main") == 0;
  return ext_vtab(table)->options.optimized
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "%s%s%s was created without optimizer=",
                         is_main ? "" : table->schema, is_main ? "" : ".",
                         table->name);
}

/* Checked before anything is written, such as a new text.  emb_rmw once applied
** gradients, too: a program that still means them would train in the wrong
** direction. */
static int check_writer(const struct ext_table *table,
                        const struct store_writer *writer, int argc,
                        char **err) {
  int optimized = ext_vtab(table)->options.optimized;
  int is_main = sqlite3_stricmp(table->schema, "main") == 0;
  const char *schema = is_main ? "" : table->schema, *dot = is_main ? "" : ".";
  if (writer == &store_stepper)
    return ext_fn_has_optimizer(table, err);
  if (writer != &store_adder)
    return SQLITE_OK;
  if (argc > 4)
    return ext_error(err, SQLITE_ERROR,
                     "emb_rmw adds deltas, without lr and step; to apply "
                     "gradients, call emb_apply");
  if (optimized)
    return ext_error(err, SQLITE_ERROR,
                     "%s%s%s has an optimizer: to apply gradients, call "
                     "emb_apply instead of emb_rmw",
                     schema, dot, table->name);
  return SQLITE_OK;
}

static void write_batch(sqlite3_context *context, int argc,
                        sqlite3_value **argv,
                        const struct store_writer *writer) {
  struct ext_table *table;
  struct ext_floats vectors = {0};
  struct ext_keys keys = {0};
  struct batch batch = {0};
  size_t count = 0;
  char *err = NULL;
  int rc = ext_fn_table_to_write(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = check_writer(table, writer, argc, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_vectors(argv[2], writer->what, table, keys.n, &vectors, &err);
  if (rc == SQLITE_OK && writer == &store_stepper)
    rc = ext_update_how(argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL,
                        &batch.how, &err);
  if (rc == SQLITE_OK && (writer == &store_putter || ext_keys_grow(table))) {
    rc = ext_fn_keys_add(table, &keys, &err);
    if (rc == SQLITE_OK)
      rc = ext_fn_rows_begin(table, keys.at, keys.n, &err);
  }
  if (rc == SQLITE_OK)
    rc = reserve_versions(table->link, keys.n);
  if (rc == SQLITE_OK && argc > writer->time_at)
    rc = ext_update_time(table, argv[writer->time_at], &err);
  if (rc == SQLITE_OK) {
    batch.keys = keys.at;
    batch.n = keys.n;
    batch.rows = vectors.at;
    rc = write_decided(table, writer, &batch, &count, &err);
    ext_update_time_end(table);
    if (rc == SQLITE_OK && keys.absent == 0)
      rc = ext_keys_settle(table, &keys, &err);
  }
  ext_floats_free(&vectors);
  ext_keys_free(&keys);
  if (rc == SQLITE_OK) {
    table->link->put_n = batch.n;
    table->link->put_valid = 1;
    emb_check(ext_fn_link_valid(table->link));
    sqlite3_result_int64(context, (sqlite3_int64)count);
  } else {
    ext_result_error(context, rc, err);
  }
}

static void fn_put(sqlite3_context *context, int argc, sqlite3_value **argv) {
  write_batch(context, argc, argv, &store_putter);
}

static void fn_rmw(sqlite3_context *context, int argc, sqlite3_value **argv) {
  write_batch(context, argc, argv, &store_adder);
}

static void fn_apply_gradients(sqlite3_context *context, int argc,
                               sqlite3_value **argv) {
  write_batch(context, argc, argv, &store_stepper);
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
      {"emb_get", 3, fn_get},
      {"emb_peek", 2, fn_peek},
      {"emb_peek", 3, fn_peek},
      {"emb_found", 2, fn_found},
      {"emb_put", 3, fn_put},
      {"emb_put", 4, fn_put},
      {"emb_rmw", 3, fn_rmw},
      {"emb_rmw", 4, fn_rmw},
      {"emb_rmw", 5, fn_rmw},
      {"emb_rmw", 6, fn_rmw},
      {"emb_apply", 3, fn_apply_gradients},
      {"emb_apply", 4, fn_apply_gradients},
      {"emb_apply", 5, fn_apply_gradients},
      {"emb_apply", 6, fn_apply_gradients},
      {"emb_put_versions", 1, fn_put_versions},
      {"emb_release", 1, fn_release},
      {"emb_gc", 0, ext_fn_gc}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
