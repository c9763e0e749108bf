/* SPDX-License-Identifier: MIT
**
** nearest.c -- vector MATCH ?: the neighbours of a vector, nearest first.
**
** COUNTED    With k = ? the engine is asked once, for k rows.
** OPEN       Without k, rows come until SQLite stops: for ORDER BY distance
**            LIMIT, which SQLite passes to a table only since 3.41, and never
**            if other conditions filter the rows, too.  The first request is
**            for as many rows as LIMIT says, if it is known; each further one
**            is for eight times as many, starting at the distance where the
**            last one ended.  Rows at exactly that distance that were already
**            returned come again, and are skipped.
** CONDITIONS on the key and the distance are part of the request, so they
**            restrict the rows before the choice.  So does the snapshot, and so
**            do conditions on auxiliary columns, as a set of keys (aux_set.c).
** ROWS       Key, distance, vector and version are those of one record.  SQLite
**            does not say whether the searched vector is also shown.
**   whole    If the rows are few bytes, or vectors will be needed and are not
**            too many, the engine returns whole rows into the cursor.
**   keys     Otherwise it returns keys and distances.  The first row is read
**            alone, by a search within its key, and shows whether vectors are
**            needed:
**   bare     if not, the others are returned as they are;
**   read     if so, they are read in chunks, each by a search within its keys.
**            Rows that are gone or too far by then are left out.
**   late     If a vector is first asked for at a bare row, that vector is read
**            alone, and may have changed since its distance was computed.
**            Vectors will be needed if the plan says so, or if they were needed
**            when the same plan was last executed (near_expects).
** NAMES      k is a short name: in `WHERE key = k` of a subquery it refers to
**            this column even if the outer query's was meant.  So outside of a
**            search reading it is an error, not NULL.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows in the first request without k and LIMIT, and the growth factor of
** further requests. */
#define FIRST_ROWS 128
#define GROWTH 8
/* Minimum number of keys passed as a set: a shorter list is as fast, or its
** rows are looked up one by one. */
#define NEAR_MANY_KEYS 1024
/* Maximum bytes of whole rows in a request: if vectors may not be needed (also
** the size of a chunk), and if they are needed. */
#define NEAR_FEW_BYTES ((size_t)128 << 10)
#define NEAR_ROWS_BYTES ((size_t)16 << 20)
/* Limit for keeping the arrays with a closed cursor. */
#define NEAR_KEPT_BYTES ((size_t)512 << 10)

void ext_near_free(struct ext_near *near) {
  if (near == NULL)
    return;
  emb_filter_free(near->keys_set);
  sqlite3_free(near->query);
  sqlite3_free(near->keys);
  sqlite3_free(near);
}

int ext_near_is_small(const struct ext_near *near) {
  return near == NULL ||
         (near->size <= NEAR_KEPT_BYTES && near->keys_set == NULL);
}

/* ---- the request --------------------------------------------------------- */

/* Will vectors be needed?  The plan's last execution is remembered by the
** plan's address in the statement; another plan at the same address is
** mispredicted once.  Each execution records it again (cursor.c). */
static int near_expects(struct ext_cursor *cursor, const char *plan) {
  uint64_t *shown = &ext_vtab(ext_cursor_table(cursor))->shown_plans;
  uint64_t hash = (uint64_t)(uintptr_t)plan * UINT64_C(0x9e3779b97f4a7c15);
  int before;
  cursor->plan_bit = UINT64_C(1) << (hash >> 58);
  before = (*shown & cursor->plan_bit) != 0;
  *shown &= ~cursor->plan_bit;
  return before ||
         cursor->flags & (EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS | EXT_PLAN_LAZY);
}

