/* SPDX-License-Identifier: MIT
**
** nearest.c -- the nearest neighbours of many vectors.
**
**     CREATE TABLE emb_nearest(
**       query, rank INTEGER, key, distance REAL,
**       "table" HIDDEN, queries HIDDEN, k HIDDEN, options HIDDEN, among HIDDEN)
**
** queries holds vectors, concatenated in a BLOB or a JSON array; `query` is the
** number of each, from 0.  Or queries is the word 'rows': each row of the table
** is a query, `query` is its key, and it is not its own neighbour.
**
** If `among` is given, only rows whose keys are in it can be neighbours.
** Conditions on other columns go there, because a function does not see the
** WHERE clause of the SELECT.
**
** BLOCKS    The engine compares the table with as many queries at once as fit
**           into NEAREST_BLOCK_BYTES, together with their results, so memory
**           does not grow with the number of queries.
** PROGRESS  Reported from the first block to the last.
** COSINE    A row of zeros has no cosine with any other, and as a query no
**           neighbours.
*/
#include "tvf_cursors.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  NEAREST_QUERY = 0,
  NEAREST_RANK,
  NEAREST_KEY,
  NEAREST_DISTANCE,
  NEAREST_TABLE,
};

/* Limits per block, for queries and neighbours in bytes, and for queries; more
** queries do not make it faster. */
#define NEAREST_BLOCK_BYTES (32 << 20)
#define NEAREST_BLOCK_QUERIES 16384

/* ---- beginning ----------------------------------------------------------- */

static int nearest_read_queries(struct nearest_cursor *cursor,
                                sqlite3_value *value, char **err) {
  const char *text = sqlite3_value_type(value) == SQLITE_TEXT
                         ? (const char *)sqlite3_value_text(value)
                         : NULL;
  size_t n = 0;
  int rc;
  cursor->are_rows = text && sqlite3_stricmp(text, "rows") == 0;
  if (cursor->are_rows)
    return SQLITE_OK;
  rc = ext_rows_from_value(
      value,
      &(struct ext_arg){"queries", ext_link_interrupted, cursor->base.conn},
      cursor->dim, &n, &cursor->given, err);
  if (rc == SQLITE_OK && !cursor->given.owned) {
    size_t size = cursor->given.n * sizeof(float);
    float *copy = sqlite3_malloc64(size + 1);
    if (copy == NULL)
      return SQLITE_NOMEM;
    if (size)
      memcpy(copy, cursor->given.at, size);
    cursor->given.at = copy;
    cursor->given.owned = 1;
  }
  return rc;
}

static int nearest_make_room(struct nearest_cursor *cursor) {
  size_t query = cursor->are_rows ? cursor->row_dim : 0;
  size_t bytes = query * sizeof(float) + cursor->k * 16 + 16;
  size_t n = NEAREST_BLOCK_BYTES / bytes;
  n = n > NEAREST_BLOCK_QUERIES ? NEAREST_BLOCK_QUERIES : n;
  n = n ? n : 1;
  cursor->block = n;
  cursor->numbers = sqlite3_malloc64(n * sizeof *cursor->numbers);
  cursor->counts = sqlite3_malloc64(n * sizeof *cursor->counts);
  cursor->keys = sqlite3_malloc64(n * cursor->k * sizeof *cursor->keys);
  cursor->distances =
      sqlite3_malloc64(n * cursor->k * sizeof *cursor->distances);
  if (cursor->are_rows)
    cursor->queries = sqlite3_malloc64(n * query * sizeof(float));
  return cursor->numbers && cursor->counts && cursor->keys &&
                 cursor->distances && (cursor->queries || !cursor->are_rows)
             ? SQLITE_OK
             : SQLITE_NOMEM;
}

