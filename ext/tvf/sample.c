/* SPDX-License-Identifier: MIT
**
** sample.c -- random rows.
**
**     CREATE TABLE emb_sample(
**       key INTEGER, vector BLOB, probability REAL, expected_count REAL,
**       "table" HIDDEN, n HIDDEN, distribution HIDDEN, options HIDDEN,
**       without HIDDEN)
**     CREATE TABLE emb_sample_batch(
**       keys BLOB, vectors BLOB, probabilities BLOB, expected_counts BLOB,
**       the same hidden columns)
**
** emb_sample has a row for each key, in the order drawn.  A vector is read when
** the statement asks for it, in blocks, and is NULL if its row has been removed
** since.  emb_sample_batch has one row for a training step: int64 keys, and
** float32 for the other columns, in the same order.  Columns that the statement
** does not use are not computed.
**
** Arguments are those of emb_sample_keys (fn/sample.c).
*/
#include "tvf_cursors.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- emb_sample ---------------------------------------------------------- */

enum {
  SAMPLE_KEY = 0,
  SAMPLE_VECTOR,
  SAMPLE_PROBABILITY,
  SAMPLE_EXPECTED_COUNT,
  SAMPLE_TABLE
};

static int sample_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                        char **err) {
  struct sample_cursor *cursor = (struct sample_cursor *)base;
  struct ext_sample ask = {0};
  int rc = ext_sample_read(base->conn, arguments, &ask, err);
  if (rc == SQLITE_OK) {
    size_t room = ask.n * sizeof(double) + 1;
    ext_tvf_hold(base, ask.table->link);
    cursor->dim = ext_vtab(ask.table)->options.config.dim;
    cursor->keys = sqlite3_malloc64(room);
    cursor->probabilities = sqlite3_malloc64(room);
    cursor->expected_counts = sqlite3_malloc64(room);
    rc = cursor->keys && cursor->probabilities && cursor->expected_counts
             ? ext_sample_draw(&ask,
                               &(emb_samples){cursor->keys, NULL,
                                              cursor->probabilities,
                                              cursor->expected_counts},
                               &base->n, err)
             : SQLITE_NOMEM;
  }
  ext_sample_free(&ask);
  return rc;
}

/* sample_begin has drawn all rows, so there is no `more` callback. */
static void sample_end(struct ext_tvf_cursor *base) {
  struct sample_cursor *cursor = (struct sample_cursor *)base;
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->probabilities);
  sqlite3_free(cursor->expected_counts);
  sqlite3_free(cursor->vectors);
  cursor->keys = NULL;
  cursor->probabilities = cursor->expected_counts = NULL;
  cursor->vectors = NULL;
  cursor->from = cursor->end = 0;
}

/* Reads the block that begins at the current row. */
static int sample_read(struct sample_cursor *cursor, char **err) {
  struct ext_tvf_cursor *base = &cursor->base;
  size_t n = base->n - base->at;
  int rc;
  n = n < SAMPLE_BLOCK ? n : SAMPLE_BLOCK;
  if (cursor->vectors == NULL)
    cursor->vectors =
        sqlite3_malloc64(SAMPLE_BLOCK * cursor->dim * sizeof(float));
  if (cursor->vectors == NULL)
    return SQLITE_NOMEM;
  rc = emb_peek(base->link->session, cursor->keys + base->at, n,
                cursor->vectors, cursor->found, NULL);
  cursor->from = base->at;
  cursor->end = rc ? base->at : base->at + n;
  emb_check(ext_sample_cursor_valid(cursor));
  return rc ? ext_link_error(base->link, rc, err) : SQLITE_OK;
}

static void sample_vector(struct sample_cursor *cursor,
                          sqlite3_context *context) {
  struct ext_tvf_cursor *base = &cursor->base;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (base->at < cursor->from || base->at >= cursor->end)
    rc = sample_read(cursor, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (cursor->found[base->at - cursor->from])
    sqlite3_result_blob64(
        context, cursor->vectors + (base->at - cursor->from) * cursor->dim,
        cursor->dim * sizeof(float), SQLITE_TRANSIENT);
}

static void sample_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                          int i) {
  struct sample_cursor *cursor = (struct sample_cursor *)base;
  if (i == SAMPLE_KEY)
    ext_key_result(context, base->link, cursor->keys[base->at]);
  else if (i == SAMPLE_VECTOR)
    sample_vector(cursor, context);
  else if (i == SAMPLE_PROBABILITY)
    sqlite3_result_double(context, cursor->probabilities[base->at]);
  else if (i == SAMPLE_EXPECTED_COUNT)
    sqlite3_result_double(context, cursor->expected_counts[base->at]);
}

/* ---- emb_sample_batch ---------------------------------------------------- */

enum { BATCH_KEYS = 0, BATCH_VECTORS, BATCH_PROBABILITIES, BATCH_EXPECTED };
#define BATCH_COLUMNS 4

struct sample_batch_cursor {
  struct ext_tvf_cursor base;               /* must be first */
  struct ext_value *columns[BATCH_COLUMNS]; /* NULL: not used */
  char *json;                               /* the keys, if they are texts */
};

/* Records in the plan which columns are used. */
static void sample_batch_plan(sqlite3_index_info *info) {
  for (int i = 0; i < BATCH_COLUMNS; i++)
    if (info->colUsed >> i & 1)
      info->idxNum |= EXT_TVF_PLAN << i;
}

