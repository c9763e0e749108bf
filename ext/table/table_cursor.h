/* SPDX-License-Identifier: MIT
**
** table_cursor.h -- one scan: what chunk.c, fill.c, batch.c, nearest.c,
** cursor.c and filter.c share.
*/
#ifndef EMB_EXT_TABLE_CURSOR_H
#define EMB_EXT_TABLE_CURSOR_H

#include "aux_columns.h"

/* A search for neighbours (nearest.c). */
struct ext_near {
  emb_nearest_how how;
  struct ext_reals within; /* the condition on the distance */
  float *query;            /* a copy: the search continues after xFilter */
  size_t query_size;
  int is_null; /* MATCH NULL */
  int64_t k;   /* 0: open */
  int64_t limit, offset;

  emb_filter *keys_set; /* many keys to search among, or NULL */

  /* Keys and distances from the engine; the first `at` were put in chunks. */
  int64_t *keys;
  double *distances;
  size_t n, at;
  size_t size; /* bytes of these arrays, which are one block */
  int is_last; /* the engine has no more rows */

  int plan;     /* the cursor's initial flags */
  int is_known; /* cursor->shows_vector says whether vectors are needed */

  /* Open: where the last request ended. */
  size_t next; /* rows to ask for next */
  size_t ties; /* rows at the distance of the last one */
  double last_distance;
  int64_t last_key;
  int has_last;
};

struct ext_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  uint64_t statement;       /* the statement that opened it (lease.c) */
  int flags;                /* of the plan, plus columns needed since */
  int lazy;                 /* flags to restore for each chunk, or 0 */
  int peek;                 /* mode='peek' */
  int counts;               /* reads are Gets: lists and batches, not peek */
  int is_one;               /* the current row is the only one */
  int shows_vector;         /* search: vectors are needed */
  uint64_t plan_bit;        /* search: its plan's bit in shown_plans */

  /* The chunk. */
  size_t n, at;          /* number of rows, and the current one */
  size_t rows, rows_max; /* rows in the next chunk, and the maximum */
  size_t capacity;       /* of the arrays in rows */
  int64_t *keys;
  int is_update;      /* xFilter was called for an UPDATE */
  int query_only;     /* PRAGMA query_only, asked if lookups insert */
  float *vectors;     /* with EXT_PLAN_VECTORS */
  uint64_t *versions; /* with EXT_PLAN_VERSIONS */
  emb_track *tracks;  /* with EXT_PLAN_TRACKS, ... */
  int has_tracks;     /* ... once they were read */
  double *distances;  /* with EXT_PLAN_NEAREST */
  uint8_t *found;     /* for lists */

  /* The buffers for the vector of key = ?.  Two, because SQLite still holds the
  ** previous row's vector when a join asks for the next; `vector` is one of
  ** them, or NULL if the row is in the chunk's arrays. */
  struct ext_value *vector, *vector_pool[2];

  /* Where the rows come from. */
  struct ext_link *link; /* set while counted in link->cursors */
  emb_scan *scan;
  emb_snap *snap; /* with snapshot = ?, also for lists and batches */
  char *snap_name;
  int snap_scan; /* scan the snapshot from snap_lo to snap_hi */
  int64_t snap_lo, snap_hi;
  int64_t *list;
  size_t list_n, list_at, list_capacity;
  struct ext_near *near;   /* NULL before the first search; in use with
                              EXT_PLAN_NEAREST, and the list restricts it */
  struct ext_aux_scan aux; /* auxiliary columns */
  struct ext_value *batch_vectors, *batch_found, *batch_versions;
  int is_batch;
};

static inline struct ext_table *ext_cursor_table(struct ext_cursor *cursor) {
  return (struct ext_table *)cursor->base.pVtab;
}

/* The chunk's arrays, or NULL if the scan does not read these columns. */
static inline float *ext_cursor_vectors(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VECTORS ? cursor->vectors : NULL;
}
static inline uint64_t *ext_cursor_versions(const struct ext_cursor *cursor) {
  return cursor->flags & EXT_PLAN_VERSIONS ? cursor->versions : NULL;
}

/* ---- chunk.c ------------------------------------------------------------- */

/* Makes room for `rows` rows; 0 if memory runs out. */
int ext_cursor_reserve(struct ext_cursor *cursor, size_t rows);
/* Reads the row of key = ?, if it exists.  The table must have no bound. */
int ext_cursor_read_key(struct ext_cursor *cursor, int64_t key, char **err);
/* Removes the rows that were not found from the first `asked` rows. */
void ext_cursor_compact(struct ext_cursor *cursor, size_t asked);
/* emb_get or emb_peek, as the statement requires. */
int ext_cursor_read(struct ext_cursor *cursor, const int64_t *keys, size_t n,
                    const emb_rows *to, char **err);

/* Ascending, for qsort. */
int ext_keys_order(const void *a, const void *b);

/* ---- fill.c -------------------------------------------------------------- */

/* Reads the next chunk, empty at the end. */
int ext_cursor_fill(struct ext_cursor *cursor, char **err);

/* ---- batch.c ------------------------------------------------------------- */

int ext_batch_read(struct ext_cursor *cursor, sqlite3_value *keys, char **err);
void ext_batch_drop(struct ext_cursor *cursor);
void ext_batch_column(const struct ext_cursor *cursor, sqlite3_context *context,
                      int column);

/* ---- nearest.c ----------------------------------------------------------- */

/* Begins a search: SQLITE_ERROR if nothing limits the number of rows. */
int ext_near_start(struct ext_cursor *cursor, const char *plan, char **err);
/* Takes the argument of a plan letter that only a search has. */
int ext_near_argument(struct ext_cursor *cursor, char letter,
                      sqlite3_value *value, char **err);
/* mode = 'exact'. */
void ext_near_exact(struct ext_cursor *cursor);
/* Restricts the search to keys in the range and, with has_list, in the list. */
void ext_near_among(struct ext_cursor *cursor, const struct ext_range *range,
                    int has_list);
/* Restricts the search by conditions on auxiliary columns. */
int ext_near_aux(struct ext_cursor *cursor, char **err);
/* Reads the next chunk, empty at the end. */
int ext_near_fill(struct ext_cursor *cursor, char **err);
/* Reads the current row's vector, which was not read with the chunk.  The row
** becomes the whole chunk. */
int ext_near_load(struct ext_cursor *cursor, char **err);
int ext_near_column(struct ext_cursor *cursor, sqlite3_context *context,
                    int column);
/* May a closed cursor keep the search? */
int ext_near_is_small(const struct ext_near *near);
void ext_near_free(struct ext_near *near);

/* ---- appear.c ------------------------------------------------------------ */

/* Call before the rows of a plan are read: calls ext_keys_look for the texts
** compared with the key, as far as possible now.  *keys must be all zeros
** before; free it with ext_keys_free. */
int ext_cursor_look(struct ext_cursor *cursor, const char *plan,
                    sqlite3_value **argv, struct ext_keys *keys, char **err);

/* ---- cursor.c ------------------------------------------------------------ */

/* Resets the cursor to no rows. */
void ext_cursor_rewind(struct ext_cursor *cursor);

/* ---- cursor_valid.c, only in self-checking builds ------------------------ */

/* An open cursor; its list of keys, before it is read; its search, before the
** next chunk; a closed cursor that the table object keeps. */
int ext_cursor_valid(const struct ext_cursor *cursor);
int ext_cursor_list_valid(const struct ext_cursor *cursor);
int ext_near_valid(const struct ext_cursor *cursor);
int ext_cursor_spare_valid(const struct ext_cursor *cursor);

#endif
