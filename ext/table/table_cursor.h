/* SPDX-License-Identifier: MIT
**
** table_cursor.h -- one scan: what chunk.c, fill.c, batch.c, nearest.c,
** cursor.c and filter.c share.
*/
#ifndef EMB_EXT_TABLE_CURSOR_H
#define EMB_EXT_TABLE_CURSOR_H

#include "aux_columns.h"

/* A search for neighbours (nearest.c). */
struct ext_near;

struct ext_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  uint64_t statement;       /* that opened it (lease.c) */
  int flags;                /* of the plan, and what turned out to be needed */
  int lazy;                 /* flags to go back to with each chunk, or 0 */
  int peek;                 /* mode='peek' */
  int counts;               /* reads are Gets: lists and batches, not peek */
  int is_one;               /* there is no row after this one */
  int shows_vector;         /* of a search: vectors are needed */
  uint64_t plan_bit;        /* of a search: its plan in shown_plans */

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
  double *distances;  /* with EXT_PLAN_NEAREST */
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
  struct ext_near *near;   /* NULL until there was one; with EXT_PLAN_NEAREST it
                              goes on, and the list has the keys it is among */
  struct ext_aux_scan aux; /* auxiliary columns */
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

/* ---- chunk.c ------------------------------------------------------------- */

/* Makes room for `rows` rows; 0 without memory. */
int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows);
/* The one row of key = ?, if there is such a key; on a table without a bound.
 */
int ext_cursor_read_key(struct ext_cursor *cursor, int64_t key, char **err);
/* Closes the gaps that rows left which were not found, of so many. */
void ext_cursor_compact(struct ext_cursor *cursor, size_t asked);
/* emb_get or emb_peek, as the statement requires. */
int ext_cursor_read(struct ext_cursor *cursor, const int64_t *keys, size_t n,
                    const emb_rows *to, char **err);

/* Ascending, for qsort. */
int ext_keys_order(const void *a, const void *b);

/* ---- fill.c -------------------------------------------------------------- */

/* The next chunk; none at the end. */
int ext_cursor_fill(struct ext_cursor *cursor, char **err);

/* ---- batch.c ------------------------------------------------------------- */

int ext_batch_read(struct ext_cursor *cursor, sqlite3_value *keys, char **err);
void ext_batch_drop(struct ext_cursor *cursor);
void ext_batch_column(const struct ext_cursor *cursor, sqlite3_context *context,
                      int column);

/* ---- nearest.c ----------------------------------------------------------- */

/* Begins a search: SQLITE_ERROR if nothing says how many rows there are. */
int ext_near_start(struct ext_cursor *cursor, const char *plan, char **err);
/* The value of a letter that only a search has. */
int ext_near_argument(struct ext_cursor *cursor, char letter,
                      sqlite3_value *value, char **err);
/* mode = 'exact'. */
void ext_near_exact(struct ext_cursor *cursor);
/* Among which keys: those in range and, with has_list, in the list. */
void ext_near_among(struct ext_cursor *cursor, const struct ext_range *range,
                    int has_list);
/* Among which rows, by conditions on auxiliary columns. */
int ext_near_aux(struct ext_cursor *cursor, char **err);
/* The next chunk; none at the end. */
int ext_near_fill(struct ext_cursor *cursor, char **err);
/* The current row's vector is asked for, and was not read: reads it.  The row
** is the chunk then. */
int ext_near_load(struct ext_cursor *cursor, char **err);
int ext_near_column(struct ext_cursor *cursor, sqlite3_context *context,
                    int column);
/* Whether it may be kept, and its end. */
int ext_near_is_small(const struct ext_near *near);
void ext_near_free(struct ext_near *near);

/* ---- appear.c ------------------------------------------------------------ */

/* Before the rows of a plan are looked for: ext_keys_look for what it compares
** the key with, as far as that is possible now.  *keys is zeros before;
** ext_keys_free. */
int ext_cursor_look(struct ext_cursor *cursor, const char *plan,
                    sqlite3_value **argv, struct ext_keys *keys, char **err);

/* ---- cursor.c ------------------------------------------------------------ */

/* Back to no rows. */
void ext_cursor_rewind(struct ext_cursor *cursor);

/* ---- cursor_valid.c, for assertions: an open one ------------------------- */

int ext_cursor_valid(const struct ext_cursor *cursor);

#endif
