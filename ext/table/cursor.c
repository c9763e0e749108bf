/* SPDX-License-Identifier: MIT
**
** cursor.c -- reading a table: from xOpen to xClose, except xFilter.
**
** A plan (table.h) is executed as one of
**
**   batch   items(:keys): one row with all vectors (batch.c)
**   list    key = ? or key IN (...): the keys, sorted, read in batches
**   scan    the engine's scan over a range of keys
**   search  vector MATCH ?: the neighbours, nearest first (nearest.c)
**
** With snapshot = ? they read the snapshot, in storage order for a scan, and
** their reads do not count.
**
** Each table object keeps one closed cursor with its arrays, so a statement
** that reads one row allocates nothing.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Limits for keeping a closed cursor. */
#define SPARE_ROWS_MAX 4096
#define SPARE_BYTES_MAX (512 * 1024)

static void free_cursor(struct ext_cursor *cursor) {
  sqlite3_free(cursor->list);
  sqlite3_free(cursor->keys);
  sqlite3_free(cursor->vectors);
  sqlite3_free(cursor->versions);
  sqlite3_free(cursor->tracks);
  sqlite3_free(cursor->found);
  sqlite3_free(cursor->distances);
  ext_near_free(cursor->near);
  ext_aux_close(&cursor->aux);
  ext_value_drop(cursor->vector_pool[0]);
  ext_value_drop(cursor->vector_pool[1]);
  sqlite3_free(cursor);
}

void ext_cursor_free_spare(struct ext_table *table) {
  if (ext_vtab(table)->spare)
    free_cursor(ext_vtab(table)->spare);
  ext_vtab(table)->spare = NULL;
}

/* Is there no store to close?  Nothing can be decided while this connection
** writes the database.  And SQLite has begun to read the database before it
** opens a cursor, so the table's own store stays open.  Asking its engine took
** 3 % of a SELECT by key of a table that fits in the processor's cache. */
static int is_tidy(const struct ext_table *table) {
  const struct ext_conn *conn = table->conn;
  const struct ext_link *link = table->link;
  return link && (link->in_txn || (conn->links == link && !link->next &&
                                   !conn->orphans && !conn->attached));
}

int ext_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct ext_table *table = (struct ext_table *)vtab;
  struct ext_cursor *cursor = ext_vtab(table)->spare;
  if (cursor) {
    emb_check(ext_cursor_spare_valid(cursor));
    ext_vtab(table)->spare = NULL;
  } else {
    cursor = sqlite3_malloc64(sizeof *cursor);
    if (cursor == NULL)
      return SQLITE_NOMEM;
    memset(cursor, 0, sizeof *cursor);
  }
  if (!is_tidy(table))
    ext_conn_tidy(table->conn);
  if (table->cursors++ == 0)
    table->statement = ++table->conn->statements;
  cursor->statement = table->statement;
  cursor->is_update = 0;
  cursor->query_only =
      ext_inserts_on_lookup(table) && ext_conn_is_query_only(table->conn);
  *out = &cursor->base;
  return SQLITE_OK;
}

void ext_cursor_rewind(struct ext_cursor *cursor) {
  if (cursor->scan)
    emb_scan_close(cursor->scan);
  cursor->scan = NULL;
  if (cursor->snap)
    emb_snapshot_close(cursor->snap);
  cursor->snap = NULL;
  if (cursor->snap_name)
    sqlite3_free(cursor->snap_name);
  cursor->snap_name = NULL;
  cursor->snap_scan = 0;
  if (cursor->link)
    cursor->link->cursors--;
  cursor->link = NULL;
  cursor->list_n = cursor->list_at = 0;
  if (cursor->aux.state || cursor->aux.where || cursor->aux.set)
    ext_aux_rewind(&cursor->aux);
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
  size_t dim = ext_vtab(table)->options.config.dim;
  emb_assert(ext_cursor_valid(cursor));
  ext_cursor_rewind(cursor);
  table->cursors--;
  if (ext_vtab(table)->spare || cursor->capacity > SPARE_ROWS_MAX ||
      cursor->list_capacity > SPARE_ROWS_MAX ||
      !ext_near_is_small(cursor->near) ||
      cursor->capacity * dim * sizeof(float) > SPARE_BYTES_MAX)
    free_cursor(cursor);
  else
    ext_vtab(table)->spare = cursor;
  return SQLITE_OK;
}

/* ---- rows ---------------------------------------------------------------- */

int ext_cursor_next(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  char *err = NULL;
  int rc = SQLITE_OK;
  emb_assert(ext_cursor_valid(cursor) && cursor->at < cursor->n);
  ext_aux_leave(&cursor->aux);
  if (++cursor->at >= cursor->n) {
    if (cursor->is_one)
      cursor->n = 0;
    else
      rc = ext_cursor_fill(cursor, &err);
  }
  return rc == SQLITE_OK ? rc : ext_vtab_error(cursor->base.pVtab, rc, err);
}

int ext_cursor_eof(sqlite3_vtab_cursor *base) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  return cursor->at >= cursor->n;
}

