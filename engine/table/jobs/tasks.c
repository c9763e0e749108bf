/* SPDX-License-Identifier: MIT
**
** tasks.c -- background work: the list of tasks, and one pass over it.
**
** Two threads drive a store; all they do is call tasks_pass in a loop (step.c).
** Without threads (EMB_OPEN_STEP), emb_step makes the same passes, so a test
** can run the same code in an order chosen by a seed.
**
** PASS      of LANE_WORK, under ckpt_lock:
**
**             1. The tasks of LANE_RELEASE free what is no longer needed.
**             2. Note whether the store is quiet, and the present moment.  Both
**                before anything is measured: a commit that ends during the
**                pass changes the moment.
**             3. Each task says whether it is a reason for a pass (wakes).  If
**                none is, and nothing was written or deleted since a pass that
**                found nothing to do (unchanged), this pass ends here.
**             4. The tasks of LANE_WORK, in list order: each task that is due
**                runs one piece.  An error ends the pass.
**             5. If no piece did anything, there was no error and the store was
**                quiet, the pass found nothing to do: its moment (2) is kept
**                for 3.  If the store was not quiet, a task may still be
**                waiting for quiet.
**
**           *more is set if a piece said PIECE_MORE and nothing failed.
** REST      A pass that found nothing to do does not cover tasks that become
**           due by time alone: each of those says when it will be due (rest).
**           Until then, or until something changes (core_changed), the thread
**           sleeps.
** FAILURE   After a failed pass the thread pauses: for PAUSE_MIN_US, doubled
**           after each further failure, up to PAUSE_MAX_US.  Writes do not end
**           the pause: they rarely change the cause of the failure, and a busy
**           table would fail twenty times a second.  A pass that does not fail
**           ends it, and so does tasks_look_again.  A store that has failed
**           (core_failed) runs no more passes of LANE_WORK.  The newest error
**           is kept for emb_stats.
** ORDER     is part of the rule: by lane, then by feature (features.def), then
**           as listed in the feature's descriptor.  Tasks that remove rows come
**           before tasks that measure space (pass_space), so a pass sees its
**           own removals.  Compaction comes before the checkpoint, which frees
**           the space of removals and compaction.  The file is shortened only
**           in a pass in which no other task did anything.
** STATE     of a task, while the store is open: TASK_STATE words, initially
**           zero, which the task reads as a structure of its own.
** METRICS   A run is counted if the task was due; a task that only finds out in
**           its run is counted if it did something.
*/
#include "engine/table/session/session.h"
#include "tasks.h"
#include "engine/table/store/metrics.h"

#include <stdio.h>
#include <string.h>

#define QUIET_US UINT64_C(1000000)
#define ROUSED_US UINT64_C(30000000)
#define PAUSE_MIN_US UINT64_C(50000)
#define PAUSE_MAX_US UINT64_C(5000000)

/* ---- state a pass depends on --------------------------------------------- */

static struct moment moment_now(const emb_store *store) {
  const struct core *core = &store->core;
  return (struct moment){atomic_load(&core->log.tail),
                         atomic_load(&core->txn_first_page),
                         atomic_load(&core->count)};
}

static int is_same_moment(const struct moment *a, const struct moment *b) {
  return a->tail == b->tail && a->keys == b->keys &&
         a->first_page == b->first_page;
}

/* Records the result of a pass of the lane. */
static void note_pass(emb_store *store, enum lane lane, int rc) {
  struct lane_pause *pause = &store->tasks.pauses[lane];
  struct env *env = store->core.env;
  if (!rc) {
    atomic_store_explicit(&pause->failures, 0, memory_order_relaxed);
    atomic_store_explicit(&pause->until_us, 0, memory_order_relaxed);
    return;
  }
  uint64_t us = PAUSE_MIN_US;
  uint32_t failures =
      atomic_fetch_add_explicit(&pause->failures, 1, memory_order_relaxed);
  for (uint32_t i = 0; i < failures && us < PAUSE_MAX_US; i++) {
    us *= 2;
  }
  us = us < PAUSE_MAX_US ? us : PAUSE_MAX_US;
  atomic_store_explicit(&pause->until_us, env->now_us(env) + us,
                        memory_order_relaxed);
}

