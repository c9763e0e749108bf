/* SPDX-License-Identifier: MIT
**
** change_parse.c -- parses the arguments of xUpdate into a struct ext_change.
**
** ORDER     of the checks, and hence of the errors: columns that cannot be
**           written, the new key (of an UPDATE), updated_at, columns that
**           exclude each other, keys, learning rate and step, vectors or
**           gradients.
** NOCHANGE  An UPDATE does not read columns that it does not set: SQLite marks
**           their values.  UPDATE ... FROM reads them: SQLite computes its rows
**           with a SELECT of all columns, with new values for the set columns,
**           and does not say which these are; but they are the columns that it
**           has not asked for.  If an expression reads a column that is also
**           set, the assignment goes unnoticed.
*/
#include "change.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* argv of an INSERT or UPDATE: old rowid, new rowid, columns.  With text keys
** the old and the new text take the place of the rowids. */
#define COLUMN(argv, column) ((argv)[2 + (column)])

/* Sets of hidden columns by rule, with the bits of ext_column_bit. */
#define BIT(id) (1 << (EXT_##id - EXT_FIRST_HIDDEN))
#define HAS_INSERT(id, name, type, argument, reads, rules)                     \
  +((rules)&EXT_INSERT ? BIT(id) : 0)
#define HAS_UPDATE(id, name, type, argument, reads, rules)                     \
  +((rules)&EXT_UPDATE ? BIT(id) : 0)
#define HAS_INSERT_GRADIENT(id, name, type, argument, reads, rules)            \
  +((rules)&EXT_INSERT_GRADIENT ? BIT(id) : 0)
#define HAS_UPDATE_GRADIENT(id, name, type, argument, reads, rules)            \
  +((rules)&EXT_UPDATE_GRADIENT ? BIT(id) : 0)
enum {
  ALL_HIDDEN = (1 << (EXT_MORE - EXT_FIRST_HIDDEN)) - 1,
  MAY_INSERT = 0 EXT_HIDDEN(HAS_INSERT),
  MAY_UPDATE = 0 EXT_HIDDEN(HAS_UPDATE),
  INSERT_WITH_GRADIENT = 0 EXT_HIDDEN(HAS_INSERT_GRADIENT),
  UPDATE_WITH_GRADIENT = 0 EXT_HIDDEN(HAS_UPDATE_GRADIENT),
};

static int change_is_null(sqlite3_value *value) {
  return value == NULL || sqlite3_value_type(value) == SQLITE_NULL;
}

/* ---- errors -------------------------------------------------------------- */

int ext_change_constraint(struct ext_table *table, const char *kind) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg = sqlite3_mprintf("%s constraint failed: %s", kind,
                                        ext_vtab(table)->key_what);
  return SQLITE_CONSTRAINT;
}

static int generated_error(struct ext_table *table, const char *action,
                           const char *prefix, const char *column) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg = sqlite3_mprintf("cannot %s generated column \"%s%s\"",
                                        action, prefix, column);
  return SQLITE_ERROR;
}

static int rowid_error(struct ext_table *table, char **err) {
  return ext_error(err, SQLITE_ERROR,
                   "the rowid of %s is the number of its text and cannot be "
                   "chosen",
                   table->name);
}

/* Damage, which only another program can have made. */
static int no_text_error(struct ext_table *table, char **err) {
  return ext_error(err, SQLITE_CORRUPT_VTAB,
                   "a row of %s has no text, and so cannot be changed: give "
                   "its rowid a text again, in %s_%s",
                   table->name, table->name, EXT_DICT_TABLE);
}

static int not_both_error(const char *what, char **err) {
  return ext_error(err, SQLITE_ERROR, "either %s or a gradient, not both",
                   what);
}

/* The first column of a set that is not empty. */
static const struct ext_column *first_column(int set) {
  return ext_column(EXT_FIRST_HIDDEN + __builtin_ctz((unsigned)set));
}

/* Refuses columns that cannot be written: they describe a row, or are arguments
** that no row has. */
static int check_writable(struct ext_table *table, int set, int is_insert,
                          char **err) {
  const char *prefix = ext_column_prefix(&ext_vtab(table)->options);
  int bad = set & ~(is_insert ? MAY_INSERT : MAY_UPDATE);
  const struct ext_column *column;
  if (bad == 0)
    return SQLITE_OK;
  column = first_column(bad);
  if (column->rules & EXT_GENERATED)
    return generated_error(table, is_insert ? "INSERT into" : "UPDATE", prefix,
                           column->name);
  return ext_error(err, SQLITE_ERROR, "cannot write column %s%s",
                   column->name ? prefix : "",
                   column->name ? column->name : table->name);
}