/* Opens the snapshot to search, and the rows that are the queries. */
static int nearest_open(struct nearest_cursor *cursor, char **err) {
  struct ext_link *link = cursor->base.link;
  const char *snapshot = cursor->with.snapshot;
  int rc = EMB_OK;
  if (snapshot)
    rc = emb_snapshot_open(link->session, snapshot, &cursor->snap);
  if (!rc && cursor->are_rows)
    rc = snapshot ? emb_snapshot_open(link->session, snapshot, &cursor->scanned)
                  : emb_scan_open(link->session, INT64_MIN, INT64_MAX,
                                  EMB_SCAN_ANY, &cursor->scan);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* Takes any keys; keys without rows are harmless. */
static int nearest_read_among(struct nearest_cursor *cursor,
                              struct ext_table *table, sqlite3_value *value,
                              char **err) {
  struct ext_keys keys = {0};
  int rc;
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_fn_keys(table, value, "among", &keys, err);
  if (rc == SQLITE_OK) {
    rc = emb_filter_new(table->link->session, keys.at, keys.n, 0,
                        &cursor->among);
    rc = rc ? ext_link_error(table->link, rc, err) : SQLITE_OK;
  }
  ext_keys_free(&keys);
  cursor->with.how.filter = cursor->among;
  return rc;
}

static int nearest_begin(struct ext_tvf_cursor *base, sqlite3_value **arguments,
                         char **err) {
  struct nearest_cursor *cursor = (struct nearest_cursor *)base;
  struct ext_table *table;
  const struct ext_options *options;
  int64_t k = 0;
  uint32_t segment;
  int rc = ext_fn_table(base->conn, arguments[0], &table, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_tvf_hold(base, table->link);
  options = &ext_vtab(table)->options;
  rc = ext_arg_from_one(arguments[2], "k", EMB_NEAREST_MAX, &k, err);
  if (rc == SQLITE_OK)
    rc = ext_nearest_options(options, arguments[3], &cursor->with, err);
  if (rc != SQLITE_OK)
    return rc;
  segment = cursor->with.how.segment;
  cursor->k = (size_t)k;
  cursor->dim = options->segments[segment].dim;
  cursor->row_dim = options->config.dim;
  cursor->first = ext_vector_first(options, segment);
  cursor->metric = emb_metric(table->link->store, segment);
  rc = nearest_read_queries(cursor, arguments[1], err);
  if (rc == SQLITE_OK)
    rc = nearest_read_among(cursor, table, arguments[4], err);
  if (rc == SQLITE_OK)
    rc = nearest_make_room(cursor);
  if (rc == SQLITE_OK)
    rc = nearest_open(cursor, err);
  cursor->total = cursor->given.n / cursor->dim;
  if (rc == SQLITE_OK && cursor->are_rows) {
    sqlite3_int64 rows;
    rc = ext_link_count_now(table->link, &rows, err);
    cursor->total = rc == SQLITE_OK ? (uint64_t)rows : 0;
  }
  return rc;
}

static void nearest_end(struct ext_tvf_cursor *base) {
  struct nearest_cursor *cursor = (struct nearest_cursor *)base;
  if (base->link)
    emb_session_progress(base->link->session, NULL, NULL, 0, 0);
  if (cursor->scan)
    emb_scan_close(cursor->scan);
  emb_snapshot_close(cursor->scanned);
  emb_snapshot_close(cursor->snap);
  emb_filter_free(cursor->among);
  ext_floats_free(&cursor->given);
  sqlite3_free(cursor->with.snapshot);
  sqlite3_free(cursor->queries);
  sqlite3_free(cursor->numbers);
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->distances);
  sqlite3_free(cursor->counts);
  memset(&cursor->with, 0,
         sizeof *cursor - offsetof(struct nearest_cursor, with));
}

/* ---- a block ------------------------------------------------------------- */

/* Takes the next block of the given queries. */
static const float *nearest_next_given(struct nearest_cursor *cursor) {
  uint64_t all = cursor->given.n / cursor->dim, left = all - cursor->number;
  cursor->n = left < cursor->block ? (size_t)left : cursor->block;
  for (size_t i = 0; i < cursor->n; i++)
    cursor->numbers[i] = (int64_t)(cursor->number + i);
  return cursor->given.at + cursor->number * cursor->dim;
}

/* Reads the next rows as queries: the compared part of each row that has a
** distance. */
static int nearest_next_rows(struct nearest_cursor *cursor, size_t *read,
                             char **err) {
  float *queries = cursor->queries;
  size_t n = 0;
  int rc =
      cursor->scanned
          ? emb_snapshot_scan(cursor->scanned, cursor->block, cursor->numbers,
                              queries, NULL, read)
          : emb_scan_next_rows(
                cursor->scan, cursor->block,
                &(emb_rows){.keys = cursor->numbers, .vectors = queries}, read);
  if (rc)
    return ext_link_error(cursor->base.link, rc, err);
  for (size_t i = 0; i < *read; i++) {
    const float *from = queries + i * cursor->row_dim + cursor->first;
    double distance;
    if (!emb_distance(cursor->metric, from, from, cursor->dim, &distance))
      continue;
    memmove(queries + n * cursor->dim, from, cursor->dim * sizeof *from);
    cursor->numbers[n++] = cursor->numbers[i];
  }
  cursor->n = n;
  return SQLITE_OK;
}

static int nearest_search(struct nearest_cursor *cursor, const float *queries,
                          char **err) {
  struct ext_link *link = cursor->base.link;
  emb_nearest_how *how = &cursor->with.how;
  const emb_neighbours to = {.keys = cursor->keys,
                             .distances = cursor->distances,
                             .counts = cursor->counts};
  int rc;
  how->apart = cursor->are_rows && !EMB_SEED(SEED_ROW_ITS_OWN_NEIGHBOUR)
                   ? cursor->numbers
                   : NULL;
  rc = cursor->snap ? emb_snapshot_nearest(cursor->snap, queries, cursor->n,
                                           cursor->k, how, &to)
                    : emb_nearest(link->session, queries, cursor->n, cursor->k,
                                  how, &to);
  if (rc)
    return ext_link_error(link, rc, err);
  for (size_t i = 0; i < cursor->n; i++)
    cursor->base.n += cursor->counts[i];
  return SQLITE_OK;
}

static int nearest_more(struct ext_tvf_cursor *base, char **err) {
  struct nearest_cursor *cursor = (struct nearest_cursor *)base;
  size_t read = 1;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && base->n == 0 && read) {
    const float *queries = cursor->queries;
    cursor->at = cursor->first_row = 0;
    if (cursor->are_rows)
      rc = nearest_next_rows(cursor, &read, err);
    else {
      queries = nearest_next_given(cursor);
      read = cursor->n;
    }
    emb_session_progress(base->link->session, "nearest",
                         cursor->are_rows ? "rows" : "queries", cursor->number,
                         cursor->total);
    if (rc == SQLITE_OK && cursor->n)
      rc = nearest_search(cursor, queries, err);
    cursor->number += read;
  }
  if (rc != SQLITE_OK)
    base->n = 0;
  emb_check(rc != SQLITE_OK || ext_nearest_cursor_valid(cursor));
  return rc;
}

