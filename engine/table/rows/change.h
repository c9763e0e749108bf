/* SPDX-License-Identifier: MIT
**
** change.h -- immediate writes that need the old value, for the calls of emb.h
** and for put.c, where a record holds more than a Put says.
*/
#ifndef EMB_ROWS_CHANGE_H
#define EMB_ROWS_CHANGE_H

#include "value.h"

/* Rows that are to be written at once, and what becomes of them. */
struct write_batch {
  const int64_t *keys;
  size_t n;
  uint8_t *found;     /* as for emb_rmw, or NULL; nothing of put_rows */
  uint64_t *versions; /* or NULL */
  uint32_t call;      /* number of the call that gives Gets back, 0: none */
  int wait;           /* 0: stops, with EMB_OK, where it would have to wait for
                         memory or for a key */
  size_t done;        /* set: rows written, after an error, too */
};

int change__rows(emb_session *s, struct write_batch *batch,
                 const struct row_change *change);

#endif
