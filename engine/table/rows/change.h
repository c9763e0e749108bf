/* SPDX-License-Identifier: MIT
**
** change.h -- immediate writes that need the old value, for the calls of emb.h
** and for put.c when a record holds more than the Put supplies.
*/
#ifndef EMB_ROWS_CHANGE_H
#define EMB_ROWS_CHANGE_H

#include "value.h"

/* A batch of rows to write immediately, and its results. */
struct write_batch {
  const int64_t *keys;
  size_t n;
  uint8_t *found;     /* as for emb_rmw, or NULL; not set by put_rows */
  uint64_t *versions; /* or NULL */
  uint32_t call;      /* number of the call that returns leases, 0: none */
  int wait;           /* 0: stops, with EMB_OK, before it would wait for memory
                         or a key, or read the disk */
  size_t done;        /* set, also after an error: rows written */
};

int change__rows(emb_session *s, struct write_batch *batch,
                 const struct row_change *change);

#endif