int ext_near_start(struct ext_cursor *cursor, const char *plan, char **err) {
  struct ext_vtab *vtab = ext_vtab(ext_cursor_table(cursor));
  struct ext_near *near = cursor->near;
  uint32_t segment = (uint32_t)(cursor->flags / EXT_PLAN_SEGMENT);
  if (cursor->flags & EXT_PLAN_ENDLESS)
    return ext_error(err, SQLITE_ERROR,
                     cursor->flags & EXT_PLAN_DESC
                         ? "%s MATCH finds the nearest rows, not the farthest: "
                           "write AND k = 10 to have the 10 nearest ORDER BY "
                           "distance DESC"
                         : "%s MATCH needs a number of neighbours: write AND k "
                           "= 10, or ORDER BY distance LIMIT 10",
                     vtab->vector_what[segment]);
  if (near == NULL) {
    near = cursor->near = sqlite3_malloc64(sizeof *near);
    if (near == NULL)
      return SQLITE_NOMEM;
    memset(near, 0, sizeof *near);
  }
  emb_filter_free(near->keys_set);
  near->keys_set = NULL;
  near->how = (emb_nearest_how){.segment = segment};
  ext_reals_all(&near->within);
  near->plan = cursor->flags;
  near->is_known = cursor->shows_vector = near_expects(cursor, plan);
  near->is_null = near->is_last = near->has_last = 0;
  near->k = near->limit = near->offset = 0;
  near->n = near->at = near->ties = 0;
  cursor->peek = 1;
  return SQLITE_OK;
}

void ext_near_exact(struct ext_cursor *cursor) {
  cursor->near->how.flags |= EMB_NEAREST_EXACT;
}

/* SQLITE_ERROR if the query has no distance: a zero vector has no cosine. */
static int near_check(const struct ext_cursor *cursor, const char *what,
                      char **err) {
  const struct ext_near *near = cursor->near;
  const struct ext_options *options =
      &ext_vtab((struct ext_table *)cursor->base.pVtab)->options;
  int metric = emb_metric(cursor->link->store, near->how.segment);
  double distance;
  return emb_distance(metric, near->query, near->query,
                      options->segments[near->how.segment].dim, &distance)
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "%s is a vector of zeros, which has no cosine", what);
}

static int near_query(struct ext_cursor *cursor, sqlite3_value *value,
                      char **err) {
  struct ext_vtab *vtab = ext_vtab(ext_cursor_table(cursor));
  struct ext_near *near = cursor->near;
  uint32_t segment = near->how.segment;
  struct ext_floats vector;
  size_t size;
  char what[128];
  int rc;
  if (sqlite3_value_type(value) == SQLITE_NULL) {
    near->is_null = 1;
    return SQLITE_OK;
  }
  sqlite3_snprintf(sizeof what, what, "%s MATCH ?", vtab->vector_what[segment]);
  rc = ext_vec_from_value(
      value, &(struct ext_arg){what, ext_link_interrupted, cursor->link->conn},
      vtab->options.segments[segment].dim, &vector, err);
  if (rc != SQLITE_OK)
    return rc;
  size = vector.n * sizeof *vector.at;
  if (size > near->query_size) {
    sqlite3_free(near->query);
    near->query = sqlite3_malloc64(size);
    near->query_size = near->query ? size : 0;
  }
  if (near->query)
    memcpy(near->query, vector.at, size);
  ext_floats_free(&vector);
  return near->query ? near_check(cursor, what, err) : SQLITE_NOMEM;
}

/* LIMIT and OFFSET are only hints, so any value is accepted. */
static int64_t near_hint(sqlite3_value *value) {
  sqlite3_int64 number = sqlite3_value_int64(value);
  return number < 0 ? 0 : number > EMB_NEAREST_MAX ? EMB_NEAREST_MAX : number;
}

/* SQLite may pass the same k twice, after splitting up conditions. */
static int near_k(struct ext_near *near, sqlite3_value *value, char **err) {
  int64_t k;
  int rc = ext_arg_from_one(value, "k", EMB_NEAREST_MAX, &k, err);
  if (rc == SQLITE_OK && near->k && near->k != k)
    rc = ext_error(err, SQLITE_ERROR, "k cannot be both %lld and %lld",
                   (long long)near->k, (long long)k);
  near->k = k;
  return rc;
}

