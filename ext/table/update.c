/* SPDX-License-Identifier: MIT
**
** update.c -- xUpdate: INSERT, UPDATE and DELETE, row by row or in batches.
**
** SQLite does not bracket a statement of one row with a savepoint, so each
** call here must change everything or nothing: arguments are checked before
** the first write, and what takes two writes (UPDATE of a key, a row with
** columns beside its vector) has a savepoint of its own.
**
** CONFLICT  A key that is taken gives plain SQLITE_CONSTRAINT (SQLite compares
**           with it to do IGNORE, FAIL and ROLLBACK), except under REPLACE,
**           where the old vector is overwritten.
** BATCH     INSERT INTO items(keys, vectors) replaces what is there, as
**           emb_put does; of a repeated key the last row stays.
*/
#include "beside.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* argv of an INSERT or UPDATE: old rowid, new rowid, columns. */
#define COLUMN(argv, column) ((argv)[2 + (column)])

static int update_is_null(sqlite3_value *value) {
  return sqlite3_value_type(value) == SQLITE_NULL;
}

/* The texts are core's own, without "emb: " in front. */
static int constraint_error(struct ext_table *table, const char *kind) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg = sqlite3_mprintf("%s constraint failed: %s", kind,
                                        ext_vtab(table)->key_what);
  return SQLITE_CONSTRAINT;
}

static int generated_error(struct ext_table *table, const char *action,
                           const char *column) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg =
      sqlite3_mprintf("cannot %s generated column \"%s\"", action, column);
  return SQLITE_ERROR;
}

static int is_replace(struct ext_table *table) {
  return sqlite3_vtab_on_conflict(table->conn->db) == SQLITE_REPLACE;
}

/* Unless the row is to be replaced, the key must be free. */
static int check_free(struct ext_table *table, int64_t key, char **err) {
  struct ext_link *link = table->link;
  uint8_t found = 0;
  int rc;
  if (is_replace(table))
    return SQLITE_OK;
  rc = emb_exists(link->session, &key, 1, &found);
  if (rc)
    return ext_link_error(link, rc, err);
  return found ? constraint_error(table, "UNIQUE") : SQLITE_OK;
}

/* Row of an INSERT or UPDATE: the vector columns one after the other. */
struct update_vectors {
  float *vectors; /* NULL: an UPDATE that sets none */
  uint32_t parts; /* columns that it sets, a bit each; 0: all */
  int owned;
};