/* Refuses columns that belong to a gradient if there is none. */
static int check_alone(int set, int is_insert, char **err) {
  int bad = set & (is_insert ? INSERT_WITH_GRADIENT : UPDATE_WITH_GRADIENT);
  return bad ? ext_error(err, SQLITE_ERROR, "%s without a gradient",
                         first_column(bad)->name)
             : SQLITE_OK;
}

/* ---- values -------------------------------------------------------------- */

int ext_update_how(sqlite3_value *lr, sqlite3_value *step, emb_update *how,
                   char **err) {
  if (!change_is_null(lr)) {
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
  if (!change_is_null(step)) {
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

int ext_update_time_read(struct ext_table *table, sqlite3_value *value,
                         uint32_t *time, char **err) {
  sqlite3_int64 seconds;
  int rc;
  *time = 0;
  if (change_is_null(value))
    return SQLITE_OK;
  rc = ext_table_open(table, err);
  if (rc != SQLITE_OK)
    return rc;
  if (emb_tracking(table->link->store) == EMB_TRACK_NONE)
    return ext_error(err, SQLITE_ERROR,
                     "%s was created without track=", table->name);
  if (sqlite3_value_numeric_type(value) != SQLITE_INTEGER)
    return ext_error(err, SQLITE_MISMATCH,
                     "updated_at must be an integer, got %s",
                     ext_value_type_name(value));
  seconds = sqlite3_value_int64(value);
  if (seconds < 1 || seconds > UINT32_MAX)
    return ext_error(err, SQLITE_ERROR,
                     "updated_at must be between 1 and %u, got %lld",
                     UINT32_MAX, seconds);
  *time = (uint32_t)seconds;
  return SQLITE_OK;
}

/* Copies one of several vector columns to its position in the row. */
static int parse_part(struct ext_table *table, sqlite3_value *value, uint32_t i,
                      float *to, char **err) {
  uint32_t dim = ext_vtab(table)->options.segments[i].dim;
  struct ext_floats vector;
  int rc =
      ext_vec_from_value(value,
                         &(struct ext_arg){ext_vtab(table)->vector_what[i],
                                           ext_link_interrupted, table->conn},
                         dim, &vector, err);
  if (rc != SQLITE_OK)
    return rc;
  memcpy(to, vector.at, dim * sizeof *to);
  ext_floats_free(&vector);
  return rc;
}

/* Reads the vector columns of a row, one after the other.  Columns that an
** UPDATE does not set stay unchanged. */
static int parse_several(struct ext_table *table, sqlite3_value **argv,
                         struct ext_change *change, char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  uint32_t n = ext_vectors(options), set = 0, all = (uint32_t)(1ull << n) - 1;
  int rc = SQLITE_OK;
  for (uint32_t i = 0; i < n; i++)
    if (change->kind == EXT_CHANGE_INSERT ||
        !sqlite3_value_nochange(COLUMN(argv, ext_vector_column(i))))
      set |= UINT32_C(1) << i;
  if (set == 0)
    return SQLITE_OK;
  change->vectors.at =
      sqlite3_malloc64(options->config.dim * sizeof *change->vectors.at);
  if (change->vectors.at == NULL)
    return SQLITE_NOMEM;
  change->vectors.owned = 1;
  memset(change->vectors.at, 0,
         options->config.dim * sizeof *change->vectors.at);
  for (uint32_t i = 0; rc == SQLITE_OK && i < n; i++)
    if (set & UINT32_C(1) << i)
      rc = parse_part(table, COLUMN(argv, ext_vector_column(i)), i,
                      change->vectors.at + ext_vector_first(options, i), err);
  change->parts = set == all ? 0 : set;
  return rc;
}

static int parse_vectors(struct ext_table *table, sqlite3_value **argv,
                         struct ext_change *change, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_VECTOR);
  if (ext_vectors(&ext_vtab(table)->options) > 1)
    return parse_several(table, argv, change, err);
  if (change->kind == EXT_CHANGE_UPDATE && sqlite3_value_nochange(value))
    return SQLITE_OK;
  return ext_vec_from_value(
      value,
      &(struct ext_arg){ext_vtab(table)->vector_what[0], ext_link_interrupted,
                        table->conn},
      ext_vtab(table)->options.config.dim, &change->vectors, err);
}

/* Reads one row per key. */
static int parse_rows(struct ext_table *table, sqlite3_value *value,
                      const char *what, size_t n, struct ext_floats *rows,
                      char **err) {
  return ext_matrix_from_value(
      value, &(struct ext_arg){what, ext_link_interrupted, table->conn},
      ext_vtab(table)->options.config.dim, n, rows, err);
}

/* Reads gradients from `column`; the keys have been read already. */
static int parse_steps(struct ext_table *table, sqlite3_value **argv,
                       int column, struct ext_change *change, char **err) {
  const char *what = column == EXT_GRADIENT ? "gradient" : "gradients";
  size_t n = change->keys.n;
  int rc = ext_update_how(COLUMN(argv, EXT_LR), COLUMN(argv, EXT_STEP),
                          &change->how, err);
  if (rc == SQLITE_OK)
    rc = parse_rows(table, COLUMN(argv, column), what, n, &change->gradients,
                    err);
  if (rc == SQLITE_OK && !change_is_null(COLUMN(argv, EXT_VECTORS)))
    rc = parse_rows(table, COLUMN(argv, EXT_VECTORS), "vectors", n,
                    &change->read, err);
  change->how.read = change->read.at;
  return rc;
}

/* ---- the row ------------------------------------------------------------- */

static int parse_from_text(struct ext_table *table, sqlite3_value *value,
                           struct ext_change *change, char **err) {
  struct ext_keys row = {0};
  int rc;
  if (change_is_null(value))
    return EMB_SEED(SEED_ROW_WITHOUT_TEXT_MISTAKEN) ? SQLITE_OK
                                                    : no_text_error(table, err);
  rc = ext_key_read(table, value, &row, err);
  change->from = row.one;
  if (rc == SQLITE_OK && row.absent)
    change->kind = EXT_CHANGE_NOTHING;
  ext_keys_free(&row);
  return rc;
}

/* Reads the current key of the row that an UPDATE or DELETE is about. */
static int parse_from(struct ext_table *table, sqlite3_value *value,
                      struct ext_change *change, char **err) {
  if (ext_vtab(table)->options.text_key)
    return parse_from_text(table, value, change, err);
  change->from = sqlite3_value_int64(value);
  return SQLITE_OK;
}

/* The rowid that a statement gives to a text key is an error, unless it is the
** one that the row has. */
static int check_number(struct ext_table *table, sqlite3_value **argv,
                        const struct ext_change *change, char **err) {
  int column = ext_vtab(table)->number_column;
  sqlite3_value *value = column >= 0 ? COLUMN(argv, column) : NULL;
  if (value == NULL || sqlite3_value_nochange(value) ||
      (change->kind != EXT_CHANGE_UPDATE && change_is_null(value)))
    return SQLITE_OK;
  return change->kind == EXT_CHANGE_UPDATE &&
                 sqlite3_value_int64(value) == change->from
             ? SQLITE_OK
             : rowid_error(table, err);
}

/* ---- INSERT -------------------------------------------------------------- */

/* INSERT INTO items(rowid, ...) is another way to give an integer key. */
static int parse_insert_key(struct ext_table *table, sqlite3_value **argv,
                            struct ext_change *change, char **err) {
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  if (change_is_null(value) && !ext_vtab(table)->options.text_key)
    value = argv[1];
  if (change_is_null(value))
    return ext_change_constraint(table, "NOT NULL");
  return ext_key_read(table, value, &change->keys, err);
}

static int parse_insert_row(struct ext_table *table, sqlite3_value **argv,
                            struct ext_change *change, char **err) {
  int rc;
  change->kind = EXT_CHANGE_INSERT;
  rc = parse_insert_key(table, argv, change, err);
  return rc == SQLITE_OK ? parse_vectors(table, argv, change, err) : rc;
}

/* The first vector column with a value, or -1. */
static int given_vector(struct ext_table *table, sqlite3_value **argv) {
  for (uint32_t i = 0; i < ext_vectors(&ext_vtab(table)->options); i++)
    if (!change_is_null(COLUMN(argv, ext_vector_column(i))))
      return (int)i;
  return -1;
}

static int parse_insert_batch(struct ext_table *table, sqlite3_value **argv,
                              struct ext_change *change, char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int rc;
  change->kind = EXT_CHANGE_INSERT_BATCH;
  if (!change_is_null(COLUMN(argv, EXT_KEY)) || given_vector(table, argv) >= 0)
    return ext_error(err, SQLITE_ERROR,
                     "either %s and %s or keys and vectors, not both",
                     options->key, options->vectors[0]);
  rc = ext_aux_refuse(table, &change->aux, "keys and vectors", err);
  if (rc == SQLITE_OK)
    rc = ext_keys_read(table, COLUMN(argv, EXT_KEYS), "keys", &change->keys,
                       err);
  if (rc == SQLITE_OK)
    rc = parse_rows(table, COLUMN(argv, EXT_VECTORS), "vectors", change->keys.n,
                    &change->vectors, err);
  return rc;
}

static int parse_insert_gradient(struct ext_table *table, sqlite3_value **argv,
                                 int given, struct ext_change *change,
                                 char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int one = (given & BIT(GRADIENT)) != 0, vector;
  int rc = ext_aux_refuse(table, &change->aux, "a gradient", err);
  change->kind = EXT_CHANGE_GRADIENT;
  if (rc != SQLITE_OK)
    return rc;
  if (one == ((given & BIT(GRADIENTS)) != 0) ||
      one == change_is_null(COLUMN(argv, EXT_KEY)) ||
      one == ((given & BIT(KEYS)) != 0))
    return ext_error(err, SQLITE_ERROR,
                     "either %s and gradient or keys and gradients",
                     options->key);
  vector = given_vector(table, argv);
  if (vector >= 0)
    return not_both_error(options->vectors[vector], err);
  rc = one ? ext_key_read(table, COLUMN(argv, EXT_KEY), &change->keys, err)
           : ext_keys_read(table, COLUMN(argv, EXT_KEYS), "keys", &change->keys,
                           err);
  return rc == SQLITE_OK
             ? parse_steps(table, argv, one ? EXT_GRADIENT : EXT_GRADIENTS,
                           change, err)
             : rc;
}

static int parse_insert(struct ext_table *table, sqlite3_value **argv,
                        struct ext_change *change, char **err) {
  int given = 0, rc;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (!change_is_null(COLUMN(argv, i)))
      given |= ext_column_bit(i);
  if (given & BIT(COMMAND)) {
    change->kind = EXT_CHANGE_COMMAND;
    change->command = COLUMN(argv, EXT_COMMAND);
    change->arg = COLUMN(argv, EXT_ARG);
    return SQLITE_OK;
  }
  change->inserts = 1;
  change->aux = ext_aux_values(table, argv, 1);
  rc = check_writable(table, given, 1, err);
  if (rc == SQLITE_OK)
    rc = check_number(table, argv, change, err);
  if (rc == SQLITE_OK)
    rc = ext_update_time_read(table, COLUMN(argv, EXT_UPDATED_AT),
                              &change->time, err);
  if (rc != SQLITE_OK)
    return rc;
  if (given & (BIT(GRADIENT) | BIT(GRADIENTS)))
    return parse_insert_gradient(table, argv, given, change, err);
  rc = check_alone(given, 1, err);
  if (rc != SQLITE_OK)
    return rc;
  return given & (BIT(KEYS) | BIT(VECTORS))
             ? parse_insert_batch(table, argv, change, err)
             : parse_insert_row(table, argv, change, err);
}

/* ---- UPDATE -------------------------------------------------------------- */

/* Returns the hidden columns that an UPDATE sets; *joined: UPDATE ... FROM. */
static int columns_set(struct ext_table *table, sqlite3_value **argv,
                       int *joined) {
  int set = 0, unread = 0;
  for (int i = EXT_FIRST_HIDDEN; i < EXT_MORE; i++)
    if (sqlite3_value_nochange(COLUMN(argv, i)))
      unread = 1;
    else
      set |= ext_column_bit(i);
  *joined = !unread;
  return unread ? set : ALL_HIDDEN & ~ext_vtab(table)->update_reads;
}

/* Reads the new key from the key column or, if that is unchanged, from the
** rowid.  A new text always moves the row. */
static int parse_new_key(struct ext_table *table, sqlite3_value **argv,
                         struct ext_change *change, char **err) {
  struct ext_keys *keys = &change->keys;
  sqlite3_value *value = COLUMN(argv, EXT_KEY);
  int rc;
  if (!sqlite3_value_nochange(value)) {
    if (change_is_null(value))
      return ext_change_constraint(table, "NOT NULL");
    rc = ext_key_read(table, value, keys, err);
    change->moves = keys->absent || keys->one != change->from;
    if (rc != SQLITE_OK || change->moves)
      return rc;
  }
  keys->at = &keys->one;
  keys->n = 1;
  keys->one = change->from;
  if (ext_vtab(table)->options.text_key)
    return check_number(table, argv, change, err);
  sqlite3_value_numeric_type(argv[1]);
  rc = ext_key_from_value(argv[1], ext_vtab(table)->key_what, &keys->one, err);
  change->moves = keys->one != change->from;
  return rc;
}

/* SET gradient excludes all other columns of a row. */
static int parse_update_gradient(struct ext_table *table, sqlite3_value **argv,
                                 int joined, struct ext_change *change,
                                 char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int rc = joined ? SQLITE_OK
                  : ext_aux_refuse(table, &change->aux, "a gradient", err);
  change->kind = EXT_CHANGE_GRADIENT;
  if (rc != SQLITE_OK)
    return rc;
  if (change->moves)
    return not_both_error(options->key, err);
  for (uint32_t i = 0; !joined && i < ext_vectors(options); i++)
    if (!sqlite3_value_nochange(COLUMN(argv, ext_vector_column(i))))
      return not_both_error(options->vectors[i], err);
  return parse_steps(table, argv, EXT_GRADIENT, change, err);
}

static int parse_update(struct ext_table *table, sqlite3_value **argv,
                        struct ext_change *change, char **err) {
  int joined, set = columns_set(table, argv, &joined);
  int timed = (set & BIT(UPDATED_AT)) != 0;
  int rc = check_writable(table, set, 0, err);
  change->kind = EXT_CHANGE_UPDATE;
  change->aux = ext_aux_values(table, argv, 0);
  if (rc == SQLITE_OK)
    rc = parse_from(table, argv[0], change, err);
  if (rc != SQLITE_OK || change->kind == EXT_CHANGE_NOTHING)
    return rc;
  rc = parse_new_key(table, argv, change, err);
  if (rc == SQLITE_OK && timed)
    rc = ext_update_time_read(table, COLUMN(argv, EXT_UPDATED_AT),
                              &change->time, err);
  if (rc != SQLITE_OK)
    return rc;
  if (set & BIT(GRADIENT))
    return parse_update_gradient(table, argv, joined, change, err);
  rc = check_alone(set, 0, err);
  if (rc == SQLITE_OK)
    rc = parse_vectors(table, argv, change, err);
  if (rc == SQLITE_OK && timed && !change->moves && !change->vectors.at)
    rc = ext_error(err, SQLITE_ERROR, "updated_at without %s or a gradient",
                   ext_vtab(table)->options.vectors[0]);
  return rc;
}

/* Is it an UPDATE?  A row without a text has no old key, as in an INSERT, but
** only an UPDATE leaves columns unchanged. */
static int is_update(const struct ext_table *table, sqlite3_value **argv) {
  return !change_is_null(argv[0]) ||
         (ext_vtab(table)->options.text_key &&
          sqlite3_value_nochange(COLUMN(argv, EXT_KEYS)));
}

int ext_change_parse(struct ext_table *table, int argc, sqlite3_value **argv,
                     struct ext_change *change, char **err) {
  memset(change, 0, sizeof *change);
  if (argc == 1) {
    change->kind = EXT_CHANGE_DELETE;
    return parse_from(table, argv[0], change, err);
  }
  return is_update(table, argv) ? parse_update(table, argv, change, err)
                                : parse_insert(table, argv, change, err);
}

void ext_change_free(struct ext_change *change) {
  ext_floats_free(&change->vectors);
  ext_floats_free(&change->gradients);
  ext_floats_free(&change->read);
  ext_keys_free(&change->keys);
}
