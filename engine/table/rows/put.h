/* SPDX-License-Identifier: MIT
**
** put.h -- immediate writes, for emb_put and for batches written in the
** background (async.c, job.c).
*/
#ifndef EMB_ROWS_PUT_H
#define EMB_ROWS_PUT_H

#include "change.h"

/* Writes rows whose elements have been checked. */
int put_rows(emb_session *s, struct write_batch *batch, const float *vectors);

#endif
