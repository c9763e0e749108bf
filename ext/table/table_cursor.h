/* SPDX-License-Identifier: MIT
**
** table_cursor.h -- one scan: what chunk.c, batch.c, cursor.c and filter.c
** share.
*/
#ifndef EMB_EXT_TABLE_CURSOR_H
#define EMB_EXT_TABLE_CURSOR_H

#include "table.h"

struct ext_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  uint64_t statement;       /* that opened it (lease.c) */
  int flags;                /* of the plan, and what turned out to be needed */
  int lazy;                 /* flags to go back to with each chunk, or 0 */
  int peek;                 /* mode='peek' */
  int counts;               /* reads are Gets: lists and batches, not peek */
  int is_one;               /* there is no row after this one */

  /* The chunk. */
  size_t n, at;          /* rows in it, and the current one */
  size_t rows, rows_max; /* asked for next, and at most */
  size_t capacity;       /* of the arrays in rows */
  int64_t *keys;
  int is_update;      /* xFilter came, of an UPDATE */
  float *vectors;     /* with EXT_PLAN_VECTORS */
  uint64_t *versions; /* with EXT_PLAN_VERSIONS */
  emb_track *tracks;  /* with EXT_PLAN_TRACKS, ... */
  int has_tracks;     /* ... once they were read */
  uint8_t *found;     /* for lists */

  /* The vector of key = ?, where it was read.  Two, because SQLite still has
  ** the one of the row before when a join asks for the next; `vector` is one
  ** of them, or NULL when the row is in the chunk's arrays. */
  struct ext_value *vector, *vector_pool[2];

  /* Where the rows come from. */
  struct ext_link *link; /* while one is counted in link->cursors */
  emb_scan *scan;
  emb_snap *snap; /* with snapshot = ?: lists and batches, too */
  char *snap_name;
  int snap_scan; /* all of it between snap_lo and snap_hi */
  int64_t snap_lo, snap_hi;
  int64_t *list;
  size_t list_n, list_at, list_capacity;
  struct ext_value *batch_vectors, *batch_found, *batch_versions;
  int is_batch;
};

static inline struct ext_table *ext_cursor_table(struct ext_cursor *cursor) {
  return (struct ext_table *)cursor->base.pVtab;
}

/* Of the chunk, where the scan reads them. */
static inline float *ext_cursor_vectors(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VECTORS ? cursor->vectors : NULL;
}
static inline uint64_t *ext_cursor_versions(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VERSIONS ? cursor->versions : NULL;
}

/* ---- chunk.c ------------------------------------------------------------ */

/* Makes room for `rows` rows; 0 without memory. */
int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows);
/* The one row of key = ?, if there is such a key; on a table without a bound.
 */
int ext_cursor_read_key(struct ext_cursor *cursor, int64_t key, char **err);
/* The next chunk; none at the end. */
int ext_cursor_fill(struct ext_cursor *cursor, char **err);
/* emb_get or emb_peek, as the statement requires. */
int ext_cursor_read(struct ext_cursor *cursor, const int64_t *keys, size_t n,
                    const emb_rows *to, char **err);

/* ---- batch.c ------------------------------------------------------------ */

int ext_batch_read(struct ext_cursor *cursor, sqlite3_value *keys, char **err);
void ext_batch_drop(struct ext_cursor *cursor);
void ext_batch_column(const struct ext_cursor *cursor, sqlite3_context *context,
                      int column);

/* ---- cursor.c ----------------------------------------------------------- */

/* Back to no rows. */
void ext_cursor_rewind(struct ext_cursor *cursor);

/* ---- cursor_valid.c, for assertions: an open one ------------------------ */

int ext_cursor_valid(const struct ext_cursor *cursor);

#endif