static int sample_make_room(struct sample_batch_cursor *cursor,
                            const struct ext_sample *ask, char **err) {
  uint32_t dim = ext_vtab(ask->table)->options.config.dim;
  const size_t bytes[BATCH_COLUMNS] = {sizeof(int64_t), dim * sizeof(float),
                                       sizeof(double), sizeof(double)};
  int vectors = cursor->base.plan & EXT_TVF_PLAN << BATCH_VECTORS;
  int rc =
      ext_check_size(cursor->base.conn->db, ask->n, vectors ? dim : 2, err);
  for (int i = 0; i < BATCH_COLUMNS && rc == SQLITE_OK; i++)
    if (i == BATCH_KEYS || cursor->base.plan & EXT_TVF_PLAN << i) {
      cursor->columns[i] = ext_value_new(ask->n * bytes[i]);
      rc = cursor->columns[i] ? SQLITE_OK : SQLITE_NOMEM;
    }
  return rc;
}

/* Converts doubles to float32 in place. */
static void doubles_to_floats(struct ext_value *value, size_t n) {
  double *from = ext_value_data(value);
  char *to = ext_value_data(value);
  for (size_t i = 0; value && i < n; i++) {
    float narrowed = (float)from[i];
    memcpy(to + i * sizeof narrowed, &narrowed, sizeof narrowed);
  }
}

static void sample_batch_cut(struct sample_batch_cursor *cursor, uint32_t dim,
                             size_t n) {
  const size_t bytes[BATCH_COLUMNS] = {sizeof(int64_t), dim * sizeof(float),
                                       sizeof(float), sizeof(float)};
  doubles_to_floats(cursor->columns[BATCH_PROBABILITIES], n);
  doubles_to_floats(cursor->columns[BATCH_EXPECTED], n);
  for (int i = 0; i < BATCH_COLUMNS; i++)
    if (cursor->columns[i])
      cursor->columns[i]->size = n * bytes[i];
}

static int sample_batch_begin(struct ext_tvf_cursor *base,
                              sqlite3_value **arguments, char **err) {
  struct sample_batch_cursor *cursor = (struct sample_batch_cursor *)base;
  struct ext_sample ask = {0};
  size_t n = 0;
  int rc = ext_sample_read(base->conn, arguments, &ask, err);
  if (rc == SQLITE_OK)
    rc = sample_make_room(cursor, &ask, err);
  if (rc == SQLITE_OK) {
    const emb_samples to = {
        .keys = ext_value_data(cursor->columns[BATCH_KEYS]),
        .vectors = ext_value_data(cursor->columns[BATCH_VECTORS]),
        .probabilities = ext_value_data(cursor->columns[BATCH_PROBABILITIES]),
        .expected_counts = ext_value_data(cursor->columns[BATCH_EXPECTED])};
    rc = ext_sample_draw(&ask, &to, &n, err);
  }
  if (rc == SQLITE_OK && ask.table->link->dict)
    rc = ext_keys_json(ask.table->link,
                       ext_value_data(cursor->columns[BATCH_KEYS]), n,
                       &cursor->json, err);
  if (rc == SQLITE_OK) {
    sample_batch_cut(cursor, ext_vtab(ask.table)->options.config.dim, n);
    base->n = 1;
  }
  ext_sample_free(&ask);
  return rc;
}

static void sample_batch_end(struct ext_tvf_cursor *base) {
  struct sample_batch_cursor *cursor = (struct sample_batch_cursor *)base;
  for (int i = 0; i < BATCH_COLUMNS; i++) {
    ext_value_drop(cursor->columns[i]);
    cursor->columns[i] = NULL;
  }
  sqlite3_free(cursor->json);
  cursor->json = NULL;
}

static void sample_batch_column(struct ext_tvf_cursor *base,
                                sqlite3_context *context, int i) {
  struct sample_batch_cursor *cursor = (struct sample_batch_cursor *)base;
  if (i == BATCH_KEYS && cursor->json)
    sqlite3_result_text(context, cursor->json, -1, SQLITE_TRANSIENT);
  else if (i < BATCH_COLUMNS && cursor->columns[i])
    ext_value_result(context, cursor->columns[i]);
}

/* ---- both ---------------------------------------------------------------- */

#define SAMPLE_HIDDEN                                                          \
  "\"table\" HIDDEN, n HIDDEN, distribution HIDDEN, options HIDDEN, "          \
  "without HIDDEN)"

static const struct ext_tvf sample = {
    .name = "emb_sample",
    .declaration = "CREATE TABLE x(key, vector BLOB, probability REAL, "
                   "expected_count REAL, " SAMPLE_HIDDEN,
    .argument = SAMPLE_TABLE,
    .arguments = 5,
    .needed = 2,
    .needs = "a table name and n",
    .cost = 1000,
    .rows = 1000,
    .cursor_size = sizeof(struct sample_cursor),
    .begin = sample_begin,
    .column = sample_column,
    .end = sample_end,
};

static const struct ext_tvf sample_batch = {
    .name = "emb_sample_batch",
    .declaration = "CREATE TABLE x(keys, vectors BLOB, probabilities BLOB, "
                   "expected_counts BLOB, " SAMPLE_HIDDEN,
    .argument = BATCH_COLUMNS,
    .arguments = 5,
    .needed = 2,
    .needs = "a table name and n",
    .cost = 1000,
    .rows = 1,
    .plan = sample_batch_plan,
    .cursor_size = sizeof(struct sample_batch_cursor),
    .begin = sample_batch_begin,
    .column = sample_batch_column,
    .end = sample_batch_end,
};

int ext_tvf_sample_register(struct ext_conn *conn) {
  int rc = ext_tvf_register(conn, &sample);
  return rc == SQLITE_OK ? ext_tvf_register(conn, &sample_batch) : rc;
}
