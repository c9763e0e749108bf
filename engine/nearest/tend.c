/* SPDX-License-Identifier: MIT
**
** tend.c -- the task that makes the index of nearest neighbours and keeps it in
** step with the table; see index.h.
**
** A run works for some milliseconds: first what is recent, then on an index
** that is being made, then on the lists, for rows that are dirty.  The last is
** done at a quarter of the time, so that what trains has the processors: until
** then a row is where it was.  By hand (emb_step) one piece of each.
*/
#include "index.h"

#include <stdio.h>
#include <string.h>

#include "../emb.h"

#define RUN_US UINT64_C(15000)
#define AGAIN_US UINT64_C(5000000) /* after a failure */
#define SWEEP_US UINT64_C(1000000) /* from the end of a sweep to the next */
#define GROWN 4                    /* times the rows it was made of */
#define DRIFTED 2.0                /* times the error it was made with */
#define DRIFT_ROWS 65536           /* that the error is measured over */

/* ---- the store's --------------------------------------------------------- */

static int any_index(const struct nearest_index *x) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      return 1;
    }
  }
  return 0;
}

void nearest_init(emb_store *store) {
  struct nearest_index *x = store->nearest;
  x->store = store;
  pthread_mutex_init(&x->lock, NULL);
  pthread_mutex_init(&x->use_lock, NULL);
}

static void free_buffers(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  env->release(env, x->rows);
  env->release(env, x->part);
  env->release(env, x->found);
  x->rows = x->part = NULL;
  x->found = NULL;
  if (x->s) {
    session_free(x->s);
    x->s = NULL;
  }
}

static int make_tender(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  size_t floats = (size_t)IVF_ROWS * x->store->core.schema.dim;
  if (x->s) {
    return EMB_OK;
  }
  x->rows = env->allocate(env, floats * sizeof(float));
  x->part = env->allocate(env, floats * sizeof(float));
  x->found = env->allocate(env, IVF_ROWS);
  if (!x->rows || !x->part || !x->found || session_new(x->store, &x->s, NULL)) {
    x->s = NULL;
    free_buffers(x);
    return EMB_NOMEM;
  }
  return EMB_OK;
}

/* Waits for the searches that use it. */
static void drop_used(struct nearest_index *x) {
  struct index_set *set = index_set_at(x, SET_USED);
  if (!set) {
    return;
  }
  pthread_mutex_lock(&x->use_lock);
  atomic_store(&x->sets[SET_USED], NULL);
  uint32_t users = set->users;
  pthread_mutex_unlock(&x->use_lock);
  epoch_wait(&x->store->core.epoch);
  while (users) {
    x->store->core.env->sleep_us(x->store->core.env, 100);
    pthread_mutex_lock(&x->use_lock);
    users = set->users;
    pthread_mutex_unlock(&x->use_lock);
  }
  made__free_set(x, set);
}

void nearest_free(emb_store *store) {
  struct nearest_index *x = store->nearest;
  if (x->s || x->observes) {
    follow__end(x);
    if (x->s) {
      made__end(x);
    }
    drop_used(x);
    (void)follow__dirty(x, 0);
  }
  follow__clear(x);
  free_buffers(x);
  pthread_mutex_destroy(&x->lock);
  pthread_mutex_destroy(&x->use_lock);
}

struct index_set *nearest__use(struct nearest_index *x) {
  pthread_mutex_lock(&x->use_lock);
  struct index_set *set = index_set_at(x, SET_USED);
  int good = set && !atomic_load(&x->incomplete) &&
             !atomic_load(&x->was_reset) && atomic_load(&x->follows);
  if (good) {
    set->users++;
  }
  pthread_mutex_unlock(&x->use_lock);
  return good ? set : NULL;
}

void nearest__unuse(struct nearest_index *x, struct index_set *set) {
  pthread_mutex_lock(&x->use_lock);
  set->users--;
  pthread_mutex_unlock(&x->use_lock);
}

/* ---- a sweep ------------------------------------------------------------- */

static uint32_t first_segment(const struct nearest_index *x) {
  uint32_t k = 0;
  while (!index_has(x, k)) {
    k++;
  }
  return k;
}

static int sweep_is_due(struct nearest_index *x) {
  uint64_t behind = atomic_load(&x->behind);
  struct env *env = x->store->core.env;
  return behind && (x->store->core.step_mode ||
                    env->now_us(env) - x->sweep.ended_us >= SWEEP_US);
}

/* All lists are done: their holes are filled, of every index. */
static void sweep_end(struct nearest_index *x, struct index_set *set) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    for (uint32_t list = 0; index_has(x, k) && list < set->ivf[k].centres.count;
         list++) {
      ivf_close(&set->ivf[k], list);
    }
  }
  follow__clean(x, x->sweep.old);
  atomic_fetch_sub(&x->behind, x->sweep.bits);
  x->sweep.is_on = 0;
  x->sweep.ended_us = x->store->core.env->now_us(x->store->core.env);
}

