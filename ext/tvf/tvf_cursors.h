/* SPDX-License-Identifier: MIT
**
** tvf_cursors.h -- private to tvf/: cursors with states of their own, which
** tvf_valid.c checks.
*/
#ifndef EMB_EXT_TVF_CURSORS_H
#define EMB_EXT_TVF_CURSORS_H

#include "tvf.h"

/* ---- nearest.c ----------------------------------------------------------- */

struct nearest_cursor {
  struct ext_tvf_cursor base; /* must be first */
  struct nearest_options with;
  int metric;
  uint32_t dim, row_dim; /* of a compared vector, and of a row */
  size_t first;          /* first compared element of a row */
  size_t k;
  size_t block;    /* queries per block */
  uint64_t total;  /* queries, as estimated at the start */
  uint64_t number; /* queries answered so far */

  struct ext_floats given; /* all queries, unless they are rows: */
  int are_rows;
  emb_scan *scan;
  emb_snap *scanned; /* a snapshot's rows */
  emb_snap *snap;    /* the snapshot to search; NULL: the table */
  emb_filter *among; /* NULL: all rows */

  /* The current block. */
  float *queries;   /* NULL if they are in `given` */
  int64_t *numbers; /* of each query: its key, or its number */
  int64_t *keys;    /* k per query */
  double *distances;
  size_t *counts;
  size_t n;             /* queries */
  size_t at, first_row; /* the query of the current row, and its first row */
};

/* A search between two blocks.  Only in self-checking builds. */
int ext_nearest_cursor_valid(const struct nearest_cursor *cursor);

/* ---- sample.c ------------------------------------------------------------ */

#define SAMPLE_BLOCK 256 /* vectors per read */

struct sample_cursor {
  struct ext_tvf_cursor base; /* must be first */
  uint32_t dim;
  int64_t *keys;
  double *probabilities, *expected_counts;
  float *vectors; /* of the rows from `from` to `end` */
  size_t from, end;
  uint8_t found[SAMPLE_BLOCK];
};

/* Only in self-checking builds. */
int ext_sample_cursor_valid(const struct sample_cursor *cursor);

/* ---- delta.c ------------------------------------------------------------- */

/* A bit of the plan for each column in use. */
enum {
  DELTA_PLAN_VECTORS = EXT_TVF_PLAN,
  DELTA_PLAN_STATES = EXT_TVF_PLAN << 1
};

/* Maximum rows, and bytes of rows, per read. */
#define DELTA_ROWS_MAX 512
#define DELTA_BYTES_MAX (1 << 20)

struct delta_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_delta *delta;
  uint64_t since, upto;
  size_t room; /* rows */
  size_t vector_bytes, state_bytes;
  int64_t *keys;
  uint8_t *ops;
  uint64_t *versions;
  float *vectors; /* NULL: not used */
  char *states;
};

/* A delta that has begun.  Only in self-checking builds. */
int ext_delta_cursor_valid(const struct delta_cursor *cursor);

#endif
