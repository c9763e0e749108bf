/* SPDX-License-Identifier: MIT
**
** cursor.c -- reading a table: xFilter, xNext, xColumn.
**
** A plan (ext.h) becomes one of
**
**   batch   items(:keys): one row with all vectors
**   list    key = ? or key IN (...): the keys, sorted, read in batches
**   scan    the engine's scan over a range of keys
**
** Rows are copied in chunks into the cursor's own arrays, so that they do not
** change while the cursor stands on them, whatever is written meanwhile, and
** a chunk grows from a few rows to CHUNK_BYTES, so that LIMIT 1 reads little.
** Vectors are read only when a column asks for them.  An UPDATE does not say
** beforehand which columns it uses; those that it only copies it asks for with
** sqlite3_vtab_nochange, which is answered with nothing.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

/* Keys up to which a table is scanned in key order. */
#define KEY_ORDER_MAX 10000

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (256 * 1024)
#define CHUNK_ROWS_MAX 4096
#define CHUNK_ROWS_FIRST 16

/* The result of a batch.  SQLite may keep a column's value longer than the
** row, so the memory is counted. */
struct batch {
  size_t refs;
  size_t size; /* of data */
  /* data follows */
};

struct ext_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  int flags;                /* of the plan */
  int peek;                 /* mode='peek' */

  /* The chunk. */
  size_t n, at;          /* rows in it, and the current one */
  size_t rows, rows_max; /* asked for next, and at most */
  size_t capacity;       /* of the arrays in rows */
  int64_t *keys;
  float *vectors;     /* with EXT_PLAN_VECTORS */
  uint64_t *versions; /* with EXT_PLAN_VERSIONS */
  uint8_t *found;     /* for lists */

  /* Where the rows come from. */
  struct ext_link *link; /* while one is counted in link->cursors */
  emb_scan *scan;
  int64_t *list;
  size_t list_n, list_at;
  struct batch *batch_vectors, *batch_found;
  int is_batch;
};

static struct ext_table *table_of(sqlite3_vtab_cursor *cursor) {
  return (struct ext_table *)cursor->pVtab;
}

int ext_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct ext_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  if (cursor == NULL)
    return SQLITE_NOMEM;
  if (table->conn->orphans)
    ext_orphan_settle(table->conn);
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

/* ---- batches ------------------------------------------------------------- */

static struct batch *new_batch(size_t size) {
  struct batch *batch = sqlite3_malloc64(sizeof *batch + size);
  if (batch) {
    batch->refs = 1;
    batch->size = size;
  }
  return batch;
}

static void drop_batch(struct batch *batch) {
  if (batch && --batch->refs == 0)
    sqlite3_free(batch);
}

static void drop_batch_data(void *data) {
  drop_batch((struct batch *)data - 1);
}

static void result_batch(sqlite3_context *context, struct batch *batch) {
  if (batch == NULL)
    return;
  batch->refs++;
  sqlite3_result_blob64(context, batch + 1, batch->size, drop_batch_data);
}