static int near_recall(struct ext_near *near, sqlite3_value *value,
                       char **err) {
  double recall = sqlite3_value_double(value);
  switch (sqlite3_value_numeric_type(value)) {
  case SQLITE_NULL:
    near->how.recall = 0;
    return SQLITE_OK;
  case SQLITE_INTEGER:
  case SQLITE_FLOAT:
    break;
  default:
    return ext_error(err, SQLITE_MISMATCH, "recall must be a number, got %s",
                     ext_value_type_name(value));
  }
  if (!(recall > 0 && recall <= 1))
    return ext_error(err, SQLITE_ERROR,
                     "recall must be above 0 and at most 1, got %g", recall);
  near->how.recall = recall;
  return SQLITE_OK;
}

int ext_near_argument(struct ext_cursor *cursor, char letter,
                      sqlite3_value *value, char **err) {
  struct ext_near *near = cursor->near;
  int64_t number = 0;
  int rc = SQLITE_OK;
  if (!(cursor->flags & EXT_PLAN_NEAREST))
    return ext_error(err, SQLITE_ERROR, "%s without %s MATCH ?",
                     letter == 'n'   ? "k"
                     : letter == 'p' ? "probes"
                                     : "recall",
                     ext_vtab(ext_cursor_table(cursor))->options.vectors[0]);
  switch (letter) {
  case 'v':
    return near_query(cursor, value, err);
  case 'n':
    return near_k(near, value, err);
  case 'p':
    if (sqlite3_value_type(value) != SQLITE_NULL)
      rc = ext_arg_from_one(value, "probes", INT32_MAX, &number, err);
    near->how.probes = (uint32_t)number;
    return rc;
  case 'r':
    return near_recall(near, value, err);
  case 'L':
    near->limit = near_hint(value);
    return SQLITE_OK;
  case 'O':
    near->offset = near_hint(value);
    return SQLITE_OK;
  default:
    ext_reals_narrow(&near->within, "<l>g="[letter - 'a'], value);
    return SQLITE_OK;
  }
}

int ext_near_aux(struct ext_cursor *cursor, char **err) {
  return ext_aux_filter(ext_cursor_table(cursor), &cursor->aux,
                        &cursor->near->how.filter, err);
}

/* Passes many keys as a set, whose lookup time does not depend on its size; or
** as a list, if memory runs out or there is another set already. */
static void near_among_keys(struct ext_cursor *cursor) {
  struct ext_near *near = cursor->near;
  emb_nearest_how *how = &near->how;
  if (cursor->list_n >= NEAR_MANY_KEYS && how->filter == NULL &&
      emb_filter_new(cursor->link->session, cursor->list, cursor->list_n, 0,
                     &near->keys_set) == EMB_OK) {
    how->filter = near->keys_set;
    return;
  }
  how->flags |= EMB_NEAREST_KEYS;
  how->keys = cursor->list;
  how->key_count = cursor->list_n;
}

void ext_near_among(struct ext_cursor *cursor, const struct ext_range *range,
                    int has_list) {
  struct ext_near *near = cursor->near;
  emb_nearest_how *how = &near->how;
  if (near->is_null || range->lo > range->hi ||
      near->within.least > near->within.most || (has_list && !cursor->list_n)) {
    near->is_last = 1;
    return;
  }
  if (range->lo > INT64_MIN || range->hi < INT64_MAX) {
    how->flags |= EMB_NEAREST_RANGE;
    how->lo = range->lo;
    how->hi = range->hi;
  }
  if (has_list)
    near_among_keys(cursor);
  if (near->within.least > -INFINITY || near->within.most < INFINITY)
    how->flags |= EMB_NEAREST_WITHIN;
  how->least = near->within.least;
  how->most = near->within.most;
  near->next = near->limit ? (size_t)(near->limit + near->offset) : FIRST_ROWS;
}

/* ---- results from the engine --------------------------------------------- */

static size_t near_row_bytes(struct ext_cursor *cursor) {
  return ext_vtab(ext_cursor_table(cursor))->options.config.dim * sizeof(float);
}

