/* SPDX-License-Identifier: MIT
**
** maintain.c -- the task that builds the index of nearest neighbours and keeps
** it in step with the table; see index.h.
**
** A run works for some milliseconds: first on recent keys, then on an index
** being loaded or built, then on its file, and then on dirty rows in the lists.
** The last of these gets a quarter of the time, or half of it if a hundredth
** of the rows is dirty, to leave the processors to training: until then a row
** is found in its old list.  In step mode (emb_step), a run does one piece of
** each.
*/
#include "index.h"
#include "engine/table/jobs/tasks.h"

#include <stdio.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/table/store/metrics.h"

#define RUN_US UINT64_C(15000)
#define RUN_BEHIND_US UINT64_C(50000) /* followed by a rest of equal length */
#define AGAIN_US UINT64_C(5000000)    /* after a failure */
#define GROWN 4                       /* rebuild at this many times the rows */
#define SHRUNK 8                      /* or at the rows divided by this */
#define DRIFTED 2.0                   /* or at this many times the error */
#define DRIFT_ROWS 65536              /* rows the error is measured over */

/* ---- the store's --------------------------------------------------------- */

static int any_index(const struct nearest_index *x) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      return 1;
    }
  }
  return 0;
}

/* May this process have an index?  A reader has none while another process owns
** the store or may own it: its rows would change without an event. */
static int may_tend(struct nearest_index *x) {
  emb_store *store = x->store;
  int may = any_index(x) && !atomic_load(&store->dropped);
  if (may && atomic_load(&store->own.is_owner)) {
    may = tasks_may_work(store);
  } else if (may) {
    pthread_mutex_lock(&store->own.lock);
    may = atomic_load(&store->own.is_owner)
              ? tasks_may_work(store)
              : store->checkpoint.manifest.clean &&
                    !atomic_load(&store->own.unloaded) &&
                    !atomic_load(&store->remote.links) &&
                    !atomic_load(&store->own.in_doubt);
    pthread_mutex_unlock(&store->own.lock);
  }
  atomic_store_explicit(&x->may_be, may, memory_order_relaxed);
  return may;
}

static int nearest_init(emb_store *store, emb_err *err) {
  struct nearest_index *x = nearest_of(store);
  (void)err;
  x->store = store;
  pthread_mutex_init(&x->lock, NULL);
  pthread_mutex_init(&x->use_lock, NULL);
  return EMB_OK;
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

/* Frees the set in use, after waiting for its searches. */
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
  build__free_set(x, set);
}

/* Called after the threads have ended. */
static void nearest_free(emb_store *store) {
  struct nearest_index *x = nearest_of(store);
  save__end(x);
  if (x->s || x->observes) {
    nearest_observe__end(x);
    load__end(x, EMB_BUSY);
    if (x->s) {
      measure__end(x);
      build__end(x);
    }
    drop_used(x);
    (void)nearest_observe__dirty(x, 0);
  }
  nearest_observe__clear(x);
  for (uint32_t k = 0; k < EMB_SEGMENTS_MAX; k++) {
    asked__free(&x->asked[k], store->core.env);
  }
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
  emb_assert(set->users > 0);
  set->users--;
  pthread_mutex_unlock(&x->use_lock);
}

/* ---- states -------------------------------------------------------------- */

static void enter_state(struct nearest_index *x, enum index_state state) {
  atomic_store(&x->state, (int)state);
}

/* The index cannot be built now: x->why says why. */
static void give_up(struct nearest_index *x, enum index_state state) {
  struct env *env = x->store->core.env;
  measure__end(x);
  build__end(x);
  enter_state(x, state);
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

/* Notes the recall of the index that exceeds what it promises least; *spare: by
** how much, so far. */
static void note_recall(struct nearest_index *x,
                        const struct recall_curve *curve, double *spare) {
  double lowest = 1;
  for (int k = 0; k < RECALL_KS; k++) {
    const struct recall_point *point = &curve->points[RECALL_PROMISED][k];
    double recall = point->probes ? (double)point->mean : 1;
    lowest = recall < lowest ? recall : lowest;
  }
  if (curve->measured && lowest - curve->promised < *spare) {
    *spare = lowest - curve->promised;
    atomic_store_explicit(&x->promised,
                          (uint64_t)(curve->promised * 1000 + 0.5),
                          memory_order_relaxed);
    atomic_store_explicit(&x->recall, (uint64_t)(lowest * 1000),
                          memory_order_relaxed);
    atomic_store_explicit(&x->measured_at, curve->measured,
                          memory_order_relaxed);
  }
}

static void note_figures(struct nearest_index *x) {
  struct index_set *set = index_set_at(x, SET_USED);
  uint64_t bytes = 0, rows = 0, lists = 0;
  double spare = 2;
  for (uint32_t k = 0; set && k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      bytes += ivf_bytes(&set->ivf[k]);
      bytes += asked__bytes(&x->asked[k], set->ivf[k].form.dim);
      rows += atomic_load_explicit(&set->ivf[k].rows, memory_order_relaxed);
      lists += set->ivf[k].centres.count;
      note_recall(x, &set->curves[k], &spare);
    }
  }
  struct dirty *dirty = atomic_load(&x->dirty);
  bytes += set && dirty ? (dirty->mask + 1) / 4 : 0;
  atomic_store_explicit(&x->bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&x->indexed, rows, memory_order_relaxed);
  atomic_store_explicit(&x->lists, lists, memory_order_relaxed);
}