/* Reads a column that the chunk lacks, because an UPDATE turns out to use
** vector, version or tracks, or because rows from a list come without tracks.
** Unless the read counts, the following chunks are read with the column. */
static int chunk_load(struct ext_cursor *cursor, int flag) {
  struct ext_table *table = ext_cursor_table(cursor);
  char *err = NULL;
  int rc;
  if (cursor->flags & EXT_PLAN_NEAREST && flag == EXT_PLAN_VECTORS) {
    rc = ext_near_load(cursor, &err);
    return rc == SQLITE_OK ? rc : ext_vtab_error(&table->base, rc, err);
  }
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
                       &(emb_rows){.vectors = cursor->vectors}, &err);
  } else {
    rc = emb_peek(table->link->session, cursor->keys, cursor->n,
                  flag == EXT_PLAN_VECTORS ? cursor->vectors : NULL, NULL,
                  flag == EXT_PLAN_VERSIONS ? cursor->versions : NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  return rc == SQLITE_OK ? rc : ext_vtab_error(&table->base, rc, err);
}

/* Returns vector column i, a part of the row. */
static int vector_column(struct ext_cursor *cursor, sqlite3_context *context,
                         uint32_t i) {
  const struct ext_options *options =
      &ext_vtab(ext_cursor_table(cursor))->options;
  const float *row = ext_value_data(cursor->vector);
  int rc;
  if (cursor->flags & EXT_PLAN_NEAREST) {
    cursor->shows_vector = 1;
    ext_vtab(ext_cursor_table(cursor))->shown_plans |= cursor->plan_bit;
  }
  if (row && ext_vectors(options) == 1) {
    ext_value_result(context, cursor->vector);
    return SQLITE_OK;
  }
  rc = row || ext_cursor_vectors(cursor) ? SQLITE_OK
                                         : chunk_load(cursor, EXT_PLAN_VECTORS);
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
  int rc = ext_cursor_versions(cursor) ? SQLITE_OK
                                       : chunk_load(cursor, EXT_PLAN_VERSIONS);
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
  rc = cursor->has_tracks ? SQLITE_OK : chunk_load(cursor, EXT_PLAN_TRACKS);
  if (rc != SQLITE_OK)
    return rc;
  track = &cursor->tracks[cursor->at];
  sqlite3_result_int64(context, column == EXT_FREQUENCY ? track->frequency
                                                        : track->updated_at);
  return SQLITE_OK;
}

/* Clocks are in memory, so they are read row by row. */
static int clock_column(struct ext_cursor *cursor, sqlite3_context *context) {
  struct ext_table *table = ext_cursor_table(cursor);
  uint32_t clock = 0;
  char *err = NULL;
  int rc =
      emb_clocks(table->link->session, cursor->keys + cursor->at, 1, &clock);
  if (rc)
    return ext_vtab_error(&table->base, ext_link_error(table->link, rc, &err),
                          err);
  sqlite3_result_int64(context, clock);
  return SQLITE_OK;
}

/* Returns a column that is really read.  Not inlined: it saves registers, and
** columns that are not read should not pay for that. */
__attribute__((noinline)) static int
shown_column(struct ext_cursor *cursor, sqlite3_context *context, int column) {
  struct ext_table *table = ext_cursor_table(cursor);
  int vector = ext_vector_of(&ext_vtab(table)->options, column);
  int aux = ext_aux_of(&ext_vtab(table)->options, column);
  if (cursor->flags & EXT_PLAN_LAZY && ext_column_is_hidden(column))
    ext_vtab(table)->update_reads |= ext_column_bit(column);
  if (cursor->is_batch)
    ext_batch_column(cursor, context, column);
  else if (column == EXT_KEY)
    ext_key_result(context, table->link, cursor->keys[cursor->at]);
  else if (column == ext_vtab(table)->number_column)
    sqlite3_result_int64(context, cursor->keys[cursor->at]);
  else if (vector >= 0)
    return vector_column(cursor, context, (uint32_t)vector);
  else if (aux >= 0)
    return ext_aux_column(table, &cursor->aux, cursor->keys[cursor->at], aux,
                          context);
  else if (column == EXT_VERSION)
    return version_column(cursor, context);
  else if (column == EXT_CLOCK && !cursor->snap)
    return clock_column(cursor, context);
  else if (column == EXT_FREQUENCY || column == EXT_UPDATED_AT)
    return track_column(cursor, context, column);
  else if (column == EXT_DISTANCE || column == EXT_K || column == EXT_PROBES ||
           column == EXT_RECALL)
    return ext_near_column(cursor, context, column);
  else if (column == EXT_SNAPSHOT && cursor->snap)
    sqlite3_result_text(context, cursor->snap_name, -1, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

/* An UPDATE mostly asks for columns that it does not set, some 20 per row. */
int ext_cursor_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                      int column) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  emb_assert(ext_cursor_valid(cursor) && cursor->at < cursor->n);
  if (cursor->flags & EXT_PLAN_LAZY && sqlite3_vtab_nochange(context))
    return SQLITE_OK;
  /* key = ?, the most frequent column of all */
  if (column == EXT_VECTOR && cursor->vector &&
      ext_vectors(&ext_vtab(ext_cursor_table(cursor))->options) == 1) {
    ext_value_result(context, cursor->vector);
    return SQLITE_OK;
  }
  return shown_column(cursor, context, column);
}

int ext_cursor_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  emb_assert(cursor->at < cursor->n);
  *rowid = cursor->is_batch ? 0 : cursor->keys[cursor->at];
  return SQLITE_OK;
}
