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
** ROWS       Key and distance are what the engine has said.  Where more is
**            asked of a row, it is read in chunks, without being counted; it
**            may have been written in between, so its distance is computed
**            again from the vector that the row shows, and the rows of a chunk
**            are put in order again.  One that is gone, or is now beyond the
**            distance that was asked for, is left out.
**            SQLite does not say whether the vector that is searched is shown,
**            too.  It is read when it turns out to be, of the rows at hand (and
**            what of these was written between search and read is not looked
**            at again), and from then on beforehand, by all searches of the
**            table object.
** NAMES      k is a short name: in `WHERE key = k` of a subquery it means this
**            column, where the outer query's was meant.  So outside of a search
**            it is an error, and not NULL.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

/* How many rows are asked for at first without k and LIMIT, and how many times
** as many then. */
#define FIRST_ROWS 128
#define GROWTH 8
/* Keys that are asked for as a set: a list of fewer is as fast, or the rows are
** looked up one by one. */
#define NEAR_MANY_KEYS 1024
/* What a closed cursor may keep. */
#define NEAR_KEPT_MAX 4096

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
  size_t n, at, capacity;
  int is_last; /* there is no more than that */

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
  sqlite3_free(near->distances);
  sqlite3_free(near);
}

int ext_near_is_small(const struct ext_near *near) {
  return near == NULL ||
         (near->capacity <= NEAR_KEPT_MAX && near->keys_set == NULL);
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
  if (vtab->searched_reads && !(cursor->flags & EXT_PLAN_LAZY))
    cursor->flags |= EXT_PLAN_VECTORS;
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

static int near_reserve(struct ext_near *near, size_t n) {
  void *p;
  if (n <= near->capacity)
    return 1;
  if ((p = sqlite3_realloc64(near->keys, n * sizeof *near->keys)) == NULL)
    return 0;
  near->keys = p;
  p = sqlite3_realloc64(near->distances, n * sizeof *near->distances);
  if (p == NULL)
    return 0;
  near->distances = p;
  near->capacity = n;
  return 1;
}

/* Asks for so many. */
static int near_ask(struct ext_cursor *cursor, size_t k, char **err) {
  struct ext_near *near = cursor->near;
  emb_neighbours to;
  int rc;
  near->n = near->at = 0;
  if (near->how.flags & EMB_NEAREST_KEYS && k > near->how.key_count)
    k = near->how.key_count;
  if (!near_reserve(near, k))
    return SQLITE_NOMEM;
  to = (emb_neighbours){near->keys, near->distances, &near->n};
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

static void near_swap(struct ext_cursor *cursor, size_t i, size_t j) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
  float *a = cursor->vectors + i * dim, *b = cursor->vectors + j * dim;
  int64_t key = cursor->keys[i];
  double distance = cursor->distances[i];
  cursor->keys[i] = cursor->keys[j];
  cursor->keys[j] = key;
  cursor->distances[i] = cursor->distances[j];
  cursor->distances[j] = distance;
  if (ext_cursor_versions(cursor)) {
    uint64_t version = cursor->versions[i];
    cursor->versions[i] = cursor->versions[j];
    cursor->versions[j] = version;
  }
  for (size_t e = 0; e < dim; e++) {
    float element = a[e];
    a[e] = b[e];
    b[e] = element;
  }
}

/* The rows of a chunk were read after the engine has compared them. */
static void near_compare_again(struct ext_cursor *cursor, size_t asked) {
  const struct ext_near *near = cursor->near;
  const struct ext_options *options =
      &ext_vtab(ext_cursor_table(cursor))->options;
  uint32_t i = near->how.segment;
  const float *vector = cursor->vectors + ext_vector_first(options, i);
  int metric = emb_metric(cursor->link->store, i);
  for (size_t row = 0; row < asked; row++) {
    double *distance = &cursor->distances[row];
    if (cursor->found[row])
      cursor->found[row] =
          emb_distance(metric, near->query, vector + row * options->config.dim,
                       options->segments[i].dim, distance) &&
          *distance >= near->within.least && *distance <= near->within.most;
  }
  ext_cursor_compact(cursor, asked);
  for (size_t row = 1; row < cursor->n; row++)
    for (size_t at = row;
         at > 0 && (cursor->distances[at] < cursor->distances[at - 1] ||
                    (cursor->distances[at] == cursor->distances[at - 1] &&
                     cursor->keys[at] < cursor->keys[at - 1]));
         at--)
      near_swap(cursor, at, at - 1);
}

static int near_read(struct ext_cursor *cursor, size_t rows, char **err) {
  int rc;
  if (!(cursor->flags & (EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS))) {
    cursor->n = rows;
    return SQLITE_OK;
  }
  rc = ext_cursor_read(cursor, cursor->keys, rows,
                       &(emb_rows){.vectors = ext_cursor_vectors(cursor),
                                   .found = cursor->found,
                                   .versions = ext_cursor_versions(cursor)},
                       err);
  if (rc == SQLITE_OK && cursor->flags & EXT_PLAN_VECTORS)
    near_compare_again(cursor, rows);
  else if (rc == SQLITE_OK)
    ext_cursor_compact(cursor, rows);
  return rc;
}

int ext_near_fill(struct ext_cursor *cursor, char **err) {
  struct ext_near *near = cursor->near;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && cursor->n == 0) {
    size_t rows;
    if (near->at == near->n)
      rc = near_more(cursor, err);
    rows = near->n - near->at;
    if (rc != SQLITE_OK || rows == 0)
      break;
    if (rows > cursor->rows_max)
      rows = cursor->rows_max;
    if (!ext_cursor_reserve(cursor, rows))
      return SQLITE_NOMEM;
    memcpy(cursor->keys, near->keys + near->at, rows * sizeof *cursor->keys);
    memcpy(cursor->distances, near->distances + near->at,
           rows * sizeof *cursor->distances);
    near->at += rows;
    rc = near_read(cursor, rows, err);
  }
  return rc;
}

int ext_near_load(struct ext_cursor *cursor, char **err) {
  ext_vtab(ext_cursor_table(cursor))->searched_reads = 1;
  return ext_cursor_read(cursor, cursor->keys, cursor->n,
                         &(emb_rows){.vectors = ext_cursor_vectors(cursor),
                                     .versions = ext_cursor_versions(cursor)},
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
