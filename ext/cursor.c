/* SPDX-License-Identifier: MIT
**
** cursor.c -- reading a table: from xOpen to xClose, except xFilter.
**
** A plan (ext.h) becomes one of
**
**   batch   items(:keys): one row with all vectors (batch.c)
**   list    key = ? or key IN (...): the keys, sorted, read in batches
**   scan    the engine's scan over a range of keys
**
** and with snapshot = ? the same of a snapshot, whose scan comes in storage
** order and does not count.
**
** Rows are copied in chunks into the cursor's own arrays, so that they do not
** change while the cursor stands on them, whatever is written meanwhile, and
** a chunk grows from a few rows to CHUNK_BYTES, so that LIMIT 1 reads little.
** Vectors are read only when a column asks for them.  An UPDATE does not say
** beforehand which columns it uses; those that it only copies it asks for with
** sqlite3_vtab_nochange, which is answered with nothing.
**
** key = ? is one row: it does without the list, and its vector is read to where
** SQLite then finds it.
**
** A cursor is kept with its arrays when it is closed, one for each table
** object: a statement that reads one row allocates nothing.
*/
#include "cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* What a closed cursor may keep. */
#define SPARE_ROWS_MAX 4096
#define SPARE_BYTES_MAX (512 * 1024)

static void free_cursor(struct ext_cursor *cursor) {
  sqlite3_free(cursor->list);
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->vectors);
  sqlite3_free(cursor->versions);
  sqlite3_free(cursor->tracks);
  sqlite3_free(cursor->found);
  ext_value_drop(cursor->vector_pool[0]);
  ext_value_drop(cursor->vector_pool[1]);
  sqlite3_free(cursor);
}

void ext_cursor_free_spare(struct ext_table *table) {
  if (table->spare)
    free_cursor(table->spare);
  table->spare = NULL;
}

int ext_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct ext_cursor *cursor = table->spare;
  if (cursor) {
    table->spare = NULL;
  } else {
    cursor = sqlite3_malloc64(sizeof *cursor);
    if (cursor == NULL)
      return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
  }
  /* While the database is being written nothing can be told. */
  if (table->link == NULL || !table->link->in_txn)
    ext_conn_tidy(table->conn);
  if (table->cursors++ == 0)
    table->statement = ++table->conn->statements;
  cursor->statement = table->statement;
  *out = &cursor->base;
  return SQLITE_OK;
}

void ext_cursor_rewind(struct ext_cursor *cursor) {
  if (cursor->scan)
    emb_scan_close(cursor->scan);
  cursor->scan = NULL;
  emb_snapshot_close(cursor->snap);
  cursor->snap = NULL;
  sqlite3_free(cursor->snap_name);
  cursor->snap_name = NULL;
  cursor->snap_scan = 0;
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  cursor->list_n = cursor->list_at = 0;
  if (cursor->is_batch)
    ext_batch_drop(cursor);
  cursor->vector = NULL;
  cursor->is_one = 0;
  cursor->has_tracks = 0;
  cursor->n = cursor->at = 0;
}

int ext_cursor_close(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  struct ext_table *table = ext_cursor_table(cursor);
  size_t dim = table->options.config.dim;
  ext_cursor_rewind(cursor);
  table->cursors--;
  if (table->spare || cursor->capacity > SPARE_ROWS_MAX ||
      cursor->list_capacity > SPARE_ROWS_MAX ||
      cursor->capacity * dim * sizeof(float) > SPARE_BYTES_MAX)
    free_cursor(cursor);
  else
    table->spare = cursor;
  return SQLITE_OK;
}

/* ---- the chunk ----------------------------------------------------------- */

