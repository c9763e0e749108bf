/* SPDX-License-Identifier: MIT
**
** update.c -- xUpdate: INSERT, UPDATE and DELETE, row by row or in batches.
**
** SQLite does not bracket a statement of one row with a savepoint, so each
** call here must change everything or nothing: arguments are checked before
** the first write, and the one case of two writes (UPDATE of a key) has a
** savepoint of its own.
**
** CONFLICT  A key that is taken gives plain SQLITE_CONSTRAINT (SQLite compares
**           with it to do IGNORE, FAIL and ROLLBACK), except under REPLACE,
**           where the old vector is overwritten.
** BATCH     INSERT INTO items(keys, vectors) replaces what is there, as
**           emb_put does; of a repeated key the last row stays.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* argv of an INSERT or UPDATE: old rowid, new rowid, columns. */
#define COLUMN(argv, column) ((argv)[2 + (column)])

static int is_null(sqlite3_value *value) {
  return sqlite3_value_type(value) == SQLITE_NULL;
}

/* SQLite applies no affinity to the values of a virtual table; this does what
** INTEGER would, so that '7' is 7 (Tcl binds it so). */
static int read_key(struct ext_table *table, sqlite3_value *value, int64_t *key,
                    char **err) {
  sqlite3_value_numeric_type(value);
  return emb_key_from_value(value, table->key_what, key, err);
}

/* The texts are core's own, without "emb: " in front. */
static int constraint_error(struct ext_table *table, const char *kind) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg =
      sqlite3_mprintf("%s constraint failed: %s", kind, table->key_what);
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
struct row {
  float *vectors; /* NULL: an UPDATE that sets none */
  uint32_t parts; /* columns that it sets, a bit each; 0: all */
  int owned;
};

static int put(struct ext_table *table, const int64_t *keys, size_t n,
               const float *vectors, char **err) {
  int rc = emb_txn_put(table->link->session, keys, n, vectors);
  return rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
}

/* The row of a key that must be there, or must not; *done: it was. */
static int put_if(struct ext_table *table, int64_t key, const struct row *row,
                  int present, int *done, char **err) {
  struct ext_link *link = table->link;
  int rc = emb_txn_put_if(link->session, key, row->vectors, row->parts, present,
                          done);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static int put_new(struct ext_table *table, int64_t key, const struct row *row,
                   char **err) {
  int done, rc;
  if (is_replace(table))
    return put(table, &key, 1, row->vectors, err);
  rc = put_if(table, key, row, 0, &done, err);
  return rc != SQLITE_OK || done ? rc : constraint_error(table, "UNIQUE");
}

/* A column of several, to its place. */
static int read_part(struct ext_table *table, sqlite3_value *value, uint32_t i,
                     float *to, char **err) {
  uint32_t dim = table->options.segments[i].dim, n;
  float *vector;
  int owned;
  int rc = emb_vec_from_value(value, table->vector_what[i], dim, &vector,
                              &owned, &n, err);
  if (rc != SQLITE_OK)
    return rc;
  memcpy(to, vector, dim * sizeof *to);
  if (owned)
    sqlite3_free(vector);
  return rc;
}

/* key: of the row that an UPDATE changes, NULL for an INSERT.  What is not set
** stays as it is. */
static int read_several(struct ext_table *table, sqlite3_value **argv,
                        const int64_t *key, struct row *row, char **err) {
  const struct ext_options *options = &table->options;
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

static int read_row(struct ext_table *table, sqlite3_value **argv,
                    const int64_t *key, struct row *row, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_VECTOR);
  uint32_t n;
  int rc;
  *row = (struct row){NULL, 0, 0};
  if (ext_vectors(&table->options) > 1)
    return read_several(table, argv, key, row, err);
  if (key && sqlite3_value_nochange(value))
    return SQLITE_OK;
  rc = emb_vec_from_value(value, table->vector_what[0],
                          table->options.config.dim, &row->vectors, &row->owned,
                          &n, err);
  row->owned &= rc == SQLITE_OK;
  return rc;
}

static void free_row(struct row *row) {
  if (row->owned)
    sqlite3_free(row->vectors);
}

static int insert_row(struct ext_table *table, sqlite3_value **argv,
                      sqlite3_int64 *rowid, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  struct row row = {NULL, 0, 0};
  int64_t key;
  int rc;
  if (is_null(value))
    value = argv[1]; /* INSERT INTO items(rowid, ...) */
  if (is_null(value))
    return constraint_error(table, "NOT NULL");
  rc = read_key(table, value, &key, err);
  if (rc == SQLITE_OK)
    rc = read_row(table, argv, NULL, &row, err);
  if (rc == SQLITE_OK)
    rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK)
    rc = put_new(table, key, &row, err);
  free_row(&row);
  *rowid = key;
  return rc;
}

