/* SPDX-License-Identifier: MIT
**
** column.c -- one vector column of several, chosen by a function's options:
**
**     emb_get('items', :keys, 'column=title')
**
** A row of the store has all vectors of a key.  It is read as a whole; then the
** floats of the other columns are left out.
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

size_t ext_fn_column_keep(const struct ext_table *table, uint32_t column,
                          float *vectors, size_t n) {
  const struct ext_options *options = &ext_vtab(table)->options;
  size_t all = ext_vector_first(options, ext_vectors(options));
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