/* ---- rows ---------------------------------------------------------------- */

/* Returns the number of the query, or the key of the row that it is. */
static void nearest_query(const struct nearest_cursor *cursor,
                          sqlite3_context *context) {
  int64_t number = cursor->numbers[cursor->at];
  if (cursor->are_rows)
    ext_key_result(context, cursor->base.link, number);
  else
    sqlite3_result_int64(context, number);
}

static void nearest_column(struct ext_tvf_cursor *base,
                           sqlite3_context *context, int i) {
  struct nearest_cursor *cursor = (struct nearest_cursor *)base;
  size_t rank;
  emb_assert(base->at >= cursor->first_row); /* rows come in order */
  while (base->at - cursor->first_row >= cursor->counts[cursor->at])
    cursor->first_row += cursor->counts[cursor->at++];
  rank = base->at - cursor->first_row;
  if (i == NEAREST_QUERY)
    nearest_query(cursor, context);
  else if (i == NEAREST_RANK)
    sqlite3_result_int64(context, (sqlite3_int64)rank + 1);
  else if (i == NEAREST_KEY)
    ext_key_result(context, base->link,
                   cursor->keys[cursor->at * cursor->k + rank]);
  else if (i == NEAREST_DISTANCE)
    sqlite3_result_double(context,
                          cursor->distances[cursor->at * cursor->k + rank]);
}

static const struct ext_tvf nearest = {
    .name = "emb_nearest",
    .declaration =
        "CREATE TABLE x(query, rank INTEGER, key, distance REAL, "
        "\"table\" HIDDEN, queries HIDDEN, k HIDDEN, options HIDDEN, "
        "among HIDDEN)",
    .argument = NEAREST_TABLE,
    .arguments = 5,
    .needed = 3,
    .needs = "a table name, queries and k",
    .cost = 1e6,
    .rows = 1000,
    .cursor_size = sizeof(struct nearest_cursor),
    .begin = nearest_begin,
    .more = nearest_more,
    .column = nearest_column,
    .end = nearest_end,
};

int ext_tvf_nearest_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &nearest);
}