/* Puts the new set into use. */
static void change_over(struct nearest_index *x) {
  struct index_set *set = x->making.set;
  measure__end(x);
  if (!x->making.is_loaded) {
    set->trained_error = error_of(x, set);
    x->is_saved = 0;
    count_add(&x->rebuilds, 1);
  }
  emb_check(index_set_valid(x, set));
  error_anew(x, set);
  drop_used(x);
  pthread_mutex_lock(&x->use_lock);
  atomic_store(&x->sets[SET_USED], set);
  atomic_store(&x->sets[SET_MADE], NULL);
  pthread_mutex_unlock(&x->use_lock);
  x->making.set = NULL;
  build__end(x);
  x->sweep.is_on = 0;
  note_figures(x);
  enter_state(x, INDEX_READY);
}

/* Is the set in use out of date as a whole? */
static int is_worn(struct nearest_index *x, struct index_set *set) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  uint32_t k = indexed_first(x);
  int drifted = 0;
  if (set->ivf[k].error_rows >= DRIFT_ROWS) {
    double now = error_of(x, set);
    drifted = now > set->trained_error * DRIFTED ||
              now < set->trained_error / (DRIFTED * 2);
    error_anew(x, set);
  }
  return drifted || rows / GROWN > set->trained_rows ||
         (rows >= INDEX_ROWS && set->trained_rows / SHRUNK > rows);
}

static int begin_making(struct nearest_index *x) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  if (rows < INDEX_ROWS) {
    enter_state(x, INDEX_WAITING);
    return PIECE_NONE;
  }
  if (!build__fits(x, rows)) {
    give_up(x, INDEX_MEMORY);
    return PIECE_NONE;
  }
  if (!x->was_asked_for && !x->store->core.temporary) {
    x->was_asked_for = 1;
    if (load__begin(x) == EMB_OK) {
      enter_state(x, INDEX_LOADING);
      return PIECE_MORE;
    }
  }
  if (nearest_observe__begin(x) || build__begin(x)) {
    err_set(&x->why, EMB_NOMEM, "out of memory");
    give_up(x, INDEX_FAILED);
    return PIECE_NONE;
  }
  return PIECE_MORE;
}

/* Drops the index entirely, and starts over. */
static void index_anew(struct nearest_index *x) {
  atomic_store(&x->follows, 0);
  epoch_wait(&x->store->core.epoch);
  save__end(x);
  load__end(x, EMB_BUSY);
  measure__end(x);
  build__end(x);
  drop_used(x);
  nearest_observe__clear(x);
  x->sweep.is_on = 0;
  x->again_us = 0;
  x->was_asked_for = x->is_saved = 0;
  atomic_store(&x->incomplete, 0);
  atomic_store(&x->was_reset, 0);
  enter_state(x, INDEX_WAITING);
}

static int recent_piece(struct nearest_index *x) {
  int64_t keys[IVF_ROWS];
  size_t n = nearest_observe__oldest(x, keys, IVF_ROWS);
  int rc = n ? build__apply(x, keys, n) : EMB_OK;
  if (!rc && n) {
    nearest_observe__done(x, n);
  }
  return rc;
}

/* Loads, builds or measures the next index.  After an error in the load, the
** index is built. */
static int load_or_make(struct nearest_index *x, int state) {
  int done = 0, rc = EMB_OK;
  if (state == INDEX_LOADING && load__piece(x, &done)) {
    enter_state(x, INDEX_WAITING);
    return PIECE_MORE;
  }
  if (state == INDEX_MEASURING) {
    rc = measure__piece(x, x->making.set, &done);
  } else if (state != INDEX_LOADING) {
    rc = build__piece(x, &done);
  }
  if (rc) {
    return -1;
  }
  if (done && state == INDEX_MEASURING) {
    change_over(x);
  } else if (done) {
    x->making.is_loaded = state == INDEX_LOADING;
    load__end(x, EMB_OK);
    enter_state(x, INDEX_MEASURING);
  }
  return PIECE_MORE;
}

