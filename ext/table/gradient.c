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
** In a table that averages them (gradients=), a statement that is no part of a
** transaction hands them over as emb_rmw does: at once, whatever becomes of the
** statement, and durable with the next checkpoint or commit.  Within BEGIN they
** are the transaction's, and each makes a step of its own.
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

static int is_averaged(const struct ext_table *table) {
  return sqlite3_get_autocommit(table->conn->db) && !table->link->in_txn &&
         emb_averages(table->link->store);
}

static int gradient_keep(struct ext_table *table, struct ext_keys *keys,
                         const float *gradients, const emb_update *how,
                         char **err) {
  int attempts = 0, rc = ext_txn_read(table, err);
  if (rc == SQLITE_OK)
    rc = ext_txn_immediate(table, err);
  if (rc != SQLITE_OK)
    return rc;
  do
    rc = emb_apply_gradients(table->link->session, keys->at, keys->n, gradients,
                             how, NULL);
  while (ext_txn_again(table, &attempts, &rc, err));
  return rc == SQLITE_OK ? ext_keys_settle(table, keys, err) : rc;
}

static int gradient_in_txn(struct ext_table *table, struct ext_keys *keys,
                           const float *gradients, const emb_update *how,
                           char **err) {
  int rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK && ext_keys_grow(table))
    rc = ext_keys_add(table, keys, err);
  if (rc == SQLITE_OK) /* keys that become rows begin without */
    rc = ext_beside_clean(table, keys->at, keys->n, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_txn_apply_gradients(table->link->session, keys->at, keys->n,
                               gradients, how, NULL);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* The gradients stand in this column. */
static int gradient_apply(struct ext_table *table, sqlite3_value **argv,
                          int column, struct ext_keys *keys, char **err) {
  size_t n = keys->n;
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
    rc = ext_table_open(table, err);
  if (rc == SQLITE_OK && n > 0) {
    how.read = read.at;
    rc = is_averaged(table) && keys->absent == 0
             ? gradient_keep(table, keys, gradients.at, &how, err)
             : gradient_in_txn(table, keys, gradients.at, &how, err);
  }
  ext_floats_free(&gradients);
  ext_floats_free(&read);
  return rc;
}

int ext_gradient_update(struct ext_table *table, sqlite3_value **argv,
                        int64_t key, char **err) {
  struct ext_keys keys = {.at = &key, .n = 1};
  return gradient_apply(table, argv, EXT_GRADIENT, &keys, err);
}

int ext_gradient_insert(struct ext_table *table, sqlite3_value **argv,
                        sqlite3_int64 *rowid, char **err) {
  int one = !gradient_is_null(COLUMN(argv, EXT_GRADIENT));
  struct ext_keys keys = {0};
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
  rc = one ? ext_key_read(table, COLUMN(argv, EXT_KEY), &keys, err)
           : ext_keys_read(table, COLUMN(argv, EXT_KEYS), "keys", &keys, err);
  if (rc == SQLITE_OK)
    rc = gradient_apply(table, argv, one ? EXT_GRADIENT : EXT_GRADIENTS, &keys,
                        err);
  if (rc == SQLITE_OK && keys.n > 0)
    *rowid = keys.at[keys.n - 1];
  ext_keys_free(&keys);
  return rc;
}
