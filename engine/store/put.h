/* SPDX-License-Identifier: MIT
**
** put.h -- immediate writes, for emb_put and for batches that are written in
** the background (async.c, job.c).
*/
#ifndef EMB_STORE_PUT_H
#define EMB_STORE_PUT_H

#include "store.h"

/* Writes n rows, which have been checked.  call: number of the call that gives
** Gets back, 0: none.  wait 0: stops, with EMB_OK, where it would have to wait
** for memory or for a key.  *done: rows written, in any case. */
int put_rows(emb_session *s, const int64_t *keys, size_t n,
             const float *vectors, uint64_t *versions, uint32_t call, int wait,
             size_t *done);

#endif