/* Room for n keys and distances. */
static int near_reserve(struct ext_near *near, size_t n) {
  size_t size = n * (sizeof *near->keys + sizeof *near->distances);
  if (size > near->size) {
    sqlite3_free(near->keys);
    near->keys = sqlite3_malloc64(size);
    near->size = near->keys ? size : 0;
  }
  near->distances = (double *)(void *)(near->keys + n);
  return near->keys != NULL;
}

/* Provides room for k rows from the engine; 0 if memory runs out. */
static int near_room(struct ext_cursor *cursor, size_t k, emb_neighbours *to) {
  struct ext_near *near = cursor->near;
  size_t most = cursor->shows_vector ? NEAR_ROWS_BYTES : NEAR_FEW_BYTES;
  int whole = k <= most / near_row_bytes(cursor);
  cursor->n = cursor->at = near->n = near->at = 0;
  if (!whole) {
    int done = near_reserve(near, k);
    *to = (emb_neighbours){near->keys, near->distances, &near->n, NULL, NULL};
    return done;
  }
  cursor->flags = near->plan | EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS;
  if (!ext_cursor_reserve(cursor, k))
    return 0;
  *to = (emb_neighbours){cursor->keys, cursor->distances, &cursor->n,
                         cursor->vectors, cursor->versions};
  return 1;
}

/* Skips rows that were returned before, and records where these end.  *at: the
** first new row. */
static int near_continue(struct ext_near *near, const emb_neighbours *got,
                         size_t *at, char **err) {
  size_t n = *got->counts;
  while (near->has_last && *at < n &&
         got->distances[*at] <= near->last_distance &&
         got->keys[*at] <= near->last_key)
    ++*at;
  if (*at == n && !near->is_last)
    return ext_error(err, SQLITE_ERROR,
                     "more than %d rows have the same distance",
                     EMB_NEAREST_MAX);
  if (n == 0)
    return SQLITE_OK;
  near->has_last = 1;
  near->last_distance = got->distances[n - 1];
  near->last_key = got->keys[n - 1];
  near->ties = 0;
  while (near->ties < n &&
         got->distances[n - 1 - near->ties] == near->last_distance)
    near->ties++;
  return SQLITE_OK;
}

/* Gets the next rows from the engine, if any. */
static int near_more(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  size_t k = near->k ? (size_t)near->k : near->next + near->ties;
  emb_neighbours to;
  int rc;
  if (near->has_last) {
    near->how.flags |= EMB_NEAREST_WITHIN;
    near->how.least = near->last_distance;
  }
  if (k > EMB_NEAREST_MAX)
    k = EMB_NEAREST_MAX;
  near->next = k * GROWTH;
  if (near->how.flags & EMB_NEAREST_KEYS && k > near->how.key_count)
    k = near->how.key_count;
  if (!near_room(cursor, k, &to))
    return SQLITE_NOMEM;
  rc = cursor->snap ? emb_snapshot_nearest(cursor->snap, near->query, 1, k,
                                           &near->how, &to)
                    : emb_nearest(cursor->link->session, near->query, 1, k,
                                  &near->how, &to);
  if (rc)
    return ext_link_error(cursor->link, rc, err);
  near->is_last =
      *to.counts < k || near->k ||
      (near->how.flags & EMB_NEAREST_KEYS && k == near->how.key_count);
  if (near->k)
    return SQLITE_OK;
  return near_continue(near, &to,
                       to.counts == &near->n ? &near->at : &cursor->at, err);
}

/* ---- chunks of keys and distances ---------------------------------------- */

