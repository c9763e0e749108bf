/* SPDX-License-Identifier: MIT
**
** step.h -- background work; see step.c.
*/
#ifndef EMB_STORE_STEP_H
#define EMB_STORE_STEP_H

#include "store.h"

/* Checkpoint or compaction, if due. */
int step_work(emb_store *store, int *more, emb_err *err);
/* The file is longer than it needs to be.  Under ckpt_lock. */
int step_shorten(emb_store *store, int *did, emb_err *err);
/* Seal, flush, evict, if due. */
int step_flush(emb_store *store, int *more, emb_err *err);
int step_once(struct core *core, int *more, emb_err *err);
int step_stopping(struct core *core);

void step_flush_thread(void *store);
void step_work_thread(void *store);

#endif
