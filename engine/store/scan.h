/* SPDX-License-Identifier: MIT
**
** scan.h -- private to scan.c (storage order) and order.c (key order).
*/
#ifndef EMB_STORE_SCAN_H
#define EMB_STORE_SCAN_H

#include "txn.h"

#define SCAN_BATCH 64

struct emb_scan {
  emb_session *s;
  int order;
  int64_t lo, hi;

  /* storage order */
  struct scan_watch watch;
  int64_t batch[SCAN_BATCH]; /* keys that moved, being looked up */
  uint32_t batch_keys;
  uint64_t page;          /* next one to look at, */
  uint32_t slot;          /* from this slot on */
  char *extent;           /* one extent read from disk */
  uint64_t extent_no;     /* its number; 0: none */
  uint64_t extent_offset; /* where it stood in the file */
  uint64_t extent_to;     /* pages below were read into it */
  uint64_t sound_to;      /* unreadable pages below hold nothing live */
  int64_t *row_keys;      /* live records of one page */
  uint64_t *row_versions;
  char *row_values;
  uint32_t row_bytes; /* of each: the vectors, or all if the table tracks */
  uint32_t rows, row_at;

  /* key order: keys are compared after ~ for DESC, which reverses them */
  int64_t *keys;
  uint64_t key_room, key_count, key_at;
  int64_t last;  /* delivered up to here, if started */
  uint32_t part; /* EMB_SCAN_KEYS: partition of the index to read next */
  int started, exhausted;
  uint64_t block; /* keys per selection pass */
};

int keys_next(emb_scan *scan, size_t max, int64_t *keys, size_t *n);
int order_next(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
               uint64_t *versions, emb_track *tracks, size_t *n);

#endif
