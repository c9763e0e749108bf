/* SPDX-License-Identifier: MIT
**
** nearest.c -- vector MATCH ?: the neighbours of a vector, nearest first.
**
** COUNTED    With k = ? the engine is asked once, for k rows.
** OPEN       Without, rows come as long as SQLite takes them: for ORDER BY
**            distance LIMIT, which SQLite shows to a table only since 3.41, and
**            never where something else decides, too, which rows stay.  The
**            engine is asked for some, which LIMIT says if one sees it, and
**            then for eight times as many, from the distance on at which the
**            last ones ended: those of exactly that distance that have been
**            given come again, and are left out.
** CONDITIONS on the key and the distance are in what the engine is asked: they
**            hold before the choice.  So is the snapshot, and what is said of
**            columns beside the vector, as a set of keys (beside_set.c).
** ROWS       Key, distance, vector and version are those of one record, which
**            the engine returns: no row is read twice.  SQLite does not say
**            whether the vector that is searched is shown, too.  Of few rows it
**            is asked for in any case, as nothing can be measured of that (of a
**            tenth of the rows of a table, half the time of the search); of
**            more, once a search of the table object has shown it.
** CHUNKS     Else, and where vectors of more than NEAR_ROWS_BYTES would take
**            too much memory in each thread of the engine, it is asked for keys
**            and distances, and for vectors a chunk at a time: by a search in
**            the keys of the chunk.  A row that is gone or too far by then is
**            left out.  The first chunk is one row, which shows whether vectors
**            are needed.  If they are, but not of this row, the first one is
**            read by itself, perhaps changed since its distance was computed
**            (ext_near_load).
** NAMES      k is a short name: in `WHERE key = k` of a subquery it means this
**            column, where the outer query's was meant.  So outside of a search
**            it is an error, and not NULL.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How many rows are asked for at first without k and LIMIT, and how many times
** as many then. */
#define FIRST_ROWS 128
#define GROWTH 8
/* Keys that are asked for as a set: a list of fewer is as fast, or the rows are
** looked up one by one. */
#define NEAR_MANY_KEYS 1024
/* Rows whose vectors the engine is asked for in any case; bytes of vectors that
** it is asked for at most; and those of a chunk. */
#define NEAR_FEW_ROWS 256
#define NEAR_ROWS_BYTES ((size_t)16 << 20)
#define NEAR_CHUNK_BYTES ((size_t)256 << 10)
/* What a closed cursor may keep. */
#define NEAR_KEPT_BYTES ((size_t)512 << 10)

struct ext_near {
  emb_nearest_how how;
  struct ext_reals within; /* what is asked of the distance */
  float *query;            /* a copy: the search goes on after xFilter */
  size_t query_size;
  int is_null; /* MATCH NULL */
  int64_t k;   /* 0: open */
  int64_t limit, offset;

  emb_filter *keys_set; /* of many keys that it is among, or NULL */

  /* What the engine has given, and how much of it is in chunks already. */
  int64_t *keys;
  double *distances;
  uint64_t *versions; /* if the plan or has_rows says so */
  float *vectors;     /* with has_rows */
  size_t n, at;
  size_t size; /* of these arrays, which are one block */
  int has_rows;
  int is_last; /* there is no more than that */

  int plan;      /* the cursor's flags, as they were at first */
  int has_shown; /* the first chunk, so that cursor->shows_vector is known */

  /* Open: where it ended. */
  size_t next; /* rows to ask for */
  size_t ties; /* that are as far as the last one */
  double last_distance;
  int64_t last_key;
  int has_last;
};

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

/* ---- what is asked ------------------------------------------------------- */

