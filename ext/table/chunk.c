/* SPDX-License-Identifier: MIT
**
** chunk.c -- the cursor's buffered rows.
**
** Rows are copied in chunks into the cursor's own arrays (fill.c), so writes do
** not change a row while the cursor is on it.  Vectors are read only if a
** column asks for them.  An UPDATE does not say in advance which columns it
** uses; for those that it only copies, sqlite3_vtab_nochange is true, and no
** value is returned.
**
** key = ? is one row: it needs no list, and its vector is read directly into
** the buffer that is passed to SQLite.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Resizes one of the cursor's arrays (`array` points to the pointer).  An array
** that is not wanted is left over from an earlier xFilter and too small, so it
** is freed. */
static int chunk_fit(void *array, int wanted, size_t rows, size_t size) {
  void *data;
  memcpy(&data, array, sizeof data);
  if (!wanted) {
    sqlite3_free(data);
    data = NULL;
  } else if ((data = sqlite3_realloc64(data, rows * size)) == NULL) {
    return 0;
  }
  memcpy(array, &data, sizeof data);
  return 1;
}

int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
  int vectors = cursor->flags & EXT_PLAN_VECTORS;
  int versions = cursor->flags & EXT_PLAN_VERSIONS;
  int tracks = cursor->flags & EXT_PLAN_TRACKS;
  int distances = cursor->flags & EXT_PLAN_NEAREST;
  if (rows <= cursor->capacity && (!vectors || cursor->vectors) &&
      (!versions || cursor->versions) && (!tracks || cursor->tracks) &&
      (!distances || cursor->distances))
    return 1;
  if (rows < cursor->capacity)
    rows = cursor->capacity;
  if (!chunk_fit(&cursor->keys, 1, rows, sizeof *cursor->keys) ||
      !chunk_fit(&cursor->found, 1, rows, sizeof *cursor->found) ||
      !chunk_fit(&cursor->vectors, vectors, rows,
                 dim * sizeof *cursor->vectors) ||
      !chunk_fit(&cursor->versions, versions, rows, sizeof *cursor->versions) ||
      !chunk_fit(&cursor->tracks, tracks, rows, sizeof *cursor->tracks) ||
      !chunk_fit(&cursor->distances, distances, rows,
                 sizeof *cursor->distances))
    return 0;
  cursor->capacity = rows;
  return 1;
}

void ext_cursor_compact(struct ext_cursor *cursor, size_t asked) {
  size_t dim = ext_vtab(ext_cursor_table(cursor))->options.config.dim;
  float *vectors = ext_cursor_vectors(cursor);
  uint64_t *versions = ext_cursor_versions(cursor);
  size_t n = 0;
  emb_assert(asked <= cursor->capacity);
  for (size_t i = 0; i < asked; i++) {
    if (!cursor->found[i])
      continue;
    if (n != i) {
      cursor->keys[n] = cursor->keys[i];
      if (vectors)
        memcpy(vectors + n * dim, vectors + i * dim, dim * sizeof *vectors);
      if (versions)
        versions[n] = versions[i];
      if (cursor->flags & EXT_PLAN_NEAREST)
        cursor->distances[n] = cursor->distances[i];
    }
    n++;
  }
  cursor->n = n;
}

int ext_keys_order(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
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

/* Returns a vector buffer not held by SQLite, or NULL if memory runs out. */
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
  emb_assert(!link->bounded && !cursor->peek && !cursor->snap);
  cursor->flags &= ~EXT_PLAN_VECTORS; /* not read into the arrays */
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
