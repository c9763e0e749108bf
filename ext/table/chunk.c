/* SPDX-License-Identifier: MIT
**
** chunk.c -- the rows that a cursor has at hand.
**
** Rows are copied in chunks into the cursor's own arrays, so that they do not
** change while the cursor is on them, whatever is written meanwhile, and
** a chunk grows from a few rows to CHUNK_BYTES, so that LIMIT 1 reads little.
** Vectors are read only when a column asks for them.  An UPDATE does not say
** beforehand which columns it uses; those that it only copies it asks for with
** sqlite3_vtab_nochange, which is answered with nothing.
**
** key = ? is one row: it does without the list, and its vector is read to where
** SQLite then finds it.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
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

/* Closes the gaps that absent keys left. */
static void chunk_compact(struct ext_cursor *cursor, size_t asked) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
  float *vectors = ext_cursor_vectors(cursor);
  uint64_t *versions = ext_cursor_versions(cursor);
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
                    const emb_rows *to, char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  struct ext_link *link = table->link;
  int rc;
  if (cursor->snap) {
    rc = emb_snapshot_get(cursor->snap, keys, n, to->vectors, to->found,
                          to->versions);
    return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
  }
  if (!cursor->peek && (cursor->counts || !link->bounded))
    return ext_lease_get(table, cursor->statement, keys, n, to, err);
  rc = emb_peek(link->session, keys, n, to->vectors, to->found, to->versions);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* Memory for a vector that SQLite does not hold. */
static struct ext_value *free_vector(struct ext_cursor *cursor) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
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
               ext_cursor_versions(cursor));
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
    rc = ext_cursor_read(cursor, cursor->keys, rows,
                         &(emb_rows){.vectors = ext_cursor_vectors(cursor),
                                     .found = cursor->found,
                                     .versions = ext_cursor_versions(cursor)},
                         err);
    if (rc != SQLITE_OK)
      return rc;
    cursor->list_at += rows;
    chunk_compact(cursor, rows);
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
                           ext_cursor_vectors(cursor),
                           ext_cursor_versions(cursor), &got);
    if (rc)
      return ext_link_error(cursor->link, rc, err);
    for (size_t i = 0; i < got; i++)
      cursor->found[i] = cursor->keys[i] >= cursor->snap_lo &&
                         cursor->keys[i] <= cursor->snap_hi;
    chunk_compact(cursor, got);
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
  rc = emb_scan_next_rows(
      cursor->scan, cursor->rows,
      &(emb_rows){.keys = cursor->keys,
                  .vectors = ext_cursor_vectors(cursor),
                  .versions = ext_cursor_versions(cursor),
                  .tracks = cursor->has_tracks ? cursor->tracks : NULL},
      &cursor->n);
  if (rc) {
    cursor->n = 0;
    return ext_link_error(link, rc, err);
  }
  grow_chunk(cursor);
  return SQLITE_OK;
}