static int read_batch(struct ext_cursor *cursor, sqlite3_value *keys_value,
                      char **err) {
  struct ext_table *table = table_of(&cursor->base);
  struct ext_link *link = table->link;
  uint32_t dim = table->options.config.dim;
  int64_t *keys = NULL;
  int owned = 0;
  size_t n = 0;
  int rc = emb_keys_from_value(keys_value, "keys", &keys, &owned, &n, err);
  if (rc != SQLITE_OK)
    return rc;
  if (cursor->flags & EXT_PLAN_VECTORS) {
    rc = ext_check_size(table->conn->db, n, dim, err);
    if (rc == SQLITE_OK &&
        (cursor->batch_vectors = new_batch(n * dim * sizeof(float))) == NULL)
      rc = SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK && cursor->flags & EXT_PLAN_FOUND &&
      (cursor->batch_found = new_batch(n)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    struct batch *vectors = cursor->batch_vectors;
    struct batch *found = cursor->batch_found;
    rc = (cursor->peek ? emb_peek : emb_get)(
        link->session, keys, n, vectors ? (float *)(vectors + 1) : NULL,
        found ? (uint8_t *)(found + 1) : NULL, NULL);
    if (rc)
      rc = ext_link_error(link, rc, err);
  }
  if (owned)
    sqlite3_free(keys);
  cursor->n = rc == SQLITE_OK;
  return rc;
}

/* ---- the chunk ----------------------------------------------------------- */

/* Makes room for `rows` rows; 0 without memory. */
static int reserve(struct ext_cursor *cursor, size_t rows) {
  size_t dim = table_of(&cursor->base)->options.config.dim;
  int vectors = cursor->flags & EXT_PLAN_VECTORS;
  int versions = cursor->flags & EXT_PLAN_VERSIONS;
  void *p;
  if (rows <= cursor->capacity && (!vectors || cursor->vectors) &&
      (!versions || cursor->versions))
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
  size_t dim = table_of(&cursor->base)->options.config.dim;
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

static int fill_from_list(struct ext_cursor *cursor, char **err) {
  struct ext_link *link = table_of(&cursor->base)->link;
  while (cursor->n == 0 && cursor->list_at < cursor->list_n) {
    size_t rows = cursor->list_n - cursor->list_at;
    int rc;
    if (rows > cursor->rows_max)
      rows = cursor->rows_max;
    if (!reserve(cursor, rows))
      return SQLITE_NOMEM;
    memcpy(cursor->keys, cursor->list + cursor->list_at,
           rows * sizeof *cursor->keys);
    rc = (cursor->peek ? emb_peek : emb_get)(link->session, cursor->keys, rows,
                                             vectors_of(cursor), cursor->found,
                                             versions_of(cursor));
    if (rc)
      return ext_link_error(link, rc, err);
    cursor->list_at += rows;
    compact(cursor, rows);
  }
  return SQLITE_OK;
}

static int fill(struct ext_cursor *cursor, char **err) {
  struct ext_link *link = table_of(&cursor->base)->link;
  int rc;
  cursor->n = cursor->at = 0;
  if (cursor->scan == NULL)
    return fill_from_list(cursor, err);
  if (!reserve(cursor, cursor->rows))
    return SQLITE_NOMEM;
  rc = emb_scan_next(cursor->scan, cursor->rows, cursor->keys,
                     vectors_of(cursor), versions_of(cursor), &cursor->n);
  if (rc) {
    cursor->n = 0;
    return ext_link_error(link, rc, err);
  }
  cursor->rows *= 4;
  if (cursor->rows > cursor->rows_max)
    cursor->rows = cursor->rows_max;
  return SQLITE_OK;
}

/* ---- xFilter ------------------------------------------------------------- */

static void rewind_cursor(struct ext_cursor *cursor, int flags) {
  size_t dim = table_of(&cursor->base)->options.config.dim;
  if (cursor->scan)
    emb_scan_close(cursor->scan);
  cursor->scan = NULL;
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  cursor->list_n = cursor->list_at = 0;
  drop_batch(cursor->batch_vectors);
  drop_batch(cursor->batch_found);
  cursor->batch_vectors = cursor->batch_found = NULL;
  cursor->is_batch = 0;
  cursor->n = cursor->at = 0;
  cursor->flags = flags;
  cursor->peek = 0;
  cursor->rows_max = CHUNK_ROWS_MAX;
  if (flags & (EXT_PLAN_VECTORS | EXT_PLAN_LAZY)) {
    cursor->rows_max = CHUNK_BYTES / (dim * sizeof(float));
    if (cursor->rows_max > CHUNK_ROWS_MAX)
      cursor->rows_max = CHUNK_ROWS_MAX;
    if (cursor->rows_max == 0)
      cursor->rows_max = 1;
  }
  cursor->rows = CHUNK_ROWS_FIRST;
  if (cursor->rows > cursor->rows_max)
    cursor->rows = cursor->rows_max;
}

/* numpy.int64 arrives as a BLOB of 8 bytes, and a search for it would find
** nothing and say nothing. */
static int check_key_value(struct ext_table *table, sqlite3_value *value,
                           char **err) {
  int64_t key;
  if (sqlite3_value_type(value) == SQLITE_BLOB &&
      sqlite3_value_bytes(value) == 8)
    return emb_key_from_value(value, table->key_what, &key, err);
  return SQLITE_OK;
}

static int add_to_list(struct ext_cursor *cursor, size_t *capacity,
                       int64_t key) {
  if (cursor->list_n == *capacity) {
    size_t more = *capacity ? 2 * *capacity : 1;
    int64_t *list = sqlite3_realloc64(cursor->list, more * sizeof *list);
    if (list == NULL)
      return SQLITE_NOMEM;
    cursor->list = list;
    *capacity = more;
  }
  cursor->list[cursor->list_n++] = key;
  return SQLITE_OK;
}

static int compare_asc(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int compare_desc(const void *a, const void *b) {
  return compare_asc(b, a);
}

/* The values of IN as sorted keys without repetition.  A key that occurs
** already in an earlier IN list only narrows it: the two must agree. */
static int read_in(struct ext_cursor *cursor, sqlite3_value *in, int is_first,
                   char **err) {
  struct ext_table *table = table_of(&cursor->base);
  int64_t *before = cursor->list;
  size_t before_n = cursor->list_n;
  size_t capacity = 0, n = 0;
  sqlite3_value *value;
  int rc = SQLITE_OK;
  cursor->list = NULL;
  cursor->list_n = 0;
  for (int next = sqlite3_vtab_in_first(in, &value); rc == SQLITE_OK;
       next = sqlite3_vtab_in_next(in, &value)) {
    struct ext_range range;
    if (next != SQLITE_OK) {
      rc = next == SQLITE_DONE ? SQLITE_OK : next;
      break;
    }
    rc = check_key_value(table, value, err);
    ext_range_all(&range);
    ext_range_narrow(&range, '=', value);
    if (rc == SQLITE_OK && range.lo <= range.hi &&
        (is_first || (before_n && bsearch(&range.lo, before, before_n,
                                          sizeof *before, compare_asc))))
      rc = add_to_list(cursor, &capacity, range.lo);
  }
  sqlite3_free(before);
  if (cursor->list_n)
    qsort(cursor->list, cursor->list_n, sizeof *cursor->list, compare_asc);
  for (size_t i = 0; i < cursor->list_n; i++)
    if (n == 0 || cursor->list[n - 1] != cursor->list[i])
      cursor->list[n++] = cursor->list[i];
  cursor->list_n = n;
  return rc;
}

/* Leaves in the list what the other comparisons let through. */
static void narrow_list(struct ext_cursor *cursor,
                        const struct ext_range *range) {
  size_t n = 0;
  for (size_t i = 0; i < cursor->list_n; i++)
    if (cursor->list[i] >= range->lo && cursor->list[i] <= range->hi)
      cursor->list[n++] = cursor->list[i];
  cursor->list_n = n;
  if (n && cursor->flags & EXT_PLAN_DESC)
    qsort(cursor->list, n, sizeof *cursor->list, compare_desc);
}

static int read_mode(struct ext_cursor *cursor, sqlite3_value *value,
                     char **err) {
  const char *mode = (const char *)sqlite3_value_text(value);
  if (mode && sqlite3_stricmp(mode, "peek") != 0)
    return ext_error(err, SQLITE_ERROR, "unknown mode: %s", mode);
  cursor->peek = mode != NULL;
  return SQLITE_OK;
}

/* What the values of a plan say together. */
struct request {
  struct ext_range range;
  int has_list;
  sqlite3_value *keys; /* of a batch */
  sqlite3_int64 offset;
};

static int read_plan(struct ext_cursor *cursor, const char *plan,
                     sqlite3_value **argv, struct request *request,
                     char **err) {
  struct ext_table *table = table_of(&cursor->base);
  int rc = SQLITE_OK;
  for (int i = 0; plan[i] && rc == SQLITE_OK; i++) {
    switch (plan[i]) {
    case 'k':
      request->keys = argv[i];
      break;
    case 'm':
      rc = read_mode(cursor, argv[i], err);
      break;
    case 'o':
      request->offset = sqlite3_value_int64(argv[i]);
      break;
    case 'i':
      rc = read_in(cursor, argv[i], !request->has_list, err);
      request->has_list = 1;
      break;
    default:
      if (plan[i] == '=')
        rc = check_key_value(table, argv[i], err);
      ext_range_narrow(&request->range, plan[i], argv[i]);
    }
  }
  return rc;
}

/* Skips rows without reading their vectors. */
static int skip(struct ext_cursor *cursor, sqlite3_int64 offset, char **err) {
  while (offset > 0) {
    size_t rows = CHUNK_ROWS_MAX, n = 0;
    int rc;
    if ((uint64_t)offset < rows)
      rows = (size_t)offset;
    if (!reserve(cursor, rows))
      return SQLITE_NOMEM;
    rc = emb_scan_next(cursor->scan, rows, cursor->keys, NULL, NULL, &n);
    if (rc)
      return ext_link_error(table_of(&cursor->base)->link, rc, err);
    if (n == 0)
      break;
    offset -= (sqlite3_int64)n;
  }
  return SQLITE_OK;
}

/* The order in which to scan when the statement asks for none.  Storage order
** reads the whole log, front to back; key order reads single records.  So a
** range that is narrow against the table goes in key order, and a small table
** too, as an ordinary table would: UPDATE ... SET key = key - 1 then meets no
** key that is still taken. */
static int scan_order(const struct ext_cursor *cursor, emb_session *session,
                      const struct ext_range *range) {
  int order = cursor->flags & EXT_PLAN_ORDER;
  uint64_t span = (uint64_t)range->hi - (uint64_t)range->lo;
  uint64_t count = (uint64_t)emb_count(session);
  if (order == EMB_SCAN_ANY && (count <= KEY_ORDER_MAX || span < count / 16))
    order = EMB_SCAN_ASC;
  if (order == EMB_SCAN_ANY &&
      !(cursor->flags & (EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS | EXT_PLAN_LAZY)))
    order = EMB_SCAN_KEYS;
  return order;
}

static int start(struct ext_cursor *cursor, struct request *request,
                 char **err) {
  struct ext_link *link = table_of(&cursor->base)->link;
  struct ext_range *range = &request->range;
  int rc = SQLITE_OK;
  if (request->keys) {
    cursor->is_batch = 1;
    return read_batch(cursor, request->keys, err);
  }
  if (!request->has_list && range->lo == range->hi) {
    size_t capacity = cursor->list ? 1 : 0; /* of an earlier xFilter */
    rc = add_to_list(cursor, &capacity, range->lo);
  } else if (request->has_list) {
    narrow_list(cursor, range);
  } else if (range->lo < range->hi) {
    rc = emb_scan_open(link->session, range->lo, range->hi,
                       scan_order(cursor, link->session, range), &cursor->scan);
    if (rc) {
      cursor->scan = NULL;
      return ext_link_error(link, rc, err);
    }
    rc = skip(cursor, request->offset, err);
    request->offset = 0;
  }
  if (rc == SQLITE_OK)
    rc = fill(cursor, err);
  return rc;
}

int ext_cursor_filter(sqlite3_vtab_cursor *base, int flags, const char *plan,
                      int argc, sqlite3_value **argv) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  struct ext_table *table = table_of(base);
  struct request request = {.offset = 0};
  char *err = NULL;
  int rc;
  (void)argc;
  rewind_cursor(cursor, flags);
  ext_range_all(&request.range);
  rc = ext_txn_read(table, &err);
  if (rc == SQLITE_OK) {
    cursor->link = table->link;
    cursor->link->cursors++;
    rc = read_plan(cursor, plan, argv, &request, &err);
  }
  if (rc == SQLITE_OK)
    rc = start(cursor, &request, &err);
  while (rc == SQLITE_OK && request.offset-- > 0 && !ext_cursor_eof(base))
    rc = ext_cursor_next(base);
  return err ? ext_table_error(table, rc, err) : rc;
}

/* ---- rows ---------------------------------------------------------------- */

int ext_cursor_next(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  if (++cursor->at >= cursor->n) {
    if (cursor->is_batch)
      cursor->n = 0;
    else
      rc = fill(cursor, &err);
  }
  return rc == SQLITE_OK ? rc : ext_table_error(table_of(base), rc, err);
}

int ext_cursor_eof(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  return cursor->at >= cursor->n;
}

/* An UPDATE turns out to use vector or version: reads them for the rows of
** this chunk, and with the later ones. */
static int load_chunk(struct ext_cursor *cursor) {
  struct ext_table *table = table_of(&cursor->base);
  char *err = NULL;
  int rc;
  cursor->flags |= EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS;
  if (!reserve(cursor, cursor->n))
    return SQLITE_NOMEM;
  rc = emb_peek(table->link->session, cursor->keys, cursor->n, cursor->vectors,
                NULL, cursor->versions);
  if (rc) {
    rc = ext_link_error(table->link, rc, &err);
    return ext_table_error(table, rc, err);
  }
  return SQLITE_OK;
}

int ext_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                      int column) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  size_t dim = table_of(base)->options.config.dim;
  size_t at = cursor->at;
  if (cursor->is_batch) {
    if (column == EXT_VECTORS)
      result_batch(context, cursor->batch_vectors);
    else if (column == EXT_FOUND)
      result_batch(context, cursor->batch_found);
    return SQLITE_OK;
  }
  if (sqlite3_vtab_nochange(context))
    return SQLITE_OK;
  if ((column == EXT_VECTOR && !vectors_of(cursor)) ||
      (column == EXT_VERSION && !versions_of(cursor))) {
    int rc = load_chunk(cursor);
    if (rc != SQLITE_OK)
      return rc;
  }
  if (column == EXT_KEY)
    sqlite3_result_int64(context, cursor->keys[at]);
  else if (column == EXT_VECTOR)
    sqlite3_result_blob64(context, cursor->vectors + at * dim,
                          dim * sizeof(float), SQLITE_TRANSIENT);
  else if (column == EXT_VERSION)
    sqlite3_result_int64(context, (sqlite3_int64)cursor->versions[at]);
  return SQLITE_OK;
}

int ext_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  *rowid = cursor->is_batch ? 0 : cursor->keys[cursor->at];
  return SQLITE_OK;
}

int ext_cursor_close(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  rewind_cursor(cursor, 0);
  sqlite3_free(cursor->list);
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->vectors);
  sqlite3_free(cursor->versions);
  sqlite3_free(cursor->found);
  sqlite3_free(cursor);
  return SQLITE_OK;
}
