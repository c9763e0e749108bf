/* SPDX-License-Identifier: MIT
**
** settle.c -- leaves the files of a closing store compact and complete.
*/
#include "settle.h"

#include "compact.h"
#include "shorten.h"

/* Damaged extents stay; and if there is no space for compaction, only the
** checkpoint matters. */
static int tolerate_error(const struct core *core, int rc) {
  return rc == EMB_CORRUPT ||
                 (rc == EMB_FULL && !atomic_load(&core->log.failed))
             ? EMB_OK
             : rc;
}

/* Leaves the files compact and complete.  As compact as during writes: closing
** must not take long. */
int settle_files(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct space space;
  int did = 1, rc = EMB_OK;
  pthread_mutex_lock(&core->ckpt_lock);
  while (!rc && did) {
    space_measure(core, &space);
    did = 0;
    if (space_wasted(core, &space, 0)) {
      rc = core_flush_all(core, 0, NULL, err);
      rc = rc ? rc : compact__one(core, store->work_slot, 0, &did, err);
      if (!rc && did && space_freeable(core, &space)) {
        rc =
            checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
      }
    }
  }
  rc = tolerate_error(core, rc);
  space_measure(core, &space);
  if (!rc && shorten__due(core, space.dead)) {
    /* Frees dead extents first, so that there are slots to move others to. */
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    for (did = !rc; !rc && did;) {
      did = 0;
      rc = shorten__space(store, &did, err);
    }
    rc = tolerate_error(core, rc);
  }
  rc = rc ? rc
          : checkpoint_take(core, store->work_slot, &store->checkpoint, 1, err);
  pthread_mutex_unlock(&core->ckpt_lock);
  if (!rc) {
    pthread_mutex_lock(&core->flush_lock);
    log_trim(&core->log, 1, NULL);
    pthread_mutex_unlock(&core->flush_lock);
  }
  return rc;
}
