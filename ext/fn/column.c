/* SPDX-License-Identifier: MIT
**
** column.c -- one vector column of several, chosen by a function's options:
**
**     emb_get('items', :keys, 'column=title')
**
** A row of the store has all vectors of a key.  It is read as a whole; then the
** floats of the other columns are left out.  A function that writes makes whole
** rows of its argument, and tells the engine which part of them counts, as an
** UPDATE of one column does; emb_rmw adds -0 to the others, which leaves every
** float unchanged, 0 and -0 included.
*/
#include "fn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_fn_column(const struct ext_options *options, const char *name,
                  uint32_t *column, char **err) {
  struct near near;
  near_start(&near, name, strlen(name));
  for (*column = 0; *column < ext_vectors(options); ++*column) {
    const char *other = options->vectors[*column];
    if (sqlite3_stricmp(other, name) == 0)
      return SQLITE_OK;
    near_offer(&near, other);
  }
  return ext_error(err, SQLITE_ERROR, "no vector column: %s%s", name,
                   near_text(&near));
}

struct column_taking {
  const struct ext_options *options;
  uint32_t *column;
};

static int column_take(void *arg, int i, const char *value, char **err) {
  struct column_taking *taking = arg;
  (void)i;
  return ext_fn_column(taking->options, value, taking->column, err);
}

int ext_fn_column_option(const struct ext_table *table, sqlite3_value *value,
                         uint32_t *column, char **err) {
  static const char *const names[] = {"column"};
  static const struct ext_pair_names all = {names, 1, "column=vector",
                                            column_take};
  const struct ext_options *options = &ext_vtab(table)->options;
  struct column_taking taking = {options, column};
  *column = EXT_FN_ALL_COLUMNS;
  return ext_pairs(value, &all, &taking, err);
}

/* Does the option leave out columns? */
static int column_is_part(const struct ext_options *options, uint32_t column) {
  return column != EXT_FN_ALL_COLUMNS && ext_vectors(options) > 1;
}

uint32_t ext_fn_column_parts(const struct ext_table *table, uint32_t column) {
  return column_is_part(&ext_vtab(table)->options, column)
             ? UINT32_C(1) << column
             : 0;
}

char *ext_fn_column_name(const struct ext_table *table, uint32_t column) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int is_main = sqlite3_stricmp(table->schema, "main") == 0;
  int is_all = column == EXT_FN_ALL_COLUMNS;
  return sqlite3_mprintf("%s%s%s%s%s", is_all ? "" : options->vectors[column],
                         is_all ? "" : " of ", is_main ? "" : table->schema,
                         is_main ? "" : ".", table->name);
}

static int column_is_optimized(const struct ext_options *options,
                               uint32_t column) {
  const char *optimizer;
  if (column == EXT_FN_ALL_COLUMNS)
    return options->optimized;
  optimizer = options->segments[column].optimizer;
  if (optimizer == NULL)
    optimizer = options->config.optimizer;
  return optimizer && !near_is("none", optimizer);
}

int ext_fn_column_steps(const struct ext_table *table, uint32_t column,
                        char **err) {
  char *name;
  int rc;
  if (column_is_optimized(&ext_vtab(table)->options, column))
    return SQLITE_OK;
  name = ext_fn_column_name(table, column);
  rc = name ? ext_error(err, SQLITE_ERROR,
                        "%s was created without optimizer=", name)
            : SQLITE_NOMEM;
  sqlite3_free(name);
  return rc;
}

/* Makes rows of all columns of n vectors of one. */
static int column_widen(const struct ext_table *table,
                        const struct ext_fn_column_rows *rows,
                        const float *part, struct ext_floats *vectors,
                        char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  size_t all = options->config.dim, dim = options->segments[rows->column].dim;
  size_t first = ext_vector_first(options, rows->column), size;
  float *to;
  int rc = ext_fn_new_vectors(table, rows->n, &to, &size, err);
  if (rc != SQLITE_OK)
    return rc;
  *vectors = (struct ext_floats){to, (uint32_t)(rows->n * all), 1};
  for (size_t i = 0; i < rows->n * all; i++)
    to[i] = rows->others;
  for (size_t i = 0; i < rows->n; i++)
    memcpy(to + i * all + first, part + i * dim, dim * sizeof *to);
  return SQLITE_OK;
}

int ext_fn_column_read(const struct ext_table *table, sqlite3_value *value,
                       const struct ext_fn_column_rows *rows,
                       struct ext_floats *vectors, char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  struct ext_floats part = {0};
  char *what;
  int rc;
  if (rows->column == EXT_FN_ALL_COLUMNS)
    return ext_fn_vectors(value, rows->what, table, rows->n, vectors, err);
  what =
      sqlite3_mprintf("%s of %s", rows->what, options->vectors[rows->column]);
  if (what == NULL)
    return SQLITE_NOMEM;
  rc = ext_matrix_from_value(
      value, &(struct ext_arg){what, ext_link_interrupted, table->conn},
      options->segments[rows->column].dim, rows->n, &part, err);
  if (rc == SQLITE_OK && column_is_part(options, rows->column)) {
    rc = column_widen(table, rows, part.at, vectors, err);
    ext_floats_free(&part);
  } else {
    *vectors = part;
  }
  sqlite3_free(what);
  return rc;
}

size_t ext_fn_column_keep(const struct ext_table *table, uint32_t column,
                          float *vectors, size_t n) {
  const struct ext_options *options = &ext_vtab(table)->options;
  size_t all = options->config.dim;
  size_t first = 0, dim = all;
  if (column != EXT_FN_ALL_COLUMNS) {
    first = ext_vector_first(options, column);
    dim = options->segments[column].dim;
  }
  if (dim < all)
    for (size_t i = 0; i < n; i++)
      memmove(vectors + i * dim, vectors + i * all + first,
              dim * sizeof *vectors);
  return n * dim * sizeof *vectors;
}