void tasks_look_again(emb_store *store) {
  store->tasks.idle.tail = 0;
  note_pass(store, LANE_WORK, EMB_OK);
  core_changed(&store->core);
}

/* May be called twice in quick succession. */
int tasks_quiet(emb_store *store) {
  struct core *core = &store->core;
  struct tasks *tasks = &store->tasks;
  uint64_t version = atomic_load(&core->version);
  uint64_t now = core->env->now_us(core->env);
  if (version != tasks->seen_version) {
    tasks->seen_version = version;
    tasks->seen_us = now;
  }
  return core->step_mode || now - tasks->seen_us >= QUIET_US;
}

int tasks_may_work(const emb_store *store) {
  return atomic_load(&store->own.is_owner) && !atomic_load(&store->own.owed) &&
         !atomic_load(&store->own.in_doubt) &&
         !atomic_load(&store->core.log.failed);
}

const struct space *pass_space(struct pass *pass) {
  if (!pass->is_measured) {
    space_measure(&pass->store->core, &pass->space);
    pass->is_measured = 1;
  }
  return &pass->space;
}

/* ---- a pass -------------------------------------------------------------- */

static void note_run(struct task_slot *slot, uint64_t began, uint64_t ended,
                     int did) {
  atomic_store_explicit(&slot->took_us, ended - began, memory_order_relaxed);
  atomic_store_explicit(&slot->ended_us, ended, memory_order_relaxed);
  if (did) {
    count_add(&slot->pieces, 1);
  }
}

static int run_task(struct task_slot *slot, struct pass *pass,
                    enum outcome *did, emb_err *err) {
  const struct task *task = slot->task;
  struct env *env = pass->store->core.env;
  pass->state = slot->state;
  *did = PIECE_NONE;
  if (task->due && !task->due(pass)) {
    return EMB_OK;
  }
  uint64_t began = env->now_us(env);
  int rc = task->run(pass, did, err);
  if (task->due || *did != PIECE_NONE) {
    note_run(slot, began, env->now_us(env), !rc && *did != PIECE_NONE);
  }
  return rc;
}

/* ---- errors -------------------------------------------------------------- */

static void note_error(emb_store *store, const struct task *task,
                       const emb_err *err) {
  struct tasks *tasks = &store->tasks;
  struct env *env = store->core.env;
  emb_err named = {err->code, ""};
  (void)snprintf(named.text, sizeof named.text, "%s: %.480s", task->name,
                 err->text);
  pthread_mutex_lock(&tasks->error_lock);
  if (strcmp(tasks->errors[tasks->error_at].text, named.text) != 0) {
    tasks->error_at = (tasks->error_at + 1) % TASK_ERRORS;
    tasks->errors[tasks->error_at] = named;
  }
  tasks->error_count++;
  tasks->error_us = env->now_us(env);
  pthread_mutex_unlock(&tasks->error_lock);
}

static uint64_t pause_left_us(emb_store *store, enum lane lane) {
  uint64_t until = atomic_load_explicit(&store->tasks.pauses[lane].until_us,
                                        memory_order_relaxed);
  struct env *env = store->core.env;
  uint64_t now = until ? env->now_us(env) : 0;
  return until > now ? until - now : 0;
}

/* ---- a pass, of one lane and of all -------------------------------------- */

