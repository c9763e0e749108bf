/* SPDX-License-Identifier: MIT
**
** step.c -- runs the background tasks (jobs/tasks.c).
**
**   emb_step          one pass of each lane, and one piece of an asynchronous
**                     batch
**   core->flush       LANE_FLUSH, when it is woken, and twice a second while
**                     anything changes
**   core->work        LANE_WORK while it has more work, then LANE_AFTER; again
**                     immediately while LANE_AFTER has more, else after a
**                     pause, which grows while passes fail (tasks.c)
**
** The last two run on threads that all stores of the process share
** (process/process.h), a piece at a time.
**
** REST              Work that finds nothing changed and nothing due rests
**                   until that changes: it sets its bit in core->resting,
**                   looks once more, and returns.  After each change the
**                   writer checks whether work rests, and wakes it
**                   (core_changed).  So neither an idle store nor a store
**                   owned by another process wakes a processor.
*/
#include "engine/storage/ckpt/identity.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/jobs/job.h"
#include "step.h"
#include "engine/features/warmup/warm.h"

#include <string.h>

#define FLUSH_PAUSE_MS 500

static int flush_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  int some = 0;
  int rc = core_make_room(&store->core, store->flush_slot, &some, err);
  some |= rc == EMB_OK && frames_populate(&store->core.frames);
  *did = some ? PIECE_MORE : PIECE_NONE;
  return rc;
}

static const struct task task_flush = {
    TASK_NAMED("flush"),
    .lane = LANE_FLUSH,
    .run = flush_run,
};

/* Checks that the files are still the owner's: part of flushing, while anything
** changes. */
static int identity_due(struct pass *pass) {
  _Atomic uint64_t *looked_us = pass->state; /* of many threads; relaxed */
  emb_store *store = pass->store;
  struct env *env = store->core.env;
  return tasks_may_work(store) && !store->core.temporary &&
         !atomic_load(&store->dropped) &&
         (!pass->by_thread ||
          env->now_us(env) -
                  atomic_load_explicit(looked_us, memory_order_relaxed) >=
              FLUSH_PAUSE_MS * 1000);
}

static int identity_run(struct pass *pass, enum outcome *did, emb_err *err) {
  struct core *core = &pass->store->core;
  atomic_store_explicit((_Atomic uint64_t *)pass->state,
                        core->env->now_us(core->env), memory_order_relaxed);
  *did = PIECE_NONE;
  return identity_check(core, err);
}

static const struct task task_identity = {
    TASK_NAMED("identity"),
    .lane = LANE_FLUSH,
    .due = identity_due,
    .run = identity_run,
};

int emb_step(emb_store *store, int *more) {
  int more_flush = 0, more_jobs = 0, more_work = 0, more_after = 0;
  int rc = store_check(store, NULL);
  rc = rc ? rc : tasks_pass(store, LANE_FLUSH, 0, &more_flush, NULL);
  rc = rc ? rc : job_step(store, &more_jobs, NULL);
  rc = rc ? rc : tasks_pass(store, LANE_WORK, 0, &more_work, NULL);
  rc = rc ? rc : tasks_pass(store, LANE_AFTER, 0, &more_after, NULL);
  *more = more_flush | more_jobs | more_work | more_after;
  return rc;
}

/* core->step, for a call that waits in a store without threads. */
static int step_once(struct core *core, int *more, emb_err *err) {
  emb_assert(core->step_mode);
  return tasks_pass((emb_store *)(void *)core, LANE_FLUSH, 0, more, err);
}

/* ---- in the background --------------------------------------------------- */

/* Has nothing changed since the last look, and is no incremental work left? */
static int flush_may_rest(emb_store *store) {
  struct core *core = &store->core;
  struct flush_state now = {atomic_load(&core->version),
                            atomic_load(&core->log.tail),
                            atomic_load(&store->own.loaded),
                            atomic_load(&core->counters.cache_admitted)};
  struct flush_state *last = &step_of(store)->last;
  int same = memcmp(&now, last, sizeof now) == 0;
  *last = now;
  return same && !frames_excess(&core->frames) &&
         !index_has_retired(&core->index);
}

