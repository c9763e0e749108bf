/* SPDX-License-Identifier: MIT
**
** maintain.c -- background work done at a caller's request: emb_checkpoint and
** emb_optimize.
*/
#include "compact.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/session/session.h"

/* Under ckpt_lock. */
static int take_checkpoint(emb_session *s) {
  struct checkpoint *checkpoint = &s->store->checkpoint;
  int rc = tasks_release(s->store, &s->err);
  checkpoint->interrupt = s->waits.interrupt;
  checkpoint->interrupt_arg = s->waits.interrupt_arg;
  rc = rc ? rc
          : checkpoint_take(s->core, s->store->work_slot, checkpoint, 0,
                            &s->err);
  checkpoint->interrupt = NULL;
  return rc;
}

int local_checkpoint(emb_session *s) {
  int rc = begin_work(s, "checkpoint");
  int begun = rc ? 0 : progress_begin(s, "checkpoint", "rows", 0);
  if (!rc) {
    rc = session_lock(s, &s->core->ckpt_lock);
  }
  if (!rc) {
    progress_of(s, begun, (uint64_t)atomic_load(&s->core->count));
    rc = take_checkpoint(s);
    pthread_mutex_unlock(&s->core->ckpt_lock);
  }
  progress_end(s, begun);
  return rc;
}

/* Returns the space that the best possible compaction would give back. */
static uint64_t space_to_gain(const struct space *space) {
  uint64_t used = space->used - space->dead;
  return used > space->live ? used - space->live : 0;
}

int local_optimize(emb_session *s) {
  int rc = begin_work(s, "optimize");
  struct core *core = s->core;
  int did = 1, begun = rc ? 0 : progress_begin(s, "optimize", "bytes", 0);
  uint64_t most = 0;
  /* Records only in memory can be compacted once they are on disk. */
  rc = rc ? rc : core_flush_all(core, 0, NULL, &s->err);
  while (!rc && did) {
    struct space space;
    rc = session_lock(s, &core->ckpt_lock);
    if (rc) {
      break;
    }
    space_measure(core, &space);
    uint64_t left = space_to_gain(&space);
    most = left > most ? left : most;
    progress_of(s, begun, most);
    progress_at(s, begun, most - left);
    did = 0;
    if (space.used - space.dead > space.live + space.live / 16) {
      rc = compact__one(core, s->store->work_slot, 1, &did, &s->err);
    }
    if (!rc && did && space_freeable(core, &space)) {
      rc = take_checkpoint(s);
    }
    pthread_mutex_unlock(&core->ckpt_lock);
    rc = rc ? rc : session_interrupted(s);
  }
  rc = rc ? rc : local_checkpoint(s);
  rc = rc ? rc : session_lock(s, &core->ckpt_lock);
  if (!rc) {
    /* Extents moved within the file are written under ckpt_lock. */
    pthread_mutex_lock(&core->flush_lock);
    rc = log_trim(&core->log, 1, &s->err);
    pthread_mutex_unlock(&core->flush_lock);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  progress_end(s, begun);
  return rc;
}