static int run_lane(struct pass *pass, enum lane lane, int *more,
                    emb_err *err) {
  int rc = EMB_OK;
  emb_err first = {EMB_OK, ""};
  *more = 0;
  struct tasks *tasks = &pass->store->tasks;
  for (size_t i = 0; !rc && i < tasks->count; i++) {
    struct task_slot *slot = &tasks->slots[i];
    enum outcome did = PIECE_NONE;
    if (slot->task->lane == lane) {
      int had_failed = atomic_load(&pass->store->core.log.failed);
      rc = run_task(slot, pass, &did, &first);
      pass->did |= did != PIECE_NONE;
      *more |= did == PIECE_MORE;
      if (rc && !had_failed) { /* otherwise the first error is kept */
        note_error(pass->store, slot->task, &first);
      }
    }
  }
  *more = *more && !rc;
  if (rc) {
    err_set(err, rc, "%s", first.text);
  }
  return rc;
}

/* Asks every task, because some note what they will work on. */
static int is_woken(struct pass *pass) {
  int woken = 0;
  struct tasks *tasks = &pass->store->tasks;
  for (size_t i = 0; i < tasks->count; i++) {
    struct task_slot *slot = &tasks->slots[i];
    if (slot->task->wakes) {
      pass->state = slot->state;
      woken |= slot->task->wakes(pass);
    }
  }
  return woken;
}

int tasks_release(emb_store *store, emb_err *err) {
  struct pass pass = {.store = store};
  int more;
  return run_lane(&pass, LANE_RELEASE, &more, err);
}

/* Under ckpt_lock. */
static int tasks_work(struct pass *pass, int *more, emb_err *err) {
  emb_store *store = pass->store;
  int rc = run_lane(pass, LANE_RELEASE, more, err);
  *more = 0;
  if (rc) {
    return rc;
  }
  pass->did = 0;
  pass->quiet = tasks_quiet(store);
  struct moment now = moment_now(store);
  pass->unchanged = is_same_moment(&store->tasks.idle, &now);
  if (!is_woken(pass) && pass->unchanged) {
    return EMB_OK;
  }
  rc = run_lane(pass, LANE_WORK, more, err);
  if (!rc && !pass->did && pass->quiet) {
    store->tasks.idle = now;
  }
  return rc;
}

int tasks_pass(emb_store *store, enum lane lane, int by_thread, int *more,
               emb_err *err) {
  struct pass pass = {.store = store, .by_thread = by_thread};
  struct core *core = &store->core;
  int rc = EMB_OK;
  *more = 0;
  if (lane != LANE_WORK) {
    int pauses = lane == LANE_AFTER;
    if (pauses && by_thread && pause_left_us(store, lane)) {
      return EMB_OK;
    }
    rc = run_lane(&pass, lane, more, err);
    if (pauses) {
      note_pass(store, lane, rc);
    }
    return rc;
  }
  if (!tasks_may_work(store)) {
    return EMB_OK;
  }
  pthread_mutex_lock(&core->ckpt_lock);
  if (!atomic_load(&store->dropped) &&
      !(by_thread && pause_left_us(store, lane))) {
    rc = tasks_work(&pass, more, err);
    note_pass(store, lane, rc);
  }
  pthread_mutex_unlock(&core->ckpt_lock);
  return rc;
}

/* ---- rest ---------------------------------------------------------------- */

static uint64_t rest_of_lane(struct pass *pass, enum lane lane) {
  uint64_t least = TASKS_NEVER;
  struct tasks *tasks = &pass->store->tasks;
  for (size_t i = 0; i < tasks->count; i++) {
    struct task_slot *slot = &tasks->slots[i];
    if (slot->task->lane == lane && slot->task->rest) {
      pass->state = slot->state;
      uint64_t us = slot->task->rest(pass);
      least = us < least ? us : least;
    }
  }
  return least;
}

int tasks_were_roused(const emb_store *store, uint64_t now_us) {
  uint64_t roused = store->tasks.roused_us;
  return roused && now_us - roused < ROUSED_US;
}