static int insert_batch(struct ext_table *table, sqlite3_value **argv,
                        sqlite3_int64 *rowid, char **err) {
  int64_t *keys = NULL;
  float *vectors = NULL;
  int keys_owned = 0, vectors_owned = 0;
  size_t n;
  int rc;
  int is_row = !is_null(COLUMN(argv, EXT_KEY));
  for (uint32_t i = 0; i < ext_vectors(&table->options); i++)
    is_row |= !is_null(COLUMN(argv, ext_vector_column(i)));
  if (is_row)
    return ext_error(err, SQLITE_ERROR,
                     "either %s and %s or keys and vectors, not both",
                     table->options.key, table->options.vectors[0]);
  rc = emb_keys_from_value(COLUMN(argv, EXT_KEYS), "keys", &keys, &keys_owned,
                           &n, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_matrix_from_value(COLUMN(argv, EXT_VECTORS), "vectors",
                             table->options.config.dim, n, &vectors,
                             &vectors_owned, err);
  vectors_owned &= rc == SQLITE_OK;
  if (rc == SQLITE_OK && n > 0) {
    rc = ext_txn_write(table, err);
    if (rc == SQLITE_OK)
      rc = put(table, keys, n, vectors, err);
    *rowid = keys[n - 1];
  }
  if (vectors_owned)
    sqlite3_free(vectors);
  if (keys_owned)
    sqlite3_free(keys);
  return rc;
}

/* Columns that cannot be written: they tell something of a row, or are
** arguments that no row has. */
static const struct {
  int column;
  const char *name; /* NULL: the table's */
  int is_generated;
  int in_insert, in_update; /* means something there */
} hidden[] = {{EXT_KEYS, "keys", 0, 1, 0},
              {EXT_VECTORS, "vectors", 0, 1, 1},
              {EXT_MODE, "mode", 0, 0, 0},
              {EXT_FOUND, "found", 1, 0, 0},
              {EXT_VERSIONS, "versions", 1, 0, 0},
              {EXT_VERSION, "version", 1, 0, 0},
              {EXT_CLOCK, "clock", 1, 0, 0},
              {EXT_COMMAND, NULL, 0, 1, 0},
              {EXT_ARG, "arg", 0, 0, 0},
              {EXT_GRADIENT, "gradient", 0, 1, 1},
              {EXT_GRADIENTS, "gradients", 0, 1, 0},
              {EXT_LR, "lr", 0, 1, 1},
              {EXT_STEP, "step", 0, 1, 1},
              {EXT_FREQUENCY, "frequency", 1, 0, 0},
              {EXT_UPDATED_AT, "updated_at", 0, 1, 1},
              {EXT_SNAPSHOT, "snapshot", 0, 0, 0}};
#define HIDDEN (sizeof hidden / sizeof hidden[0])

static int unwritable(struct ext_table *table, size_t i, int is_insert,
                      char **err) {
  if (hidden[i].is_generated)
    return generated_error(table, is_insert ? "INSERT into" : "UPDATE",
                           hidden[i].name);
  return ext_error(err, SQLITE_ERROR, "cannot write column %s",
                   hidden[i].name ? hidden[i].name : table->name);
}

/* What belongs to a gradient, without one. */
static int check_alone(sqlite3_value **argv, int is_insert, char **err) {
  static const struct {
    int column;
    const char *name;
  } parts[] = {{EXT_LR, "lr"}, {EXT_STEP, "step"}, {EXT_VECTORS, "vectors"}};
  int unread = sqlite3_value_nochange(COLUMN(argv, EXT_KEYS));
  for (size_t i = 0; i < 3; i++) {
    sqlite3_value *value = COLUMN(argv, parts[i].column);
    if (is_insert && parts[i].column == EXT_VECTORS)
      continue; /* of a batch */
    if (unread ? !sqlite3_value_nochange(value) : !is_null(value))
      return ext_error(err, SQLITE_ERROR, "%s without a gradient",
                       parts[i].name);
  }
  return SQLITE_OK;
}

static int check_insert(struct ext_table *table, sqlite3_value **argv,
                        char **err) {
  for (size_t i = 0; i < HIDDEN; i++)
    if (!hidden[i].in_insert && !is_null(COLUMN(argv, hidden[i].column)))
      return unwritable(table, i, 1, err);
  return SQLITE_OK;
}

/* An UPDATE does not read what it does not set.  UPDATE ... FROM does, and what
** it has read of version, clock, frequency and updated_at looks like what is
** set. */
static int check_update(struct ext_table *table, sqlite3_value **argv,
                        char **err) {
  int unread = 0;
  for (size_t i = 0; i < HIDDEN; i++)
    unread += sqlite3_value_nochange(COLUMN(argv, hidden[i].column));
  for (size_t i = 0; i < HIDDEN; i++) {
    sqlite3_value *value = COLUMN(argv, hidden[i].column);
    int was_read = is_null(value) || hidden[i].column == EXT_VERSION ||
                   hidden[i].column == EXT_CLOCK ||
                   hidden[i].column == EXT_FREQUENCY;
    if (!hidden[i].in_update &&
        (unread ? !sqlite3_value_nochange(value) : !was_read))
      return unwritable(table, i, 0, err);
  }
  return SQLITE_OK;
}

static int insert_some(struct ext_table *table, sqlite3_value **argv,
                       sqlite3_int64 *rowid, char **err) {
  int rc;
  if (!is_null(COLUMN(argv, EXT_GRADIENT)) ||
      !is_null(COLUMN(argv, EXT_GRADIENTS)))
    return ext_gradient_insert(table, argv, rowid, err);
  rc = check_alone(argv, 1, err);
  if (rc != SQLITE_OK)
    return rc;
  if (!is_null(COLUMN(argv, EXT_KEYS)) || !is_null(COLUMN(argv, EXT_VECTORS)))
    return insert_batch(table, argv, rowid, err);
  return insert_row(table, argv, rowid, err);
}

static int insert(struct ext_table *table, sqlite3_value **argv,
                  sqlite3_int64 *rowid, char **err) {
  int rc;
  if (!is_null(COLUMN(argv, EXT_COMMAND)))
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
  int rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK) {
    rc = emb_txn_delete(table->link->session, &key, 1, NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, err);
  }
  return rc;
}

