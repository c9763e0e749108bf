/* SPDX-License-Identifier: MIT
**
** gradient.c -- writing through optimizers:
**
**   UPDATE items SET gradient = :g [, lr = :lr] [, step = :t] [, vectors = :r]
**   INSERT INTO items(keys, gradients [, lr] [, step] [, vectors]) VALUES ...
**   INSERT INTO items(key, gradient ...) VALUES ...
**
** A gradient is as long as a row: all vector columns, one after the other.
** `vectors` are the vectors it was computed from, for an optimizer with dc=.
** An INSERT is no insertion by itself: keys that are not there appear if
** insert_on allows it, and those that are there are updated.
*/
#include "beside.h"
SQLITE_EXTENSION_INIT3

#define COLUMN(argv, column) ((argv)[2 + (column)])

static int gradient_is_null(sqlite3_value *value) {
  return value == NULL || sqlite3_value_type(value) == SQLITE_NULL;
}

int ext_update_how(sqlite3_value *lr, sqlite3_value *step, emb_update *how,
                   char **err) {
  if (!gradient_is_null(lr)) {
    double rate = sqlite3_value_double(lr);
    int type = sqlite3_value_numeric_type(lr);
    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
      return ext_error(err, SQLITE_MISMATCH, "lr must be a number, got %s",
                       ext_value_type_name(lr));
    if (!(rate >= EMB_LR_MIN && rate <= EMB_LR_MAX))
      return ext_error(err, SQLITE_ERROR,
                       "lr must be between %g and %.0f, got %.9g", EMB_LR_MIN,
                       EMB_LR_MAX, rate);
    how->lr = (float)rate;
  }
  if (!gradient_is_null(step)) {
    sqlite3_int64 number = sqlite3_value_int64(step);
    if (sqlite3_value_numeric_type(step) != SQLITE_INTEGER)
      return ext_error(err, SQLITE_MISMATCH, "step must be an integer, got %s",
                       ext_value_type_name(step));
    if (number < 1)
      return ext_error(err, SQLITE_ERROR, "step must be at least 1, got %lld",
                       number);
    how->step = (uint64_t)number;
  }
  return SQLITE_OK;
}

int ext_update_time(struct ext_table *table, sqlite3_value *time, char **err) {
  sqlite3_int64 seconds;
  int rc;
  if (gradient_is_null(time))
    return SQLITE_OK;
  rc = ext_table_open(table, err);
  if (rc != SQLITE_OK)
    return rc;
  if (emb_tracking(table->link->store) == EMB_TRACK_NONE)
    return ext_error(err, SQLITE_ERROR,
                     "%s was made without track=", table->name);
  if (sqlite3_value_numeric_type(time) != SQLITE_INTEGER)
    return ext_error(err, SQLITE_MISMATCH,
                     "updated_at must be an integer, got %s",
                     ext_value_type_name(time));
  seconds = sqlite3_value_int64(time);
  if (seconds < 1 || seconds > UINT32_MAX)
    return ext_error(err, SQLITE_ERROR,
                     "updated_at must be between 1 and %u, got %lld",
                     UINT32_MAX, seconds);
  emb_session_time(table->link->session, (uint32_t)seconds);
  return SQLITE_OK;
}

void ext_update_time_end(struct ext_table *table) {
  if (table->link)
    emb_session_time(table->link->session, 0);
}

/* n rows of a batch's argument. */
static int gradient_read_rows(struct ext_table *table, sqlite3_value *value,
                              const char *what, size_t n,
                              struct ext_floats *rows, char **err) {
  return ext_matrix_from_value(value, what, ext_vtab(table)->options.config.dim,
                               n, rows, err);
}

/* The gradients stand in this column. */
static int gradient_apply(struct ext_table *table, sqlite3_value **argv,
                          int column, const int64_t *keys, size_t n,
                          char **err) {
  const char *what = column == EXT_GRADIENT ? "gradient" : "gradients";
  struct ext_floats gradients = {0}, read = {0};
  emb_update how = {0};
  int rc =
      ext_update_how(COLUMN(argv, EXT_LR), COLUMN(argv, EXT_STEP), &how, err);
  if (rc == SQLITE_OK)
    rc = gradient_read_rows(table, COLUMN(argv, column), what, n, &gradients,
                            err);
  if (rc == SQLITE_OK && !gradient_is_null(COLUMN(argv, EXT_VECTORS)))
    rc = gradient_read_rows(table, COLUMN(argv, EXT_VECTORS), "vectors", n,
                            &read, err);
  if (rc == SQLITE_OK && n > 0)
    rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK) /* keys that become rows begin without */
    rc = ext_beside_clean(table, keys, n, err);
  if (rc == SQLITE_OK && n > 0) {
    how.read = read.at;
    rc = emb_txn_apply_gradients(table->link->session, keys, n, gradients.at,
                                 &how, NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, err);
  }
  ext_floats_free(&gradients);
  ext_floats_free(&read);
  return rc;
}

int ext_gradient_update(struct ext_table *table, sqlite3_value **argv,
                        int64_t key, char **err) {
  return gradient_apply(table, argv, EXT_GRADIENT, &key, 1, err);
}

int ext_gradient_insert(struct ext_table *table, sqlite3_value **argv,
                        sqlite3_int64 *rowid, char **err) {
  int one = !gradient_is_null(COLUMN(argv, EXT_GRADIENT));
  int64_t *keys = NULL;
  int owned = 0;
  size_t n = 0;
  int rc;
  if (one == !gradient_is_null(COLUMN(argv, EXT_GRADIENTS)) ||
      one == gradient_is_null(COLUMN(argv, EXT_KEY)) ||
      one == !gradient_is_null(COLUMN(argv, EXT_KEYS)))
    return ext_error(err, SQLITE_ERROR,
                     "either %s and gradient or keys and gradients",
                     ext_vtab(table)->options.key);
  for (uint32_t i = 0; i < ext_vectors(&ext_vtab(table)->options); i++)
    if (!gradient_is_null(COLUMN(argv, ext_vector_column(i))))
      return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                       ext_vtab(table)->options.vectors[i]);
  if (one) {
    int64_t key;
    sqlite3_value_numeric_type(COLUMN(argv, EXT_KEY));
    rc = ext_key_from_value(COLUMN(argv, EXT_KEY), ext_vtab(table)->key_what,
                            &key, err);
    if (rc == SQLITE_OK)
      rc = gradient_apply(table, argv, EXT_GRADIENT, &key, 1, err);
    *rowid = key;
    return rc;
  }
  rc = ext_keys_from_value(COLUMN(argv, EXT_KEYS), "keys", &keys, &owned, &n,
                           err);
  if (rc != SQLITE_OK)
    return rc;
  rc = gradient_apply(table, argv, EXT_GRADIENTS, keys, n, err);
  if (rc == SQLITE_OK && n > 0)
    *rowid = keys[n - 1];
  if (owned)
    sqlite3_free(keys);
  return rc;
}
