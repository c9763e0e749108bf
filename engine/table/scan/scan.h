/* SPDX-License-Identifier: MIT
**
** scan.h -- private to scan.c (storage order) and order.c (key order).
*/
#ifndef EMB_SCAN_H
#define EMB_SCAN_H

#include "engine/table/txn/txn.h"

#define SCAN_BATCH 64

struct emb_scan {
  struct link *link; /* first member; NULL */
  emb_session *s;
  int order;
  int64_t lo, hi;
  int held;       /* result of hold_begin, for hold_end */
  uint64_t loads; /* the store's, when the scan's hold began */

  /* storage order */
  struct scan_watch watch;
  int64_t batch[SCAN_BATCH]; /* keys that moved, being looked up */
  uint32_t batch_keys;
  uint64_t page;          /* next page to look at, */
  uint32_t slot;          /* from this slot on */
  char *extent;           /* one extent read from disk */
  uint64_t extent_no;     /* its number; 0: none */
  uint64_t extent_offset; /* its offset in the file when read */
  uint64_t extent_to;     /* pages below were read into it */
  uint64_t sound_to;      /* unreadable pages below hold nothing live */
  int64_t *row_keys;      /* live records of one page */
  uint64_t *row_versions;
  uint8_t *row_ops; /* of a delta: EMB_DELTA_* */
  char *row_values;
  uint32_t row_bytes; /* per row: the vectors, or the whole stored value */
  uint32_t rows, row_at;

  /* A delta (delta.c): the committed rows with a version above `since`.  Keys
  ** in pages of deletions are rows with version 0, unless the scan also finds a
  ** record of the key. */
  int changes;
  uint64_t since;
  const struct consumer *consumer; /* NULL: without deletions */

  /* key order: keys are compared after ~ for DESC, which reverses them */
  int64_t *keys;
  uint64_t key_room, key_count, key_at;
  int64_t last;  /* last key delivered, if started */
  uint32_t part; /* EMB_SCAN_KEYS: partition of the index to read next */
  int started, exhausted;
  uint64_t block; /* keys per selection pass */
};

/* Only in self-checking builds: between two calls. */
int scan_valid(const emb_scan *scan);

/* The arrays of emb_scan_next_rows, from row `at` on. */
static inline emb_rows scan_rows_from(const emb_scan *scan, const emb_rows *to,
                                      size_t at) {
  uint32_t dim = scan->s->core->layout.dim;
  return (emb_rows){.keys = to->keys + at,
                    .vectors = to->vectors ? to->vectors + at * dim : NULL,
                    .versions = to->versions ? to->versions + at : NULL,
                    .tracks = to->tracks ? to->tracks + at : NULL};
}

/* Storage order, for delta.c.  Allocates buffers for rows of row_bytes bytes;
** EMB_NOMEM. */
int scan_buffers(emb_scan *scan, uint32_t row_bytes);
void scan_free_buffers(emb_scan *scan);
/* Does all of emb_scan_close except freeing the scan itself. */
void scan_finish(emb_scan *scan);
/* Looks at pages until there is a row, at most `most` rows, or no page is
** left. */
int scan_fill(emb_scan *scan, size_t most);
/* Is the record at this log address the one that the session sees for its key?
** Inside the epoch. */
int scan_sees_record(emb_session *s, int64_t key, uint64_t address);
/* Fills scan->batch with more of the keys that moved away. */
int scan_take_moved(emb_scan *scan);
/* Returns an error if the scan would be incomplete. */
int scan_ended(emb_scan *scan);

int keys__next(emb_scan *scan, size_t max, int64_t *keys, size_t *n);
int order__next(emb_scan *scan, size_t max, const emb_rows *to, size_t *n);

#endif
