/* SPDX-License-Identifier: MIT
**
** fill.c -- reads a cursor's next chunk from a list of keys, a scan, a snapshot
** or a search for neighbours.
**
** Chunks grow from a few rows to KEYS_BYTES (filter.c), so that LIMIT 1 reads
** little.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

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
    ext_cursor_compact(cursor, rows);
  }
  return SQLITE_OK;
}

static void grow_chunk(struct ext_cursor *cursor) {
  cursor->rows *= 4;
  if (cursor->rows > cursor->rows_max)
    cursor->rows = cursor->rows_max;
}

/* Reads the next rows of a snapshot, skipping those outside the range. */
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
    ext_cursor_compact(cursor, got);
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
  if (cursor->flags & EXT_PLAN_NEAREST)
    return ext_near_fill(cursor, err);
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
