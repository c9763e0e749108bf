/* SPDX-License-Identifier: MIT
**
** cold.h -- records on disk; see cold.c.
*/
#ifndef EMB_JOBS_COLD_H
#define EMB_JOBS_COLD_H

#include "engine/table/session/session.h"

struct cold_batch {    /* the records of s->cold[0..n) */
  const int64_t *keys; /* keys[row] of each */
  uint32_t n;
  int promote; /* offer them to the cache */
  cold_use use;
  void *arg;
};
/* Reads records.  Rows whose record moved during the read are appended to
** s->rows (*again counts them) and must be looked up again. */
int cold_read(emb_session *s, const struct cold_batch *batch, uint32_t *again);

#endif