int ext_near_start(struct ext_cursor *cursor, char **err) {
  struct ext_vtab *vtab = ext_vtab(ext_cursor_table(cursor));
  struct ext_near *near = cursor->near;
  uint32_t segment = (uint32_t)(cursor->flags / EXT_PLAN_SEGMENT);
  if (cursor->flags & EXT_PLAN_ENDLESS)
    return ext_error(err, SQLITE_ERROR,
                     "%s MATCH needs to know how many: write AND k = 10, or "
                     "ORDER BY distance LIMIT 10",
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
  near->has_shown = near->has_rows = 0;
  cursor->shows_vector = (cursor->flags & EXT_PLAN_VECTORS) != 0;
  near->is_null = near->is_last = near->has_last = 0;
  near->k = near->limit = near->offset = 0;
  near->n = near->at = near->ties = 0;
  cursor->peek = 1;
  return SQLITE_OK;
}

void ext_near_exact(struct ext_cursor *cursor) {
  cursor->near->how.flags |= EMB_NEAREST_EXACT;
}

/* A vector of zeros has no cosine. */
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
  rc = ext_vec_from_value(value, what, vtab->options.segments[segment].dim,
                          &vector, err);
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

/* LIMIT and OFFSET are only hints, so they may be anything. */
static int64_t near_hint(sqlite3_value *value) {
  sqlite3_int64 number = sqlite3_value_int64(value);
  return number < 0 ? 0 : number > EMB_NEAREST_MAX ? EMB_NEAREST_MAX : number;
}

/* SQLite may say the same twice, of conditions that it has taken apart. */
static int near_k(struct ext_near *near, sqlite3_value *value, char **err) {
  int64_t k;
  int rc = ext_arg_from_one(value, "k", EMB_NEAREST_MAX, &k, err);
  if (rc == SQLITE_OK && near->k && near->k != k)
    rc = ext_error(err, SQLITE_ERROR, "k cannot be both %lld and %lld",
                   (long long)near->k, (long long)k);
  near->k = k;
  return rc;
}

int ext_near_argument(struct ext_cursor *cursor, char letter,
                      sqlite3_value *value, char **err) {
  struct ext_near *near = cursor->near;
  int64_t number = 0;
  int rc = SQLITE_OK;
  if (!(cursor->flags & EXT_PLAN_NEAREST))
    return ext_error(err, SQLITE_ERROR, "%s without %s MATCH ?",
                     letter == 'n' ? "k" : "probes",
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

int ext_near_beside(struct ext_cursor *cursor, char **err) {
  return ext_beside_filter(ext_cursor_table(cursor), &cursor->beside,
                           &cursor->near->how.filter, err);
}

/* Many keys as a set, which is asked in the same time however many they are; if
** there is no memory for it, or another one already, as a list. */
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

/* ---- what the engine gives ----------------------------------------------- */

static size_t near_row_bytes(struct ext_cursor *cursor) {
  return ext_vtab(ext_cursor_table(cursor))->options.config.dim * sizeof(float);
}

/* Room for n rows, of which nothing is there yet. */
static int near_reserve(struct ext_near *near, size_t n, size_t row) {
  size_t size = n * (3 * sizeof(int64_t) + (near->has_rows ? row : 0));
  if (size > near->size) {
    sqlite3_free(near->keys);
    near->keys = sqlite3_malloc64(size);
    near->size = near->keys ? size : 0;
  }
  near->distances = (double *)(void *)(near->keys + n);
  near->versions = (uint64_t *)(void *)(near->distances + n);
  near->vectors = (float *)(void *)(near->versions + n);
  return near->keys != NULL;
}

/* Asks for so many. */
static int near_ask(struct ext_cursor *cursor, size_t k, char **err) {
  const struct ext_vtab *vtab = ext_vtab(ext_cursor_table(cursor));
  struct ext_near *near = cursor->near;
  size_t row = near_row_bytes(cursor);
  emb_neighbours to;
  int rc, has_versions;
  near->n = near->at = 0;
  if (near->how.flags & EMB_NEAREST_KEYS && k > near->how.key_count)
    k = near->how.key_count;
  near->has_rows =
      k <= NEAR_ROWS_BYTES / row &&
      (k <= NEAR_FEW_ROWS || cursor->shows_vector || vtab->searched_reads);
  if (!near_reserve(near, k, row))
    return SQLITE_NOMEM;
  has_versions = near->has_rows || near->plan & EXT_PLAN_VERSIONS;
  to = (emb_neighbours){near->keys, near->distances, &near->n,
                        near->has_rows ? near->vectors : NULL,
                        has_versions ? near->versions : NULL};
  rc = cursor->snap ? emb_snapshot_nearest(cursor->snap, near->query, 1, k,
                                           &near->how, &to)
                    : emb_nearest(cursor->link->session, near->query, 1, k,
                                  &near->how, &to);
  near->is_last =
      near->n < k || near->k ||
      (near->how.flags & EMB_NEAREST_KEYS && k == near->how.key_count);
  return rc ? ext_link_error(cursor->link, rc, err) : SQLITE_OK;
}

/* Leaves out what was given before, and remembers where this ends. */
static int near_continue(struct ext_near *near, char **err) {
  size_t n = near->n;
  while (near->has_last && near->at < n &&
         near->distances[near->at] <= near->last_distance &&
         near->keys[near->at] <= near->last_key)
    near->at++;
  if (near->at == n && !near->is_last)
    return ext_error(err, SQLITE_ERROR,
                     "more than %d rows have the same distance",
                     EMB_NEAREST_MAX);
  if (n == 0)
    return SQLITE_OK;
  near->has_last = 1;
  near->last_distance = near->distances[n - 1];
  near->last_key = near->keys[n - 1];
  near->ties = 0;
  while (near->ties < n &&
         near->distances[n - 1 - near->ties] == near->last_distance)
    near->ties++;
  return SQLITE_OK;
}

/* The next rows from the engine, if there are any. */
static int near_more(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  size_t k;
  int rc;
  near->n = near->at = 0;
  if (near->is_last)
    return SQLITE_OK;
  if (near->k)
    return near_ask(cursor, (size_t)near->k, err);
  if (near->has_last) {
    near->how.flags |= EMB_NEAREST_WITHIN;
    near->how.least = near->last_distance;
  }
  k = near->next + near->ties;
  if (k > EMB_NEAREST_MAX)
    k = EMB_NEAREST_MAX;
  rc = near_ask(cursor, k, err);
  near->next = k * GROWTH;
  return rc == SQLITE_OK ? near_continue(near, err) : rc;
}

/* ---- rows ---------------------------------------------------------------- */

/* Rows of the next chunk, and what is read of them. */
static size_t near_chunk(struct ext_cursor *cursor) {
  struct ext_near *near = cursor->near;
  size_t rows = near->n - near->at, most = cursor->rows_max;
  cursor->flags = near->plan;
  if (near->has_rows || cursor->shows_vector) {
    cursor->flags |= EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS;
    most = NEAR_CHUNK_BYTES / near_row_bytes(cursor) + 1;
  } else if (!near->has_shown) {
    cursor->flags |= EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS;
    most = 1;
  }
  return rows < most ? rows : most;
}

/* As the engine gave them. */
static void near_copy(struct ext_cursor *cursor, size_t rows) {
  const struct ext_near *near = cursor->near;
  size_t at = near->at, row = near_row_bytes(cursor);
  memcpy(cursor->keys, near->keys + at, rows * sizeof *cursor->keys);
  memcpy(cursor->distances, near->distances + at,
         rows * sizeof *cursor->distances);
  if (near->has_rows)
    memcpy(cursor->vectors, (const char *)near->vectors + at * row, rows * row);
  if (near->has_rows || near->plan & EXT_PLAN_VERSIONS)
    memcpy(cursor->versions, near->versions + at,
           rows * sizeof *cursor->versions);
  cursor->n = rows;
}

/* A chunk with vectors, as its rows are now; near's keys of it are sorted. */
static int near_read(struct ext_cursor *cursor, size_t rows, char **err) {
  struct ext_near *near = cursor->near;
  emb_nearest_how how = near->how;
  int rc;
  if (cursor->snap) { /* whose rows do not change */
    near_copy(cursor, rows);
    return ext_cursor_read(
        cursor, cursor->keys, rows,
        &(emb_rows){.vectors = cursor->vectors, .versions = cursor->versions},
        err);
  }
  qsort(near->keys + near->at, rows, sizeof *near->keys, ext_keys_order);
  how.flags |= EMB_NEAREST_KEYS | EMB_NEAREST_EXACT | EMB_NEAREST_WITHIN;
  how.keys = near->keys + near->at;
  how.key_count = rows;
  how.least = near->within.least;
  how.most = near->within.most;
  rc =
      emb_nearest(cursor->link->session, near->query, 1, rows, &how,
                  &(emb_neighbours){cursor->keys, cursor->distances, &cursor->n,
                                    cursor->vectors, cursor->versions});
  return rc ? ext_link_error(cursor->link, rc, err) : SQLITE_OK;
}

int ext_near_fill(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && cursor->n == 0) {
    size_t rows;
    if (near->at == near->n)
      rc = near_more(cursor, err);
    if (rc != SQLITE_OK || near->at == near->n)
      break;
    rows = near_chunk(cursor);
    if (!ext_cursor_reserve(cursor, rows))
      return SQLITE_NOMEM;
    if (near->has_rows || !(cursor->flags & EXT_PLAN_VECTORS))
      near_copy(cursor, rows);
    else
      rc = near_read(cursor, rows, err);
    near->at += rows;
  }
  near->has_shown = 1;
  return rc;
}

int ext_near_load(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  size_t at = cursor->at, row = near_row_bytes(cursor) / sizeof(float);
  float *vectors = ext_cursor_vectors(cursor);
  uint64_t *versions = ext_cursor_versions(cursor);
  emb_assert(!near->has_rows && cursor->n - at <= near->at);
  near->at -= cursor->n - at - 1;
  near->plan |= cursor->flags & EXT_PLAN_VERSIONS;
  cursor->n = at + 1;
  return ext_cursor_read(
      cursor, cursor->keys + at, 1,
      &(emb_rows){.vectors = vectors ? vectors + at * row : NULL,
                  .versions = versions ? versions + at : NULL},
      err);
}

/* Outside of a search the distance is NULL. */
static int near_column_outside(struct ext_cursor *cursor, int column) {
  struct ext_table *table = ext_cursor_table(cursor);
  const char *name = ext_column(column)->name;
  char *err = NULL;
  int rc;
  if (column == EXT_DISTANCE || cursor->flags & EXT_PLAN_LAZY)
    return SQLITE_OK;
  rc = ext_error(&err, SQLITE_ERROR,
                 "%s.%s has no value without MATCH; if another %s is meant, "
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
  return SQLITE_OK;
}
