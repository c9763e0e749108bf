/* SPDX-License-Identifier: MIT
**
** fn.c -- common code of the functions on a table: their registration with
** SQLite, and their arguments.
*/
#include "ext/table/aux_columns.h"
#include "fn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Client data of a function. */
struct registered {
  struct ext_conn *conn;
  ext_function_call *call;
};

struct ext_conn *ext_fn_conn(sqlite3_context *context) {
  const struct registered *function = sqlite3_user_data(context);
  emb_assert(function->conn->calls > 0);
  return function->conn;
}

static void fn_call(sqlite3_context *context, int argc, sqlite3_value **argv) {
  const struct registered *function = sqlite3_user_data(context);
  struct ext_conn *conn = function->conn;
  sqlite3_context *outer = conn->context;
  ext_call_begin(conn);
  conn->context = context;
  function->call(context, argc, argv);
  conn->context = outer;
  ext_call_end(conn);
}

static void free_registered(void *data) {
  struct registered *function = data;
  ext_conn_unref(function->conn);
  sqlite3_free(function);
}

int ext_fn_register(struct ext_conn *conn, const struct ext_function *functions,
                    size_t n) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++) {
    struct registered *function = sqlite3_malloc64(sizeof *function);
    if (function == NULL)
      return SQLITE_NOMEM;
    function->conn = conn;
    function->call = functions[i].call;
    conn->refs++;
    rc = sqlite3_create_function_v2(conn->db, functions[i].name,
                                    functions[i].argc,
                                    SQLITE_UTF8 | SQLITE_DIRECTONLY, function,
                                    fn_call, NULL, NULL, free_registered);
  }
  return rc;
}

static int named_find(struct ext_conn *conn, sqlite3_value *name, int writes,
                      struct ext_table **table, char **err) {
  const char *text = (const char *)sqlite3_value_text(name);
  if (text == NULL)
    return ext_error(err, SQLITE_MISMATCH, "table must be a name, got %s",
                     ext_value_type_name(name));
  return ext_table_named(conn, text, writes, table, err);
}

int ext_fn_table(struct ext_conn *conn, sqlite3_value *name,
                 struct ext_table **table, char **err) {
  return named_find(conn, name, 0, table, err);
}

int ext_fn_table_to_write(struct ext_conn *conn, sqlite3_value *name,
                          struct ext_table **table, char **err) {
  int rc = ext_conn_may_write(conn, err);
  return rc == SQLITE_OK ? named_find(conn, name, 1, table, err) : rc;
}

/* If SQLite discovers a schema change in SQL run here, the names that the call
** used may be outdated.  The error is then SQLITE_SCHEMA, which makes SQLite
** run the statement again. */
int ext_fn_same_schema(struct ext_table *table,
                       int (*call)(struct ext_table *, void *, char **),
                       void *arg, char **err) {
  int rc;
  emb_assert(table->held); /* else it may be gone after the call */
  rc = call(table, arg, err);
  if (!table->gone)
    return rc;
  sqlite3_free(*err);
  *err = NULL;
  return ext_error(err, SQLITE_SCHEMA, "the schema has changed");
}

static int fn_find_keys(struct ext_table *table, void *keys, char **err) {
  return ext_keys_find(table, keys, err);
}

static int fn_add_keys(struct ext_table *table, void *keys, char **err) {
  return ext_keys_add_now(table, keys, err);
}

static int fn_look_keys(struct ext_table *table, void *keys, char **err) {
  return ext_keys_look(table, keys, err);
}

int ext_fn_keys(struct ext_table *table, sqlite3_value *value, const char *what,
                struct ext_keys *keys, char **err) {
  int rc = ext_keys_parse(table, value, what, keys, err);
  return rc == SQLITE_OK ? ext_fn_same_schema(table, fn_find_keys, keys, err)
                         : rc;
}

int ext_fn_keys_add(struct ext_table *table, struct ext_keys *keys,
                    char **err) {
  return ext_fn_same_schema(table, fn_add_keys, keys, err);
}

int ext_fn_keys_look(struct ext_table *table, struct ext_keys *keys,
                     char **err) {
  return ext_fn_same_schema(table, fn_look_keys, keys, err);
}

struct fn_rows {
  const int64_t *keys;
  size_t n;
};

static int fn_forget_left(struct ext_table *table, void *arg, char **err) {
  const struct fn_rows *rows = arg;
  return ext_aux_forget_left(table, rows->keys, rows->n, err);
}

int ext_fn_rows_begin(struct ext_table *table, const int64_t *keys, size_t n,
                      char **err) {
  struct fn_rows rows = {keys, n};
  return ext_aux_is(table)
             ? ext_fn_same_schema(table, fn_forget_left, &rows, err)
             : SQLITE_OK;
}

struct fn_file {
  const char *path;
  struct ext_file_keys *file;
};

static int fn_begin_file(struct ext_table *table, void *arg, char **err) {
  const struct fn_file *of = arg;
  return ext_file_keys_begin(table, of->path, of->file, err);
}

int ext_fn_file_keys(struct ext_table *table, const char *path,
                     struct ext_file_keys *file, char **err) {
  struct fn_file of = {path, file};
  return ext_vtab(table)->options.text_key
             ? ext_fn_same_schema(table, fn_begin_file, &of, err)
             : SQLITE_OK;
}

int ext_fn_vectors(sqlite3_value *value, const char *what,
                   const struct ext_table *table, size_t n,
                   struct ext_floats *vectors, char **err) {
  return ext_matrix_from_value(
      value, &(struct ext_arg){what, ext_link_interrupted, table->conn},
      ext_vtab(table)->options.config.dim, n, vectors, err);
}

int ext_fn_new_vectors(const struct ext_table *table, size_t n, float **vectors,
                       size_t *size, char **err) {
  uint32_t dim = ext_vtab(table)->options.config.dim;
  int rc = ext_check_size(table->conn->db, n, dim, err);
  if (rc != SQLITE_OK)
    return rc;
  *size = n * dim * sizeof **vectors;
  *vectors = sqlite3_malloc64(*size ? *size : 1);
  return *vectors ? SQLITE_OK : SQLITE_NOMEM;
}
