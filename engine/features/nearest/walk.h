/* SPDX-License-Identifier: MIT
**
** walk.h -- every row of the table once, some at a time, for the task that
** maintains the index: to fill its lists (build.c), and to find the true
** neighbours of sample queries (measure.c).
**
** The owner scans the table in storage order.  In another process an open scan
** would keep it from seeing a newer checkpoint, so rows are read by key, in
** storage order within each partition of the store's key index.
*/
#ifndef EMB_NEAREST_WALK_H
#define EMB_NEAREST_WALK_H

#include "engine/storage/ckpt/blocks.h"
#include "engine/table/scan/scan.h"
#include "engine/table/session/session.h"

struct nearest_index;

struct walk {
  emb_scan *scan;       /* the owner's */
  struct gather gather; /* keys of a part of the store's index */
  uint32_t part;        /* number of the next part */
  uint64_t gathered;    /* number of keys in `gather` done */
};

/* Reads the current rows of n keys, at most IVF_ROWS: x->rows, x->found.  In a
** read-only process these are the rows of the loaded checkpoint. */
int walk__read_rows(struct nearest_index *x, const int64_t *keys, size_t n);
/* `walk` is zeroed.  Must be followed by walk__end. */
int walk__begin(struct nearest_index *x, struct walk *walk);
/* Reads some rows, at most IVF_ROWS, into keys and x->rows.  *done: there are
** no more. */
int walk__next(struct nearest_index *x, struct walk *walk, int64_t *keys,
               size_t *n, int *done);
void walk__end(struct nearest_index *x, struct walk *walk);

#endif
