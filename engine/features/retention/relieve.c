/* SPDX-License-Identifier: MIT
**
** relieve.c -- makes space for a writer that finds the disk full.
*/
#include "relieve.h"
#include "engine/table/jobs/tasks.h"

#include "compact.h"
#include "engine/storage/kernel/reserve.h"

/* Maximum rounds of relief for one call. */
#define ROUNDS 16

/* Compacts as much as the reserved file slots allow, and returns the bytes of
** dead extents.  Under ckpt_lock. */
static uint64_t make_dead(emb_store *store) {
  struct core *core = &store->core;
  struct space space;
  int did = 1;
  pthread_mutex_lock(&core->log.lock);
  uint64_t goal = (core->log.keep + UINT64_C(2)) * core->layout.extent_bytes;
  pthread_mutex_unlock(&core->log.lock);
  int rc = core_flush_all(core, 0, NULL, NULL);
  space_measure(core, &space);
  while (!rc && did && space.dead < goal) {
    /* EMB_FULL: the reserve is used up. */
    rc = compact__one(core, store->work_slot, 0, &did, NULL);
    rc = rc ? rc : core_flush_all(core, 0, NULL, NULL);
    space_measure(core, &space);
  }
  return space.dead;
}

/* core->relieve.  Compacts sparse extents, using the reserved file slots, and
** then frees dead ones, until there is a file slot. */
void relieve__space(struct core *core, int (*interrupt)(void *), void *arg) {
  emb_store *store = (emb_store *)(void *)core;
  int full = 1, rc = EMB_OK;
  if (!tasks_may_work(store)) {
    return;
  }
  while (pthread_mutex_trylock(&core->ckpt_lock)) {
    if (interrupt && interrupt(arg)) {
      return;
    }
    core->env->sleep_us(core->env, 1000);
  }
  rc = tasks_release(store, NULL);
  for (int i = 0; !rc && full && i < ROUNDS && !(interrupt && interrupt(arg));
       i++) {
    if (!make_dead(store)) {
      break;
    }
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, NULL);
    full = !rc && reserve_file_slots(core, 0, NULL) != EMB_OK;
  }
  pthread_mutex_unlock(&core->ckpt_lock);
}
