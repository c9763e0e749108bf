/* SPDX-License-Identifier: MIT
**
** delta.h -- private to this folder: a delta being read, and the common parts
** of its files.
*/
#ifndef EMB_DELTA_H
#define EMB_DELTA_H

#include "engine/storage/consumer/gone.h"
#include "engine/storage/pack/pack.h"
#include "engine/table/scan/scan.h"

struct emb_delta {
  emb_scan scan;
  struct consumer consumer; /* as of the beginning */
  struct mark mark;
  struct gone gone; /* deletions read so far */
  struct hold hold;
  int held, complete;
  int ahead;  /* rows read but not delivered yet are newer than the mark */
  int failed; /* reading failed, and can no longer complete */
};

/* Is an open delta that has not failed in one of its states?  Only in
** self-checking builds. */
int delta_valid(const emb_delta *delta);

/* Destination of rows; all except keys and ops may be NULL. */
struct delta_rows {
  int64_t *keys;
  uint8_t *ops;
  float *vectors;
  uint64_t *versions;
  char *states;
  char *values; /* in stored form, value_bytes for each row */
};

/* Reads the next rows, which are durable.  *n = 0: there are no more, and only
** delta_complete remains; after it the delta may be acknowledged. */
int delta__read(emb_delta *delta, size_t max, const struct delta_rows *rows,
                size_t *n);
int delta_complete(emb_delta *delta);
/* As above, together with the effect of `last`: it is called when only the disk
** can still fail, and if it fails the delta is not complete. */
int delta__complete_with(emb_delta *delta, int (*last)(void *arg), void *arg);

/* Begins a call; afterwards the process owns the store. */
int delta__begin_call(emb_session *s);
void delta__init_scan(emb_session *s, emb_scan *scan);
/* Keeps the records that any mark taken from now on will need. */
void delta__hold(emb_session *s, struct hold *hold);
/* Takes a mark, and opens the scan that ends there. */
int delta__take_mark(emb_session *s, emb_scan *scan, struct mark *mark,
                     uint64_t *first);

/* Writes a table's column names as a file has them: a name that is too long is
** cut and has a hash. */
void delta__label(const char *columns, char label[PACK_NAME_BYTES]);

#endif
