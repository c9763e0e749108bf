/* SPDX-License-Identifier: MIT
**
** resize.c -- changes the memory budget of a store in use (emb_set_memory).
**
** README.md has the steps.  Growing holds the flush lock, and closes the epoch
** for microseconds.  Shrinking delays only sessions that wait for frames
** anyway: a writer, by a few milliseconds.
**
** FAILURE   A call fails before it changes anything; or, if the log cannot be
**           written or the caller is interrupted, it restores the old budget.
** LOCKS     budget_lock > flush_lock.
*/
#include "advice.h"
#include "engine/table/session/session.h"
#include "engine/table/store/budget.h"

/* Adds frames, and room for them in the cache's table. */
static int budget_grow(struct core *core, uint32_t count) {
  pthread_mutex_lock(&core->flush_lock);
  epoch_close(&core->epoch);
  int rc = cache_extend(&core->cache, count);
  epoch_open(&core->epoch);
  rc = rc ? rc : frames_resize(&core->frames, count);
  core_judge_anew(core);
  pthread_mutex_unlock(&core->flush_lock);
  core_signal_room(core);
  return rc;
}

static void set_count(struct core *core, uint32_t count) {
  pthread_mutex_lock(&core->flush_lock);
  if (frames_resize(&core->frames, count)) {
    /* Out of memory for all of them: keep the frames already made. */
    (void)frames_resize(&core->frames, frames_made(&core->frames));
  }
  pthread_mutex_unlock(&core->flush_lock);
  core_signal_room(core);
}

/* Works until everything above the budget has been given back. */
static int budget_drain(emb_session *s) {
  struct core *core = s->core;
  int rc = EMB_OK;
  while (!rc && frames_excess(&core->frames)) {
    int did = 0;
    rc = core_make_room(core, s->slot, &did, &s->err);
    rc = rc ? rc : session_interrupted(s);
    if (!rc && !did) {
      core->env->sleep_us(core->env, 500); /* others hold the missing frames */
    }
  }
  return rc;
}

static int resize_pool(emb_session *s, uint32_t count) {
  struct core *core = s->core;
  uint32_t before = frames_count(&core->frames);
  int rc = EMB_OK;
  if (count > before) {
    rc = budget_grow(core, count);
    return rc ? session_error(s, rc, "out of memory") : EMB_OK;
  }
  set_count(core, count);
  rc = budget_drain(s);
  if (rc && !EMB_SEED(SEED_SHRUNK_BUDGET_NOT_RESTORED)) {
    set_count(core, before);
  }
  return rc;
}

int local_set_memory(emb_session *s, uint64_t bytes) {
  struct core *core = s->core;
  uint64_t least = budget_least(&core->layout);
  int rc = session_begin(s);
  bytes = bytes ? bytes : EMB_MEMORY_DEFAULT;
  if (!rc && bytes < least) {
    rc = session_error(s, EMB_RANGE,
                       "memory of %llu bytes is too small for %s, which needs "
                       "at least %llu",
                       (unsigned long long)bytes, core->dir,
                       (unsigned long long)least);
  }
  rc = rc ? rc : budget_check(core->env, bytes, &s->err);
  rc = rc ? rc : session_lock(s, &s->store->budget_lock);
  if (rc) {
    return rc;
  }
  uint32_t before = frames_count(&core->frames);
  rc = resize_pool(s, budget_frames(&core->layout, bytes));
  if (frames_count(&core->frames) != before) {
    budget_sample(core);
  }
  advice__begin(s->store);
  core_wake(core);
  emb_check(memory_valid(s->store));
  pthread_mutex_unlock(&s->store->budget_lock);
  return rc;
}