int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows) {
  size_t dim = ext_cursor_table(cursor)->options.config.dim;
  int vectors = cursor->flags & EXT_PLAN_VECTORS;
  int versions = cursor->flags & EXT_PLAN_VERSIONS;
  int tracks = cursor->flags & EXT_PLAN_TRACKS;
  void *p;
  if (rows <= cursor->capacity && (!vectors || cursor->vectors) &&
      (!versions || cursor->versions) && (!tracks || cursor->tracks))
    return 1;
  if (rows < cursor->capacity)
    rows = cursor->capacity;
  if ((p = sqlite3_realloc64(cursor->keys, rows * sizeof(int64_t))) == NULL)
    return 0;
  cursor->keys = p;
  if ((p = sqlite3_realloc64(cursor->found, rows)) == NULL)
    return 0;
  cursor->found = p;
  if (vectors) {
    p = sqlite3_realloc64(cursor->vectors, rows * dim * sizeof(float));
    if (p == NULL)
      return 0;
    cursor->vectors = p;
  } else { /* of an earlier xFilter, and too small from now on */
    sqlite3_free(cursor->vectors);
    cursor->vectors = NULL;
  }
  if (versions) {
    p = sqlite3_realloc64(cursor->versions, rows * sizeof(uint64_t));
    if (p == NULL)
      return 0;
    cursor->versions = p;
  } else {
    sqlite3_free(cursor->versions);
    cursor->versions = NULL;
  }
  if (tracks) {
    p = sqlite3_realloc64(cursor->tracks, rows * sizeof *cursor->tracks);
    if (p == NULL)
      return 0;
    cursor->tracks = p;
  } else {
    sqlite3_free(cursor->tracks);
    cursor->tracks = NULL;
  }
  cursor->capacity = rows;
  return 1;
}

static float *vectors_of(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VECTORS ? cursor->vectors : NULL;
}

static uint64_t *versions_of(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VERSIONS ? cursor->versions : NULL;
}

/* Closes the gaps that absent keys left. */
static void compact(struct ext_cursor *cursor, size_t asked) {
  size_t dim = ext_cursor_table(cursor)->options.config.dim;
  float *vectors = vectors_of(cursor);
  uint64_t *versions = versions_of(cursor);
  size_t n = 0;
  for (size_t i = 0; i < asked; i++) {
    if (!cursor->found[i])
      continue;
    if (n != i) {
      cursor->keys[n] = cursor->keys[i];
      if (vectors)
        memcpy(vectors + n * dim, vectors + i * dim, dim * sizeof *vectors);
      if (versions)
        versions[n] = versions[i];
    }
    n++;
  }
  cursor->n = n;
}