static uint64_t step_flush(void *arg) {
  emb_store *store = arg;
  struct core *core = &store->core;
  struct env *env = core->env;
  int more = 1;
  atomic_fetch_and(&core->resting, ~(uint32_t)REST_FLUSH);
  while (more) {
    tasks_pass(store, LANE_FLUSH, 1, &more, NULL);
  }
  atomic_fetch_or(&core->resting, REST_FLUSH);
  if (flush_may_rest(store)) {
    return BACKGROUND_NEVER;
  }
  atomic_fetch_and(&core->resting, ~(uint32_t)REST_FLUSH);
  return env->now_us(env) + FLUSH_PAUSE_MS * 1000;
}

/* Returns the time when there may be work to do. */
static uint64_t work_rest(emb_store *store) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint32_t rest = REST_WORK;
  uint64_t now = env->now_us(env), pause_us;
  if (!atomic_load(&store->remote.links) && !tasks_were_roused(store, now) &&
      !EMB_SEED(SEED_CALL_DOES_NOT_ROUSE)) {
    rest |= REST_CALLS;
  }
  atomic_fetch_or(&core->resting, rest);
  uint64_t us = tasks_rest_us(store, &pause_us);
  if (us == 0) {
    atomic_fetch_and(&core->resting, ~rest);
    rest = 0;
    us = pause_us;
  }
  step_of(store)->rest = rest;
  return us == TASKS_NEVER ? BACKGROUND_NEVER : env->now_us(env) + us;
}

/* Ends the rest before this run, and notes whether a change ended it. */
static void end_rest(emb_store *store) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint32_t rest = step_of(store)->rest;
  if (rest && !(atomic_load(&core->resting) & rest)) {
    store->tasks.roused_us = env->now_us(env);
  }
  atomic_fetch_and(&core->resting, ~rest);
  step_of(store)->rest = 0;
}

static uint64_t step_work(void *arg) {
  emb_store *store = arg;
  int more = 0;
  end_rest(store);
  if (!step_of(store)->has_begun) {
    step_of(store)->has_begun = 1;
    /* A process that ends after one statement must not read a large table. */
    if (warm_is_small(store)) {
      tasks_pass(store, LANE_AFTER, 1, &more, NULL);
    }
    if (!more) {
      return work_rest(store);
    }
  }
  if (core_stopping(&store->core)) {
    return BACKGROUND_NEVER;
  }
  if (tasks_pass(store, LANE_WORK, 1, &more, NULL) == EMB_OK && more) {
    return 0;
  }
  tasks_pass(store, LANE_AFTER, 1, &more, NULL);
  return more ? 0 : work_rest(store);
}

int step_start(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  if (core->step_mode) {
    return EMB_OK;
  }
  emb_assert(!core->stopping);
  emb_assert(!step_of(store)->has_begun && !step_of(store)->rest);
  int os = background_start(&core->flush, core->process, BACKGROUND_FLUSH,
                            step_flush, store);
  os = os ? os
          : background_start(&core->work, core->process, BACKGROUND_WORK,
                             step_work, store);
  if (os) {
    return err_os(err, EMB_NOMEM, os, "cannot start a thread");
  }
  background_wake(&core->flush);
  background_wake(&core->work);
  return EMB_OK;
}

void step_stop(emb_store *store) {
  struct core *core = &store->core;
  emb_assert(epoch_outside()); /* E1: it waits for work in flight */
  pthread_mutex_lock(&core->wake_lock);
  core->stopping = 1;
  pthread_cond_broadcast(&core->stopped);
  pthread_mutex_unlock(&core->wake_lock);
  background_end(&core->work); /* may wait for core->flush */
  background_end(&core->flush);
}

static int step_init(emb_store *store, emb_err *err) {
  (void)err;
  store->core.step = step_once;
  return EMB_OK;
}

const struct feature feature_background = {
    .name = "background",
    .state_bytes = sizeof(struct background_step),
    .tasks = FEATURE_TASKS(&task_flush, &task_identity),
    .init = step_init,
};