/* Some keys of a list.  One that comes to a list which was not looked at yet is
** looked at again. */
static int sweep_piece(struct nearest_index *x, struct index_set *set) {
  struct sweep *sweep = &x->sweep;
  struct dirty *dirty = atomic_load(&x->dirty);
  int64_t keys[IVF_ROWS];
  size_t n = 0, kept = 0;
  if (!sweep->is_on) {
    sweep->bits = atomic_load(&x->behind);
    sweep->old = follow__turn(x);
    sweep->is_on = 1;
    sweep->list = sweep->block = 0;
    sweep->segment = first_segment(x);
  }
  struct ivf *ivf = &set->ivf[sweep->segment];
  while (!kept && sweep->list < ivf->centres.count) {
    n = ivf_keys(ivf, sweep->list, &sweep->block, keys, IVF_ROWS);
    sweep->list += sweep->block == 0;
    for (size_t i = 0; i < n; i++) {
      if (dirty_has(dirty, sweep->old, keys[i])) {
        keys[kept++] = keys[i];
      }
    }
  }
  if (kept) {
    return made__apply(x, keys, kept);
  }
  sweep_end(x, set);
  return EMB_OK;
}

/* ---- states -------------------------------------------------------------- */

static void enter(struct nearest_index *x, enum index_state state) {
  atomic_store(&x->state, (int)state);
}

/* It cannot be made now: x->why says why. */
static void give_up(struct nearest_index *x, enum index_state state) {
  struct env *env = x->store->core.env;
  made__end(x);
  enter(x, state);
  x->again_us = env->now_us(env) + AGAIN_US;
}

static double error_of(const struct nearest_index *x,
                       const struct index_set *set) {
  double sum = 0;
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      const struct ivf *ivf = &set->ivf[k];
      sum += ivf->error_sum / (double)(ivf->error_rows ? ivf->error_rows : 1);
    }
  }
  return sum;
}

static void error_anew(struct nearest_index *x, struct index_set *set) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    set->ivf[k].error_sum = 0;
    set->ivf[k].error_rows = 0;
  }
}

static void note_figures(struct nearest_index *x) {
  struct index_set *set = index_set_at(x, SET_USED);
  uint64_t bytes = 0, rows = 0, lists = 0;
  for (uint32_t k = 0; set && k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      bytes += ivf_bytes(&set->ivf[k]);
      rows += atomic_load_explicit(&set->ivf[k].rows, memory_order_relaxed);
      lists += set->ivf[k].centres.count;
    }
  }
  struct dirty *dirty = atomic_load(&x->dirty);
  bytes += set && dirty ? (dirty->mask + 1) / 4 : 0;
  atomic_store_explicit(&x->bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&x->indexed, rows, memory_order_relaxed);
  atomic_store_explicit(&x->lists, lists, memory_order_relaxed);
}

/* The one that was made is used from now on. */
static void change_over(struct nearest_index *x) {
  struct index_set *set = x->making.set;
  set->trained_error = error_of(x, set);
  error_anew(x, set);
  drop_used(x);
  pthread_mutex_lock(&x->use_lock);
  atomic_store(&x->sets[SET_USED], set);
  atomic_store(&x->sets[SET_MADE], NULL);
  pthread_mutex_unlock(&x->use_lock);
  x->making.set = NULL;
  made__end(x);
  x->sweep.is_on = 0;
  count_add(&x->rebuilds, 1);
  note_figures(x);
  enter(x, INDEX_READY);
}

/* Is the one that is used out of date as a whole? */
static int is_worn(struct nearest_index *x, struct index_set *set) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  uint32_t k = first_segment(x);
  int drifted = 0;
  if (set->ivf[k].error_rows >= DRIFT_ROWS) {
    double now = error_of(x, set);
    drifted = now > set->trained_error * DRIFTED ||
              now < set->trained_error / (DRIFTED * 2);
    error_anew(x, set);
  }
  return drifted || rows / GROWN > set->trained_rows;
}

static int begin_making(struct nearest_index *x) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  if (rows < INDEX_ROWS) {
    enter(x, INDEX_WAITING);
    return PIECE_NONE;
  }
  if (!made__fits(x, rows)) {
    give_up(x, INDEX_MEMORY);
    return PIECE_NONE;
  }
  if (follow__begin(x) || made__begin(x)) {
    err_set(&x->why, EMB_NOMEM, "out of memory");
    give_up(x, INDEX_FAILED);
    return PIECE_NONE;
  }
  return PIECE_MORE;
}

/* Nothing of it counts any more. */
static void begin_anew(struct nearest_index *x) {
  atomic_store(&x->follows, 0);
  epoch_wait(&x->store->core.epoch);
  made__end(x);
  drop_used(x);
  follow__clear(x);
  x->sweep.is_on = 0;
  x->again_us = 0;
  atomic_store(&x->incomplete, 0);
  atomic_store(&x->was_reset, 0);
  enter(x, INDEX_WAITING);
}