static int ready_piece(struct nearest_index *x, struct index_set *set) {
  int saves = (x->saving.is_on || !save__rest_us(x)) && save__piece(x, set);
  if (refresh__due(x)) {
    return refresh__piece(x, set)              ? -1
           : x->store->core.step_mode || saves ? PIECE_MORE
                                               : PIECE_DONE;
  }
  if (saves) {
    return PIECE_MORE;
  }
  if (is_worn(x, set) &&
      build__fits(x, 2 * (uint64_t)atomic_load(&x->store->core.count))) {
    measure__end(x);
    return build__begin(x) ? -1 : PIECE_MORE;
  }
  if (!measure__rest_us(x, set)) {
    int done;
    return measure__piece(x, set, &done) ? -1
           : x->store->core.step_mode    ? PIECE_MORE
                                         : PIECE_DONE;
  }
  return PIECE_NONE;
}

/* Does one piece.  Returns enum outcome, or below 0 with the reason in
** x->s->err.  Recent keys and all other work take turns, so that a steady
** writer keeps neither waiting. */
static int maintain_piece(struct nearest_index *x) {
  int state = atomic_load(&x->state);
  if (atomic_load(&x->was_reset) || atomic_load(&x->incomplete)) {
    index_anew(x);
    return PIECE_MORE;
  }
  if (state < INDEX_LOADING) {
    return begin_making(x);
  }
  int has_recent = atomic_load(&x->recent_count) != 0;
  x->is_recents_turn = has_recent && !x->is_recents_turn;
  if (x->is_recents_turn) {
    return recent_piece(x) ? -1 : PIECE_MORE;
  }
  int rc = state == INDEX_READY ? ready_piece(x, index_set_at(x, SET_USED))
                                : load_or_make(x, state);
  return rc == PIECE_NONE && has_recent ? PIECE_MORE : rc;
}

/* ---- the task ------------------------------------------------------------ */

/* Engine error: work in progress is abandoned, the set in use stays. */
static void maintain_failed(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  load__end(x, EMB_BUSY); /* the index is built instead */
  measure__end(x);
  x->why = x->s->err;
  if (x->s->err.code == EMB_NOMEM) {
    atomic_store(&x->incomplete, 1); /* a row may be missing */
    index_anew(x);
  }
  if (atomic_load(&x->state) != INDEX_READY) {
    give_up(x, INDEX_FAILED);
  }
  x->again_us = env->now_us(env) + AGAIN_US;
}

static int maintain_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  struct nearest_index *x = nearest_of(store);
  struct env *env = store->core.env;
  (void)err;
  *did = PIECE_NONE;
  pthread_mutex_lock(&x->lock);
  if (!may_tend(x)) {
    if (atomic_load(&x->follows)) { /* the index built or loaded is useless */
      index_anew(x);
    }
    pthread_mutex_unlock(&x->lock);
    return EMB_OK;
  }
  uint64_t began = env->now_us(env);
  uint64_t run_us = refresh__is_far_behind(x) ? RUN_BEHIND_US : RUN_US;
  int rc = began < x->again_us ? PIECE_NONE : PIECE_MORE;
  if (rc != PIECE_NONE) {
    x->again_us = 0;
    rc = make_tender(x) ? PIECE_NONE : PIECE_MORE;
  }
  while (rc != PIECE_NONE) {
    rc = maintain_piece(x);
    if (rc < 0) {
      maintain_failed(x);
      rc = PIECE_NONE;
    }
    emb_check(nearest_valid(x));
    *did = rc != PIECE_NONE ? (enum outcome)rc : *did;
    if (!pass->by_thread || core_stopping(&store->core) ||
        env->now_us(env) - began >= run_us) {
      break;
    }
  }
  note_figures(x);
  pthread_mutex_unlock(&x->lock);
  return EMB_OK;
}

static int maintain_due(struct pass *pass) {
  return any_index(nearest_of(pass->store));
}

/* Must a build begin, or is there other work to do now? */
static int is_at_work(struct nearest_index *x) {
  int state = atomic_load(&x->state);
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  return x->sweep.is_on || x->saving.is_on || atomic_load(&x->recent_count) ||
         atomic_load(&x->was_reset) || atomic_load(&x->incomplete) ||
         (state < INDEX_LOADING && rows >= INDEX_ROWS) ||
         (state >= INDEX_LOADING && state < INDEX_READY);
}