int ext_cursor_read(struct ext_cursor *cursor, const int64_t *keys, size_t n,
                    float *vectors, uint8_t *found, uint64_t *versions,
                    char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  struct ext_link *link = table->link;
  int rc;
  if (cursor->snap) {
    rc = emb_snapshot_get(cursor->snap, keys, n, vectors, found, versions);
    return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
  }
  if (!cursor->peek && (cursor->counts || !link->bounded))
    return ext_lease_get(table, cursor->statement, keys, n, vectors, found,
                         versions, err);
  rc = emb_peek(link->session, keys, n, vectors, found, versions);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* Memory for a vector that SQLite does not hold. */
static struct ext_value *free_vector(struct ext_cursor *cursor) {
  size_t dim = ext_cursor_table(cursor)->options.config.dim;
  struct ext_value **pool = cursor->vector_pool;
  int i = pool[0] && pool[0]->refs > 1;
  if (pool[i] && pool[i]->refs > 1) {
    ext_value_drop(pool[i]);
    pool[i] = NULL;
  }
  if (pool[i] == NULL)
    pool[i] = ext_value_new(dim * sizeof(float));
  return pool[i];
}

int ext_cursor_read_key(struct ext_cursor *cursor, int64_t key, char **err) {
  struct ext_link *link = cursor->link;
  int vectors = cursor->flags & EXT_PLAN_VECTORS;
  struct ext_value *vector = vectors ? free_vector(cursor) : NULL;
  uint8_t found;
  int rc;
  cursor->flags &= ~EXT_PLAN_VECTORS; /* the arrays have none */
  if ((vectors && vector == NULL) || !ext_cursor_reserve(cursor, 1))
    return SQLITE_NOMEM;
  cursor->keys[0] = key;
  rc = emb_get(link->session, cursor->keys, 1, ext_value_data(vector), &found,
               versions_of(cursor));
  if (rc)
    return ext_link_error(link, rc, err);
  cursor->vector = vector;
  cursor->n = found;
  cursor->is_one = 1;
  return SQLITE_OK;
}

static int fill_from_list(struct ext_cursor *cursor, char **err) {
  while (cursor->n == 0 && cursor->list_at < cursor->list_n) {
    size_t rows = cursor->list_n - cursor->list_at;
    int rc;
    if (rows > cursor->rows_max)
      rows = cursor->rows_max;
    if (!ext_cursor_reserve(cursor, rows))
      return SQLITE_NOMEM;
    memcpy(cursor->keys, cursor->list + cursor->list_at,
           rows * sizeof *cursor->keys);
    rc = ext_cursor_read(cursor, cursor->keys, rows, vectors_of(cursor),
                         cursor->found, versions_of(cursor), err);
    if (rc != SQLITE_OK)
      return rc;
    cursor->list_at += rows;
    compact(cursor, rows);
  }
  return SQLITE_OK;
}

static void grow_chunk(struct ext_cursor *cursor) {
  cursor->rows *= 4;
  if (cursor->rows > cursor->rows_max)
    cursor->rows = cursor->rows_max;
}

/* The next rows of a snapshot, without those outside the range. */
static int fill_from_snapshot(struct ext_cursor *cursor, char **err) {
  size_t got = 1;
  while (cursor->n == 0 && got) {
    int rc;
    if (!ext_cursor_reserve(cursor, cursor->rows))
      return SQLITE_NOMEM;
    rc = emb_snapshot_scan(cursor->snap, cursor->rows, cursor->keys,
                           vectors_of(cursor), versions_of(cursor), &got);
    if (rc)
      return ext_link_error(cursor->link, rc, err);
    for (size_t i = 0; i < got; i++)
      cursor->found[i] = cursor->keys[i] >= cursor->snap_lo &&
                         cursor->keys[i] <= cursor->snap_hi;
    compact(cursor, got);
    grow_chunk(cursor);
  }
  return SQLITE_OK;
}

int ext_cursor_fill(struct ext_cursor *cursor, char **err) {
  struct ext_link *link = ext_cursor_table(cursor)->link;
  int rc;
  cursor->n = cursor->at = 0;
  cursor->has_tracks = 0;
  if (cursor->lazy)
    cursor->flags = cursor->lazy;
  if (cursor->snap_scan)
    return fill_from_snapshot(cursor, err);
  if (cursor->scan == NULL)
    return fill_from_list(cursor, err);
  if (!ext_cursor_reserve(cursor, cursor->rows))
    return SQLITE_NOMEM;
  cursor->has_tracks = (cursor->flags & EXT_PLAN_TRACKS) != 0;
  rc = emb_scan_next_tracks(cursor->scan, cursor->rows, cursor->keys,
                            vectors_of(cursor), versions_of(cursor),
                            cursor->has_tracks ? cursor->tracks : NULL,
                            &cursor->n);
  if (rc) {
    cursor->n = 0;
    return ext_link_error(link, rc, err);
  }
  grow_chunk(cursor);
  return SQLITE_OK;
}

/* ---- rows ---------------------------------------------------------------- */

int ext_cursor_next(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (++cursor->at >= cursor->n) {
    if (cursor->is_one)
      cursor->n = 0;
    else
      rc = ext_cursor_fill(cursor, &err);
  }
  return rc == SQLITE_OK ? rc
                         : ext_table_error(ext_cursor_table(cursor), rc, err);
}

int ext_cursor_eof(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  return cursor->at >= cursor->n;
}

/* An UPDATE turns out to use vector, version or what is tracked, or rows came
** from a list, without the latter: reads them for the rows of this chunk and,
** unless that counts, with the later ones. */
static int load(struct ext_cursor *cursor, int flag) {
  struct ext_table *table = ext_cursor_table(cursor);
  char *err = NULL;
  int rc;
  cursor->flags |= flag;
  if (!ext_cursor_reserve(cursor, cursor->n))
    return SQLITE_NOMEM;
  if (flag == EXT_PLAN_TRACKS) {
    rc = emb_tracks(table->link->session, cursor->keys, cursor->n,
                    cursor->tracks, NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
    cursor->has_tracks = 1;
  } else if (cursor->lazy && flag == EXT_PLAN_VECTORS) {
    rc = ext_lease_get(table, cursor->statement, cursor->keys, cursor->n,
                       cursor->vectors, NULL, NULL, &err);
  } else {
    rc = emb_peek(table->link->session, cursor->keys, cursor->n,
                  flag == EXT_PLAN_VECTORS ? cursor->vectors : NULL, NULL,
                  flag == EXT_PLAN_VERSIONS ? cursor->versions : NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  return rc == SQLITE_OK ? rc : ext_table_error(table, rc, err);
}

/* Vector column i: a part of the row. */
static int vector_column(struct ext_cursor *cursor, sqlite3_context *context,
                         uint32_t i) {
  const struct ext_options *options = &ext_cursor_table(cursor)->options;
  const float *row = ext_value_data(cursor->vector);
  int rc;
  if (row && ext_vectors(options) == 1) {
    ext_value_result(context, cursor->vector);
    return SQLITE_OK;
  }
  rc = row || vectors_of(cursor) ? SQLITE_OK : load(cursor, EXT_PLAN_VECTORS);
  if (rc != SQLITE_OK)
    return rc;
  if (row == NULL)
    row = cursor->vectors + cursor->at * options->config.dim;
  sqlite3_result_blob64(context, row + ext_vector_first(options, i),
                        options->segments[i].dim * sizeof *row,
                        SQLITE_TRANSIENT);
  return SQLITE_OK;
}

static int version_column(struct ext_cursor *cursor, sqlite3_context *context) {
  int rc = versions_of(cursor) ? SQLITE_OK : load(cursor, EXT_PLAN_VERSIONS);
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->versions[cursor->at]);
  return rc;
}

static int track_column(struct ext_cursor *cursor, sqlite3_context *context,
                        int column) {
  const emb_track *track;
  int rc;
  if (emb_tracking(cursor->link->store) == EMB_TRACK_NONE)
    return SQLITE_OK;
  rc = cursor->has_tracks ? SQLITE_OK : load(cursor, EXT_PLAN_TRACKS);
  if (rc != SQLITE_OK)
    return rc;
  track = &cursor->tracks[cursor->at];
  sqlite3_result_int64(context, column == EXT_FREQUENCY ? track->frequency
                                                        : track->updated_at);
  return SQLITE_OK;
}

/* From memory, so one by one. */
static int clock_column(struct ext_cursor *cursor, sqlite3_context *context) {
  struct ext_table *table = ext_cursor_table(cursor);
  uint32_t clock = 0;
  char *err = NULL;
  int rc =
      emb_clocks(table->link->session, cursor->keys + cursor->at, 1, &clock);
  if (rc)
    return ext_table_error(table, ext_link_error(table->link, rc, &err), err);
  sqlite3_result_int64(context, clock);
  return SQLITE_OK;
}

int ext_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                      int column) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  int vector = ext_vector_of(&ext_cursor_table(cursor)->options, column);
  if (cursor->is_batch)
    ext_batch_column(cursor, context, column);
  else if (cursor->flags & EXT_PLAN_LAZY && sqlite3_vtab_nochange(context))
    return SQLITE_OK;
  else if (column == EXT_KEY)
    sqlite3_result_int64(context, cursor->keys[cursor->at]);
  else if (vector >= 0)
    return vector_column(cursor, context, (uint32_t)vector);
  else if (column == EXT_VERSION)
    return version_column(cursor, context);
  else if (column == EXT_CLOCK && !cursor->snap)
    return clock_column(cursor, context);
  else if (column == EXT_FREQUENCY || column == EXT_UPDATED_AT)
    return track_column(cursor, context, column);
  else if (column == EXT_SNAPSHOT && cursor->snap)
    sqlite3_result_text(context, cursor->snap_name, -1, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

int ext_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  *rowid = cursor->is_batch ? 0 : cursor->keys[cursor->at];
  return SQLITE_OK;
}