static int recent_piece(struct nearest_index *x) {
  int64_t keys[IVF_ROWS];
  size_t n = follow__oldest(x, keys, IVF_ROWS);
  int rc = n ? made__apply(x, keys, n) : EMB_OK;
  if (!rc && n) {
    follow__done(x, n);
  }
  return rc;
}

/* One piece: enum outcome, or below 0 where x->s->err says why not. */
static int tend_piece(struct nearest_index *x) {
  int state = atomic_load(&x->state), done = 0;
  struct index_set *set = index_set_at(x, SET_USED);
  if (atomic_load(&x->was_reset) || atomic_load(&x->incomplete)) {
    begin_anew(x);
    return PIECE_MORE;
  }
  if (state < INDEX_SAMPLING) {
    return begin_making(x);
  }
  if (atomic_load(&x->recent_count)) {
    return recent_piece(x) ? -1 : PIECE_MORE;
  }
  if (state != INDEX_READY) {
    if (made__piece(x, &done)) {
      return -1;
    }
    if (done) {
      change_over(x);
    }
    return PIECE_MORE;
  }
  if (x->sweep.is_on || sweep_is_due(x)) {
    return sweep_piece(x, set)        ? -1
           : x->store->core.step_mode ? PIECE_MORE
                                      : PIECE_DONE;
  }
  if (is_worn(x, set) &&
      made__fits(x, 2 * (uint64_t)atomic_load(&x->store->core.count))) {
    return made__begin(x) ? -1 : PIECE_MORE;
  }
  return PIECE_NONE;
}

/* ---- the task ------------------------------------------------------------ */

/* An error of the engine: what was begun is given up, what is used stays. */
static void tend_failed(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  x->why = x->s->err;
  if (x->s->err.code == EMB_NOMEM) {
    atomic_store(&x->incomplete, 1); /* some row may be nowhere */
    begin_anew(x);
  }
  if (atomic_load(&x->state) != INDEX_READY) {
    give_up(x, INDEX_FAILED);
  }
  x->again_us = env->now_us(env) + AGAIN_US;
}

static int tend_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  struct nearest_index *x = store->nearest;
  struct env *env = store->core.env;
  (void)err;
  *did = PIECE_NONE;
  if (!any_index(x) || !tasks_may_work(store) || atomic_load(&store->dropped)) {
    return EMB_OK;
  }
  pthread_mutex_lock(&x->lock);
  uint64_t began = env->now_us(env);
  int rc = began < x->again_us ? PIECE_NONE : PIECE_MORE;
  if (rc != PIECE_NONE) {
    x->again_us = 0;
    rc = make_tender(x) ? PIECE_NONE : PIECE_MORE;
  }
  while (rc != PIECE_NONE) {
    rc = tend_piece(x);
    if (rc < 0) {
      tend_failed(x);
      rc = PIECE_NONE;
    }
    *did = rc != PIECE_NONE ? (enum outcome)rc : *did;
    if (!pass->by_thread || core_stopping(&store->core) ||
        env->now_us(env) - began >= RUN_US) {
      break;
    }
  }
  note_figures(x);
  pthread_mutex_unlock(&x->lock);
  return EMB_OK;
}

static int tend_due(struct pass *pass) {
  return any_index(pass->store->nearest);
}

/* Steps before the last one may still be waiting for a sweep, and what failed
** for another try. */
static uint64_t tend_rest(struct pass *pass) {
  struct nearest_index *x = pass->store->nearest;
  struct env *env = x->store->core.env;
  uint64_t us = TASKS_NEVER, now = env->now_us(env);
  if (!any_index(x) || !tasks_may_work(pass->store)) {
    return us;
  }
  pthread_mutex_lock(&x->lock);
  int state = atomic_load(&x->state);
  if (x->again_us > now) {
    us = x->again_us - now;
  } else if (x->sweep.is_on || atomic_load(&x->recent_count) ||
             (state >= INDEX_SAMPLING && state < INDEX_READY)) {
    us = 0;
  } else if (atomic_load(&x->behind)) {
    uint64_t due = x->sweep.ended_us + SWEEP_US;
    us = due > now ? due - now : 0;
  }
  pthread_mutex_unlock(&x->lock);
  return us;
}

const struct task task_nearest = {
    TASK_NAMED("nearest"), .lane = LANE_AFTER, .due = tend_due,
    .rest = tend_rest,     .run = tend_run,
};

/* ---- for emb_stats ------------------------------------------------------- */

const char *nearest_state(emb_store *store) {
  static const char *const names[] = {
      "off",      "waiting for rows", "more than memory=", "failed",
      "sampling", "training",         "filling",           "ready"};
  struct nearest_index *x = store->nearest;
  int state = atomic_load(&x->state);
  if (!any_index(x) || !atomic_load(&store->owner)) {
    return names[INDEX_OFF];
  }
  return index_set_at(x, SET_USED) && !atomic_load(&x->incomplete)
             ? names[INDEX_READY]
             : names[state];
}
