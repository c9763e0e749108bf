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

/* The last address at which a tombstone may stand. */
static inline uint64_t tombs_end(struct core *core) {
  return layout_address(&core->layout, atomic_load(&core->log.last_tomb) + 1,
                        0) -
         1;
}

/* Adds a key that was not there a moment ago, with a stored value; inside an
** epoch.  INDEX_EXISTS: it is there by now; ROW_HELD (-3): something was
** deleted meanwhile, the next slot may do; else as run_take. */
int put_new_key(emb_session *s, struct run *run, uint32_t want, int64_t key,
                uint64_t hash, const void *value, uint64_t version);

#endif
