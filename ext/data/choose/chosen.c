/* SPDX-License-Identifier: MIT
**
** chosen.c -- emb_chosen(coreset): the rows of a result of emb_coreset.  The
** BLOB may come from anywhere, so it is checked.
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

enum { CHOSEN_RANK, CHOSEN_KEY, CHOSEN_WEIGHT, CHOSEN_GAIN, CHOSEN_ARGUMENT };

struct chosen_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct ext_chosen *rows;
};

static int chosen_check(const unsigned char *blob, size_t size, size_t *n,
                        char **err) {
  uint64_t head[2] = {0, 0};
  if (size >= CHOSEN_HEAD)
    memcpy(head, blob, CHOSEN_HEAD);
  if (head[0] != CHOSEN_MAGIC || (size - CHOSEN_HEAD) / 24 != head[1] ||
      (size - CHOSEN_HEAD) % 24 != 0)
    return ext_error(err, SQLITE_MISMATCH,
                     "coreset is not a BLOB of emb_coreset");
  *n = (size_t)head[1];
  for (size_t i = 0; i < *n; i++) {
    struct ext_chosen row;
    memcpy(&row, blob + CHOSEN_HEAD + i * sizeof row, sizeof row);
    if (!isfinite(row.weight) || row.weight < 0 || isinf(row.gain))
      return ext_error(err, SQLITE_MISMATCH,
                       "coreset is damaged: row %lld of its BLOB",
                       (long long)i + 1);
  }
  return SQLITE_OK;
}

static int chosen_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                        char **err) {
  struct chosen_cursor *cursor = (struct chosen_cursor *)base;
  const unsigned char *blob;
  size_t size, n = 0;
  int rc;
  if (sqlite3_value_type(arguments[0]) == SQLITE_NULL)
    return SQLITE_OK; /* the coreset of no rows */
  if (sqlite3_value_type(arguments[0]) != SQLITE_BLOB)
    return ext_error(err, SQLITE_MISMATCH, "coreset must be a BLOB, got %s",
                     ext_value_type_name(arguments[0]));
  blob = sqlite3_value_blob(arguments[0]);
  size = (size_t)sqlite3_value_bytes(arguments[0]);
  rc = size && blob == NULL ? SQLITE_NOMEM : chosen_check(blob, size, &n, err);
  if (rc != SQLITE_OK || n == 0)
    return rc;
  cursor->rows = sqlite3_malloc64(size);
  if (cursor->rows == NULL)
    return SQLITE_NOMEM;
  memcpy(cursor->rows, blob + CHOSEN_HEAD, size - CHOSEN_HEAD);
  base->n = n;
  return SQLITE_OK;
}

static void chosen_end(struct ext_tvf_cursor *base) {
  struct chosen_cursor *cursor = (struct chosen_cursor *)base;
  sqlite3_free(cursor->rows);
  cursor->rows = NULL;
}

static void chosen_column(struct ext_tvf_cursor *base, sqlite3_context *context,
                          int i) {
  const struct ext_chosen *row =
      &((const struct chosen_cursor *)base)->rows[base->at];
  if (i == CHOSEN_RANK)
    sqlite3_result_int64(context, (sqlite3_int64)base->at + 1);
  else if (i == CHOSEN_KEY)
    sqlite3_result_int64(context, row->key);
  else if (i == CHOSEN_WEIGHT)
    sqlite3_result_double(context, row->weight);
  else if (i == CHOSEN_GAIN && !isnan(row->gain))
    sqlite3_result_double(context, row->gain);
}

static const struct ext_tvf chosen_tvf = {
    .name = "emb_chosen",
    .declaration =
        "CREATE TABLE x(rank INTEGER, key INTEGER, weight REAL, gain "
        "REAL, emb_coreset HIDDEN)",
    .argument = CHOSEN_ARGUMENT,
    .arguments = 1,
    .needed = 1,
    .needs = "the BLOB of emb_coreset",
    .cost = 1000,
    .rows = 1000,
    .cursor_size = sizeof(struct chosen_cursor),
    .begin = chosen_begin,
    .column = chosen_column,
    .end = chosen_end,
};

int ext_choose_chosen_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &chosen_tvf);
}
