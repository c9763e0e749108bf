/* SPDX-License-Identifier: MIT
**
** fn.c -- what the functions on a table have in common: how SQLite knows them,
** and their arguments.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_fn_register(struct ext_conn *conn, const struct ext_function *functions,
                    size_t n) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    conn->refs++;
    rc = sqlite3_create_function_v2(
        conn->db, functions[i].name, functions[i].argc,
        SQLITE_UTF8 | SQLITE_DIRECTONLY, conn, functions[i].call, NULL, NULL,
        ext_conn_unref);
  }
  return rc;
}

/* Times that a table is looked up again because the schema changed. */
#define SCHEMA_TURNS 10

void ext_table_hold(struct ext_table *table) {
  table->conn->in_use = table;
  table->conn->in_use_gone = 0;
}

int ext_table_let_go(struct ext_table *table) {
  int gone = table->conn->in_use_gone;
  table->conn->in_use = NULL;
  if (gone)
    ext_table_free_gone(table);
  return gone;
}

static int make_ready(struct ext_table *table, int writes, char **err) {
  int rc = ext_txn_read(table, err);
  if (rc == SQLITE_OK && writes && table->link->readonly)
    rc = ext_error(err, SQLITE_READONLY, "database \"%s\" is read-only",
                   table->schema);
  if (rc == SQLITE_OK && writes)
    rc = ext_txn_immediate(table, err);
  return rc;
}

int ext_fn_named(struct ext_conn *conn, const char *text, int writes,
                 struct ext_table **table, char **err) {
  for (int turn = 0; turn < SCHEMA_TURNS; turn++) {
    int rc = ext_conn_find(conn, text, table, err);
    if (rc != SQLITE_OK)
      return rc;
    ext_table_hold(*table);
    rc = make_ready(*table, writes, err);
    if (!ext_table_let_go(*table))
      return rc;
    sqlite3_free(*err);
    *err = NULL;
  }
  return ext_error(err, SQLITE_SCHEMA, "the schema changes all the time");
}

static int find_table(struct ext_conn *conn, sqlite3_value *name, int writes,
                      struct ext_table **table, char **err) {
  const char *text = (const char *)sqlite3_value_text(name);
  if (text == NULL)
    return ext_error(err, SQLITE_MISMATCH, "table must be a name, got %s",
                     emb_value_type_name(name));
  return ext_fn_named(conn, text, writes, table, err);
}

int ext_fn_table(struct ext_conn *conn, sqlite3_value *name,
                 struct ext_table **table, char **err) {
  return find_table(conn, name, 0, table, err);
}

int ext_fn_table_to_write(struct ext_conn *conn, sqlite3_value *name,
                          struct ext_table **table, char **err) {
  return find_table(conn, name, 1, table, err);
}

int ext_fn_keys(sqlite3_value *value, int64_t **keys, int *owned, size_t *n,
                char **err) {
  int rc = emb_keys_from_value(value, "keys", keys, owned, n, err);
  if (rc != SQLITE_OK)
    *owned = 0;
  return rc;
}

int ext_fn_vectors(sqlite3_value *value, const char *what,
                   const struct ext_table *table, size_t n, float **vectors,
                   int *owned, char **err) {
  int rc = emb_matrix_from_value(value, what, table->options.config.dim, n,
                                 vectors, owned, err);
  if (rc != SQLITE_OK)
    *owned = 0;
  return rc;
}

int ext_fn_text(sqlite3_value *value, const char *what, const char **text,
                char **err) {
  *text = (const char *)sqlite3_value_text(value);
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH, "%s must be TEXT, got %s", what,
                     emb_value_type_name(value));
  if (*text == NULL)
    return SQLITE_NOMEM;
  return strlen(*text) == (size_t)sqlite3_value_bytes(value)
             ? SQLITE_OK
             : ext_error(err, SQLITE_MISMATCH, "%s has a zero byte", what);
}

int ext_fn_snapshot_name(sqlite3_value *value, const char **name, char **err) {
  *name = (const char *)sqlite3_value_text(value);
  return *name ? SQLITE_OK
               : ext_error(err, SQLITE_MISMATCH,
                           "a snapshot's name must be TEXT, got NULL");
}

int ext_fn_number(sqlite3_value *value, const char *what, uint64_t *number,
                  char **err) {
  int64_t signed_number = 0;
  int rc = SQLITE_OK;
  if (sqlite3_value_type(value) != SQLITE_INTEGER)
    rc = ext_error(err, SQLITE_MISMATCH, "%s must be an INTEGER, got %s", what,
                   emb_value_type_name(value));
  else
    signed_number = sqlite3_value_int64(value);
  *number = signed_number > 0 ? (uint64_t)signed_number : 0;
  return rc;
}

int ext_fn_new_vectors(const struct ext_table *table, size_t n, float **vectors,
                       size_t *size, char **err) {
  uint32_t dim = table->options.config.dim;
  int rc = ext_check_size(table->conn->db, n, dim, err);
  if (rc != SQLITE_OK)
    return rc;
  *size = n * dim * sizeof **vectors;
  *vectors = sqlite3_malloc64(*size ? *size : 1);
  return *vectors ? SQLITE_OK : SQLITE_NOMEM;
}