/* Reads the current rows of a chunk, by a search within its keys, which are
** sorted in near->keys.  Rows of a snapshot do not change and are just read. */
static int near_read(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  emb_nearest_how how = near->how;
  size_t rows = cursor->n;
  int rc;
  how.keys = near->keys + near->at - rows;
  how.key_count = rows;
  if (cursor->snap)
    return ext_cursor_read(
        cursor, cursor->keys, rows,
        &(emb_rows){.vectors = cursor->vectors, .versions = cursor->versions},
        err);
  qsort(near->keys + near->at - rows, rows, sizeof *near->keys, ext_keys_order);
  how.flags |= EMB_NEAREST_KEYS | EMB_NEAREST_EXACT | EMB_NEAREST_WITHIN;
  how.least = near->within.least;
  how.most = near->within.most;
  rc =
      emb_nearest(cursor->link->session, near->query, 1, rows, &how,
                  &(emb_neighbours){cursor->keys, cursor->distances, &cursor->n,
                                    cursor->vectors, cursor->versions});
  return rc ? ext_link_error(cursor->link, rc, err) : SQLITE_OK;
}

/* Makes the next chunk: one row until it is known whether vectors are
** needed. */
static int near_chunk(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  int reads = cursor->shows_vector || !near->is_known;
  size_t rows = near->n - near->at;
  size_t most =
      near->is_known ? NEAR_FEW_BYTES / near_row_bytes(cursor) + 1 : 1;
  if (rows > most)
    rows = most;
  cursor->flags =
      near->plan | (reads ? EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS : 0);
  if (!ext_cursor_reserve(cursor, rows))
    return SQLITE_NOMEM;
  memcpy(cursor->keys, near->keys + near->at, rows * sizeof *cursor->keys);
  memcpy(cursor->distances, near->distances + near->at,
         rows * sizeof *cursor->distances);
  cursor->n = rows;
  near->at += rows;
  near->is_known = 1;
  return reads ? near_read(cursor, err) : SQLITE_OK;
}

int ext_near_fill(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  int rc = SQLITE_OK;
  emb_check(ext_near_valid(cursor));
  while (rc == SQLITE_OK && cursor->at == cursor->n &&
         (near->at < near->n || !near->is_last))
    rc = near->at < near->n ? near_chunk(cursor, err) : near_more(cursor, err);
  return rc;
}

int ext_near_load(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  emb_assert(cursor->n - cursor->at <= near->at);
  near->at -= cursor->n - cursor->at - 1;
  cursor->keys[0] = cursor->keys[cursor->at];
  cursor->distances[0] = cursor->distances[cursor->at];
  cursor->n = 1;
  cursor->at = 0;
  cursor->has_tracks = 0;
  cursor->flags |= EXT_PLAN_VECTORS;
  return ext_cursor_reserve(cursor, 1)
             ? ext_cursor_read(cursor, cursor->keys, 1,
                               &(emb_rows){.vectors = cursor->vectors}, err)
             : SQLITE_NOMEM;
}

/* Outside of a search the distance is NULL; reading k, probes or recall is
** an error,
** except for an UPDATE, which may read all columns. */
static int near_column_outside(struct ext_cursor *cursor, int column) {
  struct ext_table *table = ext_cursor_table(cursor);
  const char *name = ext_column(column)->name;
  char *err = NULL;
  int rc;
  if (column == EXT_DISTANCE || cursor->flags & EXT_PLAN_LAZY)
    return SQLITE_OK;
  rc = ext_error(&err, SQLITE_ERROR,
                 "%s.%s has no value without MATCH; for another column %s, "
                 "write its table in front",
                 table->name, name, name);
  return ext_vtab_error(&table->base, rc, err);
}

int ext_near_column(struct ext_cursor *cursor, sqlite3_context *context,
                    int column) {
  const struct ext_near *near = cursor->near;
  if (!(cursor->flags & EXT_PLAN_NEAREST))
    return near_column_outside(cursor, column);
  if (column == EXT_DISTANCE)
    sqlite3_result_double(context, cursor->distances[cursor->at]);
  else if (column == EXT_K && near->k)
    sqlite3_result_int64(context, near->k);
  else if (column == EXT_PROBES && near->how.probes)
    sqlite3_result_int64(context, near->how.probes);
  else if (column == EXT_RECALL && near->how.recall > 0)
    sqlite3_result_double(context, near->how.recall);
  return SQLITE_OK;
}
