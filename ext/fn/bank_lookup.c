/* SPDX-License-Identifier: MIT
**
** bank_lookup.c -- emb_lookup(table, keys, update [, options]), the lookup of a
** knowledge bank:
**
**   update = 1   an absent key becomes a row, and the frequency of each row
**                grows by one, if the table tracks it
**   update = 0   an absent key gives zeros, and nothing changes
**
** The result is as that of emb_get: vectors in the order of the keys, with the
** option column= only those of one column.
*/
#include "fn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static int lookup_flag(sqlite3_value *value, int *update, char **err) {
  *update = sqlite3_value_int(value);
  return sqlite3_value_numeric_type(value) == SQLITE_INTEGER &&
                 (*update == 0 || *update == 1)
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR, "update must be 0 or 1");
}

/* Returns zeros for an absent key instead of the initial vector of its row. */
static int lookup_as_it_is(struct ext_table *table, const int64_t *keys,
                           size_t n, float *vectors, char **err) {
  uint32_t dim = ext_vtab(table)->options.config.dim;
  uint8_t *found = sqlite3_malloc64(n ? n : 1);
  int rc = found ? emb_peek(table->link->session, keys, n, vectors, found, NULL)
                 : EMB_NOMEM;
  for (size_t i = 0; rc == EMB_OK && i < n; i++)
    if (!found[i])
      memset(vectors + i * dim, 0, dim * sizeof *vectors);
  sqlite3_free(found);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

static int lookup_and_count(struct ext_table *table, const int64_t *keys,
                            size_t n, float *vectors, char **err) {
  int rc, attempts = 0;
  ext_lease_begin(table->link, 0);
  do
    rc = emb_lookup(table->link->session, keys, n, vectors, NULL);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc;
}

static void fn_lookup(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct ext_conn *conn = ext_fn_conn(context);
  struct ext_table *table;
  float *vectors = NULL;
  struct ext_keys keys = {0};
  uint32_t column = EXT_FN_ALL_COLUMNS;
  size_t size = 0;
  int update = 0;
  char *err = NULL;
  int rc = lookup_flag(argv[2], &update, &err);
  if (rc == SQLITE_OK)
    rc = update ? ext_fn_table_to_write(conn, argv[0], &table, &err)
                : ext_fn_table(conn, argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_column_option(table, argc > 3 ? argv[3] : NULL, &column, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  if (rc == SQLITE_OK)
    rc = ext_fn_new_vectors(table, keys.n, &vectors, &size, &err);
  if (rc == SQLITE_OK && update)
    rc = ext_fn_keys_add(table, &keys, &err);
  if (rc == SQLITE_OK && update)
    rc = ext_fn_rows_begin(table, keys.at, keys.n, &err);
  if (rc == SQLITE_OK)
    rc = update ? lookup_and_count(table, keys.at, keys.n, vectors, &err)
                : lookup_as_it_is(table, keys.at, keys.n, vectors, &err);
  if (rc == SQLITE_OK && update)
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

int ext_fn_lookup_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {{"emb_lookup", 3, fn_lookup},
                                                  {"emb_lookup", 4, fn_lookup}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