/* Earlier steps may still be waiting for a sweep, and a failure for a retry. */
static uint64_t maintain_rest(struct pass *pass) {
  struct nearest_index *x = nearest_of(pass->store);
  struct env *env = x->store->core.env;
  uint64_t us = TASKS_NEVER, now = env->now_us(env);
  pthread_mutex_lock(&x->lock);
  if (!may_tend(x)) {
    us = atomic_load(&x->follows) ? 0 : us;
  } else if (x->again_us > now) {
    us = x->again_us - now;
  } else if (is_at_work(x)) {
    us = 0;
  } else if (atomic_load(&x->state) == INDEX_READY) {
    uint64_t sweep = atomic_load(&x->behind) ? refresh__rest_us(x) : us;
    uint64_t save = save__rest_us(x);
    uint64_t measure = measure__rest_us(x, index_set_at(x, SET_USED));
    us = sweep < save ? sweep : save;
    us = measure < us ? measure : us;
  }
  pthread_mutex_unlock(&x->lock);
  return us;
}

static const struct task task_nearest = {
    TASK_NAMED("nearest"), .lane = LANE_AFTER,  .due = maintain_due,
    .rest = maintain_rest, .run = maintain_run,
};

/* Called after the last checkpoint, when threads have ended: saves the index if
** enough has changed. */
static void nearest_close(emb_store *store) {
  struct nearest_index *x = nearest_of(store);
  struct index_set *set = index_set_at(x, SET_USED);
  pthread_mutex_lock(&x->lock);
  if (set && atomic_load(&x->state) == INDEX_READY &&
      !atomic_load(&x->was_reset) && !atomic_load(&x->incomplete) &&
      (x->saving.is_on || save__rest_us(x) != TASKS_NEVER)) {
    while (save__piece(x, set) && x->saving.is_on) {
    }
  }
  pthread_mutex_unlock(&x->lock);
}

/* ---- for emb_stats ------------------------------------------------------- */

static const char *nearest_state(emb_store *store) {
  static const char *const names[] = {
      "off",      "waiting for rows", "more than memory=",
      "failed",   "loading",          "sampling",
      "training", "filling",          "measuring",
      "ready"};
  struct nearest_index *x = nearest_of(store);
  int state = atomic_load(&x->state);
  if (any_index(x) && state == INDEX_OFF) { /* not looked at yet */
    return names[may_tend(x) ? INDEX_WAITING : INDEX_OFF];
  }
  if (!any_index(x) ||
      !(atomic_load(&store->own.is_owner) ||
        atomic_load_explicit(&x->may_be, memory_order_relaxed))) {
    return names[INDEX_OFF];
  }
  return index_set_at(x, SET_USED) && !atomic_load(&x->incomplete)
             ? names[INDEX_READY]
             : names[state];
}

static const char *nearest_file(emb_store *store) {
  static const char *const names[] = {
      "none",    "loaded",         "saved",    "damaged",
      "another", "cannot be read", "no space", "cannot be written"};
  return names[atomic_load_explicit(&nearest_of(store)->file_state,
                                    memory_order_relaxed)];
}

static void nearest_metrics(emb_store *store, struct metrics *to) {
  struct nearest_index *x = nearest_of(store);
  metric_text(to, "nearest_index", nearest_state(store));
  metric_text(to, "nearest_file", nearest_file(store));
  metric_count(to, "nearest_rows", &x->indexed);
  metric_count(to, "nearest_recent", &x->recent_count);
  metric_count(to, "nearest_behind", &x->behind);
  metric_count(to, "nearest_lists", &x->lists);
  metric_count(to, "nearest_bytes", &x->bytes);
  metric_count(to, "nearest_made", &x->rebuilds);
  metric_count(to, "nearest_saved", &x->saves);
  metric_count(to, "nearest_queries", &x->searches);
  metric_count(to, "nearest_candidates", &x->candidates);
  metric_count(to, "nearest_promised_permille", &x->promised);
  metric_count(to, "nearest_recall_permille", &x->recall);
  metric_count(to, "nearest_measured_at", &x->measured_at);
  metric_count(to, "nearest_measured", &x->measured);
}

const struct feature feature_nearest = {
    .name = "nearest",
    .state_bytes = sizeof(struct nearest_index),
    .tasks = FEATURE_TASKS(&task_nearest),
    .files = FEATURE_FILES(&file_nearest),
    .init = nearest_init,
    .settled = nearest_close,
    .free = nearest_free,
    .metrics = nearest_metrics,
};