/* The row with all that belongs to it, and what is set of its vectors.  Both or
** nothing. */
static int move_row(struct ext_table *table, int64_t from, int64_t to,
                    const struct row *row, char **err) {
  struct ext_link *link = table->link;
  int level = link->level + 1, found;
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
** rowid. */
static int new_key(struct ext_table *table, sqlite3_value **argv, int64_t old,
                   int64_t *key, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  *key = old;
  if (!sqlite3_value_nochange(value)) {
    int rc;
    if (is_null(value))
      return constraint_error(table, "NOT NULL");
    rc = read_key(table, value, key, err);
    if (rc != SQLITE_OK || *key != old)
      return rc;
  }
  return read_key(table, argv[1], key, err);
}

/* The row gets another key.  UPDATE ... FROM may come to a row again that it
** has moved away. */
static int change_key(struct ext_table *table, int64_t from, int64_t to,
                      const struct row *row, char **err) {
  uint8_t found = 0;
  int rc = emb_exists(table->link->session, &from, 1, &found);
  if (rc)
    return ext_link_error(table->link, rc, err);
  return found ? move_row(table, from, to, row, err) : SQLITE_OK;
}

/* SET gradient goes with nothing else that a row has. */
static int update_by_gradient(struct ext_table *table, sqlite3_value **argv,
                              int64_t old, int64_t key, char **err) {
  if (key != old)
    return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                     table->options.key);
  for (uint32_t i = 0; i < ext_vectors(&table->options); i++) {
    sqlite3_value *value = COLUMN(argv, ext_vector_column(i));
    if (!sqlite3_value_nochange(value) &&
        sqlite3_value_nochange(COLUMN(argv, EXT_KEYS)))
      return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                       table->options.vectors[i]);
  }
  return ext_gradient_update(table, argv, key, err);
}

/* A value that the statement sets.  An UPDATE ... FROM that sets nothing gives
** NULL. */
static int is_set(sqlite3_value *value) {
  return !sqlite3_value_nochange(value) && !is_null(value);
}

/* key: the row's new one. */
static int update_some(struct ext_table *table, sqlite3_value **argv,
                       int64_t old, int64_t key, int timed, char **err) {
  struct row row = {NULL, 0, 0};
  int done, rc;
  if (is_set(COLUMN(argv, EXT_GRADIENT)))
    return update_by_gradient(table, argv, old, key, err);
  rc = check_alone(argv, 0, err);
  if (rc == SQLITE_OK)
    rc = read_row(table, argv, &old, &row, err);
  if (rc == SQLITE_OK && (key != old || row.vectors))
    rc = ext_txn_write(table, err);
  if (rc == SQLITE_OK && key != old)
    rc = change_key(table, old, key, &row, err);
  else if (rc == SQLITE_OK && row.vectors)
    rc = put_if(table, key, &row, 1, &done, err);
  else if (rc == SQLITE_OK && timed)
    rc = ext_error(err, SQLITE_ERROR, "updated_at without %s or a gradient",
                   table->options.vectors[0]);
  free_row(&row);
  return rc;
}

/* What UPDATE ... FROM says of updated_at is what it has read. */
static int update(struct ext_table *table, sqlite3_value **argv, char **err) {
  sqlite3_value *time = COLUMN(argv, EXT_UPDATED_AT);
  int64_t old = sqlite3_value_int64(argv[0]), key;
  int timed = is_set(time) && sqlite3_value_nochange(COLUMN(argv, EXT_KEYS));
  int rc = check_update(table, argv, err);
  if (rc == SQLITE_OK)
    rc = new_key(table, argv, old, &key, err);
  if (rc == SQLITE_OK && timed)
    rc = ext_update_time(table, time, err);
  if (rc == SQLITE_OK)
    rc = update_some(table, argv, old, key, timed, err);
  if (timed)
    ext_update_time_end(table);
  return rc;
}

int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid) {
  struct ext_table *table = (struct ext_table *)vtab;
  char *err = NULL;
  int rc;
  if (argc == 1)
    rc = delete_row(table, sqlite3_value_int64(argv[0]), &err);
  else if (is_null(argv[0]))
    rc = insert(table, argv, rowid, &err);
  else
    rc = update(table, argv, &err);
  return err ? ext_table_error(table, rc, err) : rc;
}