static uint64_t earlier_due(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t later_due(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Under ckpt_lock. */
static uint64_t rest_of_work(struct pass *pass) {
  emb_store *store = pass->store;
  struct moment now = moment_now(store);
  return is_same_moment(&store->tasks.idle, &now) && tasks_quiet(store)
             ? earlier_due(rest_of_lane(pass, LANE_RELEASE),
                           rest_of_lane(pass, LANE_WORK))
             : 0;
}

uint64_t tasks_rest_us(emb_store *store, uint64_t *pause_us) {
  struct pass pass = {.store = store, .by_thread = 1};
  struct core *core = &store->core;
  uint64_t after = rest_of_lane(&pass, LANE_AFTER), work = TASKS_NEVER;
  uint64_t wait = later_due(after, pause_left_us(store, LANE_AFTER));
  if (tasks_may_work(store)) {
    pthread_mutex_lock(&core->ckpt_lock);
    work = rest_of_work(&pass);
    wait = earlier_due(wait, later_due(work, pause_left_us(store, LANE_WORK)));
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  *pause_us = later_due(wait, PAUSE_MIN_US);
  return earlier_due(after, work);
}

/* ---- for emb_stats ------------------------------------------------------- */

static void tuning_metrics(struct tune *tune, struct metrics *to) {
  static const char *const decision[] = {"hold", "raise", "lower"};
  metric_number(to, "io_depth", atomic_load(&tune->depth));
  metric_number(to, "io_workers", atomic_load(&tune->workers));
  metric_count(to, "io_us", &tune->io_us);
  metric_count(to, "compute_us", &tune->compute_us);
  metric_count(to, "wait_us", &tune->wait_us);
  metric_count(to, "io_ratio_percent", &tune->ratio);
  metric_count(to, "io_raised", &tune->raised);
  metric_count(to, "io_lowered", &tune->lowered);
  metric_text(to, "io_decision", decision[atomic_load(&tune->decision)]);
}

static uint64_t ms_since(emb_store *store, uint64_t us) {
  struct env *env = store->core.env;
  uint64_t now = env->now_us(env);
  return !us        ? UINT64_MAX /* -1: never */
         : now > us ? (now - us) / 1000
                    : 0;
}

static void error_metrics(emb_store *store, struct metrics *to) {
  struct tasks *tasks = &store->tasks;
  pthread_mutex_lock(&tasks->error_lock);
  const char *text = tasks->errors[tasks->error_at].text;
  uint64_t count = tasks->error_count, us = tasks->error_us;
  pthread_mutex_unlock(&tasks->error_lock);
  metric_text(to, "background_error", text);
  metric_number(to, "background_errors", count);
  metric_number(to, "background_error_ms_ago", ms_since(store, us));
}

static void jobs_metrics(emb_store *store, struct metrics *to) {
  tuning_metrics(&store->jobs.tune, to);
  for (size_t i = 0; i < store->tasks.count; i++) {
    struct task_slot *slot = &store->tasks.slots[i];
    uint64_t ended =
        atomic_load_explicit(&slot->ended_us, memory_order_relaxed);
    metric_number(to, slot->task->metrics[0], ms_since(store, ended));
    metric_count(to, slot->task->metrics[1], &slot->took_us);
    metric_count(to, slot->task->metrics[2], &slot->pieces);
  }
  error_metrics(store, to);
}

/* ---- the beginning and the end ------------------------------------------- */

static int tasks_init(emb_store *store, emb_err *err) {
  struct tasks *tasks = &store->tasks;
  size_t n = 0;
  (void)err;
  pthread_mutex_init(&tasks->error_lock, NULL);
  for (enum lane lane = LANE_FLUSH; lane <= LANE_AFTER; lane++) {
    for (size_t i = 0; i < FEATURE_COUNT; i++) {
      const struct task *const *task = store_features[i]->tasks;
      for (; task && *task; task++) {
        if ((*task)->lane == lane) {
          tasks->slots[n++].task = *task;
        }
      }
    }
  }
  emb_assert(n == tasks->count);
  return EMB_OK;
}

static void tasks_free(emb_store *store) {
  pthread_mutex_destroy(&store->tasks.error_lock);
}

const struct feature feature_jobs = {
    .name = "jobs",
    .init = tasks_init,
    .free = tasks_free,
    .metrics = jobs_metrics,
};