static int update_put(struct ext_table *table, const int64_t *keys, size_t n,
                      const float *vectors, char **err) {
  int rc = emb_txn_put(table->link->session, keys, n, vectors);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* The row of a key that must be there, or must not; *done: it was. */
static int put_if(struct ext_table *table, int64_t key,
                  const struct update_vectors *row, int present, int *done,
                  char **err) {
  struct ext_link *link = table->link;
  int rc = emb_txn_put_if(link->session, key, row->vectors, row->parts, present,
                          done);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static int put_new(struct ext_table *table, int64_t key,
                   const struct update_vectors *row, char **err) {
  int done, rc;
  if (is_replace(table))
    return update_put(table, &key, 1, row->vectors, err);
  rc = put_if(table, key, row, 0, &done, err);
  return rc != SQLITE_OK || done ? rc : constraint_error(table, "UNIQUE");
}

/* A column of several, to its position. */
static int read_part(struct ext_table *table, sqlite3_value *value, uint32_t i,
                     float *to, char **err) {
  uint32_t dim = ext_vtab(table)->options.segments[i].dim;
  struct ext_floats vector;
  int rc = ext_vec_from_value(value, ext_vtab(table)->vector_what[i], dim,
                              &vector, err);
  if (rc != SQLITE_OK)
    return rc;
  memcpy(to, vector.at, dim * sizeof *to);
  ext_floats_free(&vector);
  return rc;
}

/* key: of the row that an UPDATE changes, NULL for an INSERT.  What is not set
** stays as it is. */
static int read_several(struct ext_table *table, sqlite3_value **argv,
                        const int64_t *key, struct update_vectors *row,
                        char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  uint32_t n = ext_vectors(options), unset = 0;
  int rc = SQLITE_OK;
  for (uint32_t i = 0; key && i < n; i++)
    unset += sqlite3_value_nochange(COLUMN(argv, ext_vector_column(i))) ? 1 : 0;
  if (unset == n)
    return SQLITE_OK;
  row->vectors = sqlite3_malloc64(options->config.dim * sizeof *row->vectors);
  row->owned = 1;
  if (row->vectors == NULL)
    return SQLITE_NOMEM;
  memset(row->vectors, 0, options->config.dim * sizeof *row->vectors);
  for (uint32_t i = 0; rc == SQLITE_OK && i < n; i++) {
    sqlite3_value *value = COLUMN(argv, ext_vector_column(i));
    if (!key || !sqlite3_value_nochange(value)) {
      row->parts |= UINT32_C(1) << i;
      rc = read_part(table, value, i,
                     row->vectors + ext_vector_first(options, i), err);
    }
  }
  row->parts = unset ? row->parts : 0;
  return rc;
}

static int update_read_row(struct ext_table *table, sqlite3_value **argv,
                           const int64_t *key, struct update_vectors *row,
                           char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_VECTOR);
  struct ext_floats vector;
  int rc;
  *row = (struct update_vectors){NULL, 0, 0};
  if (ext_vectors(&ext_vtab(table)->options) > 1)
    return read_several(table, argv, key, row, err);
  if (key && sqlite3_value_nochange(value))
    return SQLITE_OK;
  rc = ext_vec_from_value(value, ext_vtab(table)->vector_what[0],
                          ext_vtab(table)->options.config.dim, &vector, err);
  row->vectors = vector.at;
  row->owned = vector.owned;
  return rc;
}

static void free_row(struct update_vectors *row) {
  if (row->owned)
    sqlite3_free(row->vectors);
}

static int rowid_error(struct ext_table *table, char **err) {
  return ext_error(err, SQLITE_ERROR,
                   "the rowid of %s is the number of its text and cannot be "
                   "chosen",
                   table->name);
}

/* INSERT INTO items(rowid, ...) is another way to name an integer. */
static int insert_key(struct ext_table *table, sqlite3_value **argv,
                      struct ext_keys *key, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  if (ext_vtab(table)->options.text_key && !update_is_null(argv[1]))
    return rowid_error(table, err);
  if (update_is_null(value))
    value = argv[1];
  if (update_is_null(value))
    return constraint_error(table, "NOT NULL");
  return ext_key_read(table, value, key, err);
}

static int insert_row(struct ext_table *table, sqlite3_value **argv,
                      sqlite3_int64 *rowid, char **err) {
  struct update_vectors row = {NULL, 0, 0};
  struct ext_keys key = {0};
  int level = -1, rc = insert_key(table, argv, &key, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = update_read_row(table, argv, NULL, &row, err);
  if (rc == SQLITE_OK)
    rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_keys_add(table, &key, err);
  if (rc == SQLITE_OK)
    rc = ext_beside_begin(table, &level, err);
  if (rc == SQLITE_OK)
    rc = put_new(table, key.one, &row, err);
  if (rc == SQLITE_OK)
    rc = ext_beside_insert(table, argv, key.one, err);
  rc = ext_beside_end(table, level, rc, err);
  free_row(&row);
  *rowid = key.one;
  return rc;
}

static int insert_batch(struct ext_table *table, sqlite3_value **argv,
                        sqlite3_int64 *rowid, char **err) {
  struct ext_keys keys = {0};
  struct ext_floats vectors = {0};
  int rc;
  int is_row = !update_is_null(COLUMN(argv, EXT_KEY));
  for (uint32_t i = 0; i < ext_vectors(&ext_vtab(table)->options); i++)
    is_row |= !update_is_null(COLUMN(argv, ext_vector_column(i)));
  if (is_row)
    return ext_error(
        err, SQLITE_ERROR, "either %s and %s or keys and vectors, not both",
        ext_vtab(table)->options.key, ext_vtab(table)->options.vectors[0]);
  rc = ext_beside_refuse(table, argv, 1, "keys and vectors", err);
  if (rc == SQLITE_OK)
    rc = ext_keys_read(table, COLUMN(argv, EXT_KEYS), "keys", &keys, err);
  if (rc == SQLITE_OK)
    rc = ext_matrix_from_value(COLUMN(argv, EXT_VECTORS), "vectors",
                               ext_vtab(table)->options.config.dim, keys.n,
                               &vectors, err);
  if (rc == SQLITE_OK && keys.n > 0) {
    rc = ext_txn_write(table, err);
    if (rc == SQLITE_OK)
      rc = ext_keys_add(table, &keys, err);
    if (rc == SQLITE_OK)
      rc = ext_beside_clean(table, keys.at, keys.n, err);
    if (rc == SQLITE_OK)
      rc = update_put(table, keys.at, keys.n, vectors.at, err);
    *rowid = keys.at[keys.n - 1];
  }
  ext_floats_free(&vectors);
  ext_keys_free(&keys);
  return rc;
}

/* Columns that cannot be written: they describe a row, or are
** arguments that no row has. */
static int update_unwritable(struct ext_table *table, int i, int is_insert,
                             char **err) {
  const struct ext_column *column = ext_column(i);
  if (column->rules & EXT_GENERATED)
    return generated_error(table, is_insert ? "INSERT into" : "UPDATE",
                           column->name);
  return ext_error(err, SQLITE_ERROR, "cannot write column %s",
                   column->name ? column->name : table->name);
}

/* The hidden columns that an UPDATE sets, a bit each.  It does not read what it
** does not set.  UPDATE ... FROM does: SQLite makes its rows with a SELECT of
** all columns, set ones as they are to be, and does not say which these are;
** but they are the ones that it has not asked for.  Unless an expression reads
** a column that is set: that is not seen. */
static int columns_set(struct ext_table *table, sqlite3_value **argv) {
  int set = 0, unread = 0;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (sqlite3_value_nochange(COLUMN(argv, i)))
      unread = 1;
    else
      set |= ext_column_bit(i);
  return unread ? set : ~ext_vtab(table)->update_reads;
}

static int is_set(int set, int column) {
  return (set & ext_column_bit(column)) != 0;
}

/* What belongs to a gradient, without one. */
static int update_check_alone(sqlite3_value **argv, int is_insert, int set,
                              char **err) {
  int rule = is_insert ? EXT_INSERT_GRADIENT : EXT_UPDATE_GRADIENT;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (ext_column(i)->rules & rule &&
        (is_insert ? !update_is_null(COLUMN(argv, i)) : is_set(set, i)))
      return ext_error(err, SQLITE_ERROR, "%s without a gradient",
                       ext_column(i)->name);
  return SQLITE_OK;
}

static int check_insert(struct ext_table *table, sqlite3_value **argv,
                        char **err) {
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (!(ext_column(i)->rules & EXT_INSERT) &&
        !update_is_null(COLUMN(argv, i)))
      return update_unwritable(table, i, 1, err);
  return SQLITE_OK;
}

static int check_update(struct ext_table *table, int set, char **err) {
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (!(ext_column(i)->rules & EXT_UPDATE) && is_set(set, i))
      return update_unwritable(table, i, 0, err);
  return SQLITE_OK;
}

static int insert_some(struct ext_table *table, sqlite3_value **argv,
                       sqlite3_int64 *rowid, char **err) {
  int rc;
  if (!update_is_null(COLUMN(argv, EXT_GRADIENT)) ||
      !update_is_null(COLUMN(argv, EXT_GRADIENTS))) {
    rc = ext_beside_refuse(table, argv, 1, "a gradient", err);
    return rc == SQLITE_OK ? ext_gradient_insert(table, argv, rowid, err) : rc;
  }
  rc = update_check_alone(argv, 1, 0, err);
  if (rc != SQLITE_OK)
    return rc;
  if (!update_is_null(COLUMN(argv, EXT_KEYS)) ||
      !update_is_null(COLUMN(argv, EXT_VECTORS)))
    return insert_batch(table, argv, rowid, err);
  return insert_row(table, argv, rowid, err);
}

static int update_insert(struct ext_table *table, sqlite3_value **argv,
                         sqlite3_int64 *rowid, char **err) {
  int rc;
  if (!update_is_null(COLUMN(argv, EXT_COMMAND)))
    return ext_command(table, COLUMN(argv, EXT_COMMAND), COLUMN(argv, EXT_ARG),
                       err);
  rc = check_insert(table, argv, err);
  if (rc == SQLITE_OK)
    rc = ext_update_time(table, COLUMN(argv, EXT_UPDATED_AT), err);
  if (rc == SQLITE_OK) {
    rc = insert_some(table, argv, rowid, err);
    ext_update_time_end(table);
  }
  return rc;
}

static int delete_row(struct ext_table *table, int64_t key, char **err) {
  int level = -1;
  int rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = ext_beside_begin(table, &level, err);
  if (rc == SQLITE_OK) {
    rc = emb_txn_delete(table->link->session, &key, 1, NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, err);
  }
  if (rc == SQLITE_OK)
    rc = ext_beside_delete(table, key, err);
  return ext_beside_end(table, level, rc, err);
}

/* The row with all that belongs to it, and what is set of its vectors.  Both or
** nothing. */
static int update_move_row(struct ext_table *table, int64_t from, int64_t to,
                           const struct update_vectors *row, char **err) {
  struct ext_link *link = table->link;
  int level = ext_txn_level(link) + 1, found;
  int rc = check_free(table, to, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_savepoint(link->session, level);
  if (rc)
    return ext_link_error(link, rc, err);
  rc = emb_txn_move(link->session, from, to, &found);
  if (rc == EMB_OK && found && row->vectors)
    rc = emb_txn_put_parts(link->session, &to, 1, row->vectors, row->parts);
  if (rc != EMB_OK) {
    rc = ext_link_error(link, rc, err);
    emb_rollback_to(link->session, level);
    emb_savepoint_release(link->session, level);
    return rc;
  }
  rc = emb_savepoint_release(link->session, level);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* The new key stands in the key's column or, if that is as it was, in the
** rowid.  A text that is new is in the dictionary then, with a row or not. */
static int new_key(struct ext_table *table, sqlite3_value **argv, int64_t old,
                   int64_t *key, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  struct ext_keys read = {0};
  int text = ext_vtab(table)->options.text_key;
  *key = old;
  if (!sqlite3_value_nochange(value)) {
    int rc;
    if (update_is_null(value))
      return constraint_error(table, "NOT NULL");
    rc = ext_key_read(table, value, &read, err);
    if (rc == SQLITE_OK && text)
      rc = ext_txn_write(table, err);
    if (rc == SQLITE_OK)
      rc = ext_keys_add(table, &read, err);
    *key = read.one;
    if (rc != SQLITE_OK || *key != old)
      return rc;
  }
  if (text)
    return sqlite3_value_int64(argv[1]) == old ? SQLITE_OK
                                               : rowid_error(table, err);
  sqlite3_value_numeric_type(argv[1]);
  return ext_key_from_value(argv[1], ext_vtab(table)->key_what, key, err);
}

/* The row gets another key.  UPDATE ... FROM may come to a row again that it
** has moved away. */
static int change_key(struct ext_table *table, int64_t from, int64_t to,
                      const struct update_vectors *row, char **err) {
  uint8_t found = 0;
  int rc = emb_exists(table->link->session, &from, 1, &found);
  if (rc)
    return ext_link_error(table->link, rc, err);
  return found ? update_move_row(table, from, to, row, err) : SQLITE_OK;
}

/* SET gradient goes with nothing else that a row has. */
static int update_by_gradient(struct ext_table *table, sqlite3_value **argv,
                              int64_t old, int64_t key, char **err) {
  if (key != old)
    return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                     ext_vtab(table)->options.key);
  for (uint32_t i = 0; i < ext_vectors(&ext_vtab(table)->options); i++) {
    sqlite3_value *value = COLUMN(argv, ext_vector_column(i));
    if (!sqlite3_value_nochange(value) &&
        sqlite3_value_nochange(COLUMN(argv, EXT_KEYS)))
      return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                       ext_vtab(table)->options.vectors[i]);
  }
  return ext_gradient_update(table, argv, key, err);
}

/* What an UPDATE does to one row. */
struct update_row {
  int64_t from, to;
  struct update_vectors vectors;
  int set;    /* hidden columns, a bit each */
  int beside; /* it sets columns beside the vector */
};

static int update_store(struct ext_table *table, const struct update_row *row,
                        char **err) {
  int done;
  if (row->from != row->to)
    return change_key(table, row->from, row->to, &row->vectors, err);
  if (row->vectors.vectors)
    return put_if(table, row->to, &row->vectors, 1, &done, err);
  return is_set(row->set, EXT_UPDATED_AT)
             ? ext_error(err, SQLITE_ERROR,
                         "updated_at without %s or a gradient",
                         ext_vtab(table)->options.vectors[0])
             : SQLITE_OK;
}

/* Of a table with columns beside the vector: both or nothing.  UPDATE ... FROM
** may come to a row again that it has moved away. */
static int update_both(struct ext_table *table, sqlite3_value **argv,
                       const struct update_row *row, char **err) {
  uint8_t found = 0;
  int level = -1;
  int rc = emb_exists(table->link->session, &row->from, 1, &found);
  if (rc)
    return ext_link_error(table->link, rc, err);
  if (!found)
    return SQLITE_OK;
  rc = ext_beside_begin(table, &level, err);
  if (rc == SQLITE_OK)
    rc = update_store(table, row, err);
  if (rc == SQLITE_OK)
    rc = ext_beside_update(table, argv, row->from, row->to, err);
  return ext_beside_end(table, level, rc, err);
}

static int update_some(struct ext_table *table, sqlite3_value **argv,
                       struct update_row *row, char **err) {
  int rc;
  if (is_set(row->set, EXT_GRADIENT)) {
    rc = ext_beside_refuse(table, argv, 0, "a gradient", err);
    return rc == SQLITE_OK
               ? update_by_gradient(table, argv, row->from, row->to, err)
               : rc;
  }
  rc = update_check_alone(argv, 0, row->set, err);
  if (rc == SQLITE_OK)
    rc = update_read_row(table, argv, &row->from, &row->vectors, err);
  if (rc == SQLITE_OK &&
      (row->to != row->from || row->vectors.vectors || row->beside))
    rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = row->beside || (row->to != row->from && ext_beside_is(table))
             ? update_both(table, argv, row, err)
             : update_store(table, row, err);
  free_row(&row->vectors);
  return rc;
}

static int update_row(struct ext_table *table, sqlite3_value **argv,
                      char **err) {
  sqlite3_value *time = COLUMN(argv, EXT_UPDATED_AT);
  struct update_row row = {.from = sqlite3_value_int64(argv[0]),
                           .set = columns_set(table, argv),
                           .beside = ext_beside_is_given(table, argv, 0)};
  int timed = is_set(row.set, EXT_UPDATED_AT);
  int rc = check_update(table, row.set, err);
  if (rc == SQLITE_OK)
    rc = new_key(table, argv, row.from, &row.to, err);
  if (rc == SQLITE_OK && timed)
    rc = ext_update_time(table, time, err);
  if (rc == SQLITE_OK)
    rc = update_some(table, argv, &row, err);
  if (timed)
    ext_update_time_end(table);
  return rc;
}

int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid) {
  struct ext_table *table = (struct ext_table *)vtab;
  char *err = NULL;
  int rc;
  emb_assert(ext_txn_may(table, EXT_CALL_UPDATE, 0));
  table->synced = 0;
  rc = argc == 1 ? SQLITE_OK : ext_keys_begin(table, &err);
  if (rc != SQLITE_OK)
    return ext_vtab_error(vtab, rc, err);
  if (argc == 1)
    rc = delete_row(table, sqlite3_value_int64(argv[0]), &err);
  else if (update_is_null(argv[0]))
    rc = update_insert(table, argv, rowid, &err);
  else
    rc = update_row(table, argv, &err);
  return err ? ext_vtab_error(&table->base, rc, err) : rc;
}
