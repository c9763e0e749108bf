/* SPDX-License-Identifier: MIT
**
** delta.h -- private to this folder: a delta that is being read, and what its
** files have in common.
*/
#ifndef EMB_DELTA_H
#define EMB_DELTA_H

#include "engine/storage/consumer/gone.h"
#include "engine/storage/pack/pack.h"
#include "engine/table/scan/scan.h"

struct emb_delta {
  emb_scan scan;
  struct consumer consumer; /* as it was at the beginning */
  struct mark mark;
  struct gone gone; /* deletions that were passed */
  struct hold hold;
  int held, complete;
  int failed; /* it broke off, and is not complete any more */
};

/* Where rows go; all but keys and ops may be NULL. */
struct delta_rows {
  int64_t *keys;
  uint8_t *ops;
  float *vectors;
  uint64_t *versions;
  char *states;
  char *values; /* as they are stored, value_bytes for each row */
};

/* The next rows, durable; *n = 0: that was all, and there is nothing left to do
** but delta_complete, after which the delta may be acknowledged. */
int delta__read(emb_delta *delta, size_t max, const struct delta_rows *rows,
                size_t *n);
int delta_complete(emb_delta *delta);
/* The same, and what `last` does comes with it: it is called when nothing but
** the disk can fail any more, and if it fails the delta is not complete. */
int delta__complete_with(emb_delta *delta, int (*last)(void *arg), void *arg);

/* First line of a call; the process owns the store after it. */
int delta__begin_call(emb_session *s);
void delta__init_scan(emb_session *s, emb_scan *scan);
/* Keeps what a mark that is taken from now on will need. */
void delta__hold(emb_session *s, struct hold *hold);
/* Takes a mark; the scan, which then ends there, is open. */
int delta__take_mark(emb_session *s, emb_scan *scan, struct mark *mark,
                     uint64_t *first);

/* The names of a table's columns as a file says them: what is too long is cut
** and has a hash. */
void delta__label(const char *columns, char label[PACK_NAME_BYTES]);

#endif
