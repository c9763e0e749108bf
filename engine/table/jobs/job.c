/* SPDX-License-Identifier: MIT
**
** job.c -- the queue of jobs and its workers.  The creator of a job (ahead.c,
** async.c) sets the functions that handle its rows or records (run, use).
*/
#include "job.h"
#include "cold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MIN 64u

/* ---- making -------------------------------------------------------------- */

struct job *job_new(emb_session *s, int kind, const int64_t *keys, size_t n) {
  struct env *env = s->core->env;
  struct job *job = env->allocate(env, sizeof *job);
  if (job) {
    job->keys = env->resize(env, NULL, n * sizeof *keys + 1);
  }
  if (!job || !job->keys) {
    env->release(env, job);
    session_error(s, EMB_NOMEM, "out of memory");
    return NULL;
  }
  if (n) {
    memcpy(job->keys, keys, n * sizeof *keys);
  }
  job->key_count = n;
  job->kind = kind;
  job->session = s;
  return job;
}

void job_free(struct job *job) {
  if (job) {
    struct env *env = job->session->core->env;
    emb_assert(job->finished == job->taken); /* no worker uses it */
    env->release(env, job->keys);
    env->release(env, job->cold);
    env->release(env, job->cold_keys);
    env->release(env, job->state);
    env->release(env, job->counted);
    env->release(env, job->copy);
    env->release(env, job->give);
    env->release(env, job->written);
    env->release(env, job->kept);
    env->release(env, job->kept_versions);
    env->release(env, job->kept_state);
    env->release(env, job);
  }
}

static int job_by_address(const void *a, const void *b) {
  uint64_t x = ((const struct cold *)a)->address;
  uint64_t y = ((const struct cold *)b)->address;
  return x < y ? -1 : x > y;
}

/* ---- the queue ----------------------------------------------------------- */

static void job_append(struct jobs *jobs, struct job *job) {
  struct job **at = &jobs->first;
  /* Jobs that a caller will wait for go before look-aheads. */
  while (*at && !((job->kind == JOB_READ || job->kind == JOB_WRITE) &&
                  ((*at)->kind == JOB_AHEAD || (*at)->kind == JOB_KEEP) &&
                  (*at)->taken == 0)) {
    at = &(*at)->next;
  }
  job->next = *at;
  *at = job;
  emb_check(jobs_valid(jobs));
}

static void unlink_job(struct jobs *jobs, struct job *job) {
  struct job **at = &jobs->first;
  while (*at && *at != job) {
    at = &(*at)->next;
  }
  emb_assert(*at);
  if (*at) {
    *at = job->next;
  }
}

/* Must this write job wait for an older one of its session, or for a running
** slice of its own (J2)? */
static int must_wait(const struct jobs *jobs, const struct job *job) {
  for (const struct job *j = jobs->first; j && j != job; j = j->next) {
    if (j->kind == JOB_WRITE && j->session == job->session &&
        !EMB_SEED(SEED_WRITE_BACKS_UNORDERED)) {
      return 1;
    }
  }
  return job->writing;
}

struct slice {
  struct job *job;
  size_t from, to;
};

/* Takes the next slice to run; under jobs->lock.  0: there is none. */
static int job_take(struct jobs *jobs, struct slice *slice) {
  for (struct job *job = jobs->first; job; job = job->next) {
    if (job->taken < job->n &&
        (job->kind != JOB_WRITE || !must_wait(jobs, job))) {
      size_t left = job->n - job->taken;
      slice->job = job;
      slice->from = job->taken;
      slice->to = job->taken + (left < job->slice ? left : job->slice);
      emb_assert(slice->from < slice->to && slice->to <= job->n);
      emb_assert(!job->writing); /* J2 */
      job->taken = slice->to;
      job->writing = job->kind == JOB_WRITE;
      return 1;
    }
  }
  return 0;
}

/* Records the result of a finished slice; under jobs->lock.  A job stays in the
** queue until it is done, which keeps writes in order. */
static void give_result(emb_store *store, const struct slice *slice, int rc,
                        const emb_err *err) {
  struct jobs *jobs = &store->jobs;
  struct job *job = slice->job;
  if (rc && !job->rc && !EMB_SEED(SEED_JOB_ERROR_LOST)) {
    job->rc = rc;
    job->err = *err;
  }
  job->writing = 0;
  job->finished += slice->to - slice->from;
  emb_assert(job->finished <= job->taken && job->taken <= job->n);
  if (job->finished == job->n) {
    job->done_us = store->core.env->now_us(store->core.env);
    job->done = 1;
    unlink_job(jobs, job);
  }
  emb_check(job_valid(job) && jobs_valid(jobs));
  pthread_cond_broadcast(&jobs->ended);
}

/* ---- running a slice ----------------------------------------------------- */

int job_read(emb_session *w, struct job *job, size_t from, size_t to) {
  uint32_t again = 0, n = (uint32_t)(to - from);
  memcpy(w->cold, job->cold + from, n * sizeof *w->cold);
  w->reads.depth_now =
      atomic_load_explicit(&w->store->jobs.tune.depth, memory_order_relaxed);
  struct cold_batch batch = {.keys =
                                 job->cold_keys ? job->cold_keys : job->keys,
                             .n = n,
                             .promote = job->kind == JOB_READ,
                             .use = job->use,
                             .arg = job};
  int rc = cold_read(w, &batch, &again);
  for (uint32_t i = 0; i < again; i++) {
    if (job->kind == JOB_READ) {
      job->state[w->rows[i]] = FETCH_AGAIN;
    } else {
      count_add(&job->read, 1); /* written or moved during the read */
    }
  }
  return rc;
}

static int job_run(emb_session *w, const struct slice *slice) {
  emb_assert(w->leases.held == 0 && !w->txn); /* J3 */
  err_clear(&w->err);
  return slice->job->run(w, slice->job, slice->from, slice->to);
}

/* ---- workers ------------------------------------------------------------- */

/* A worker's session is freed after it was idle for this long. */
#define WORKER_IDLE_US UINT64_C(2000000)

struct worker {
  emb_store *store;
  uint32_t number;
  struct background background;
  /* While a slice runs, used by its run; otherwise under jobs.lock. */
  emb_session *session;
  uint64_t idle_us; /* idle since; 0: it works */
};

/* Takes a slice, if the worker is active and there is one; under jobs->lock. */
static int worker_take(struct worker *worker, struct slice *slice) {
  struct jobs *jobs = &worker->store->jobs;
  uint32_t active =
      atomic_load_explicit(&jobs->tune.workers, memory_order_relaxed);
  return !jobs->stopping && worker->session && worker->number < active &&
         job_take(jobs, slice);
}

/* The worker found no slice; returns when it is due.  Under jobs->lock. */
static uint64_t worker_rest(struct worker *worker, uint64_t now) {
  if (!worker->session) {
    return BACKGROUND_NEVER;
  }
  if (!worker->idle_us) {
    worker->idle_us = now;
  } else if (now - worker->idle_us >= WORKER_IDLE_US) {
    session_free(worker->session);
    worker->session = NULL;
    return BACKGROUND_NEVER;
  }
  return worker->idle_us + WORKER_IDLE_US;
}

/* Runs one slice only, so that the jobs of other stores get their turn. */
static uint64_t job_work(void *arg) {
  struct worker *worker = arg;
  struct env *env = worker->store->core.env;
  struct jobs *jobs = &worker->store->jobs;
  struct slice slice;
  uint64_t due_us = 0;
  pthread_mutex_lock(&jobs->lock);
  if (worker_take(worker, &slice)) {
    worker->idle_us = 0;
    pthread_mutex_unlock(&jobs->lock);
    int rc = job_run(worker->session, &slice);
    pthread_mutex_lock(&jobs->lock);
    give_result(worker->store, &slice, rc, &worker->session->err);
  } else {
    due_us = worker_rest(worker, env->now_us(env));
  }
  pthread_mutex_unlock(&jobs->lock);
  return due_us;
}

/* Makes the worker of that number ready to take slices; under jobs->lock. */
static int job_hire(emb_store *store, uint32_t number, emb_err *err) {
  struct jobs *jobs = &store->jobs;
  struct env *env = store->core.env;
  struct worker *worker = jobs->workers[number];
  int os = 0;
  if (!worker) {
    worker = env->allocate(env, sizeof *worker);
    os = worker ? background_start(&worker->background, store->core.process,
                                   BACKGROUND_JOBS, job_work, worker)
                : ENOMEM;
    if (os) {
      env->release(env, worker);
      return err_os(err, EMB_NOMEM, os, "cannot start a thread");
    }
    worker->store = store;
    worker->number = number;
    jobs->workers[number] = worker;
  }
  if (worker->session) {
    return EMB_OK;
  }
  int rc = session_new(store, &worker->session, err);
  if (!rc) {
    worker->session->reads.depth_max = jobs->tune.depth_max;
    worker->session->worker = &worker->background;
  }
  return rc;
}

/* Wakes this number of workers; under jobs->lock.  Succeeds if at least one
** worker could be started. */
static int job_call(emb_store *store, uint32_t workers, emb_err *err) {
  struct jobs *jobs = &store->jobs;
  emb_err why = {EMB_OK, ""};
  uint32_t ready = 0;
  int rc = EMB_OK;
  for (uint32_t i = 0; i < workers && !rc; i++) {
    rc = job_hire(store, i, &why);
    ready += !rc;
  }
  if (rc && !ready) {
    return err_set(err, rc, "%s", why.text);
  }
  for (uint32_t i = 0; i < ready; i++) {
    jobs->workers[i]->idle_us = 0;
    background_wake(&jobs->workers[i]->background);
  }
  return EMB_OK;
}

void jobs_init(emb_store *store) {
  struct jobs *jobs = &store->jobs;
  const emb_config *c = &store->config;
  pthread_condattr_t clock;
  pthread_mutex_init(&jobs->lock, NULL);
  pthread_mutex_init(&jobs->step_lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&jobs->ended, &clock);
  pthread_condattr_destroy(&clock);
  tune_init(&jobs->tune, c->io_depth_min, c->io_depth_max, c->io_workers_min,
            c->io_workers_max);
}

void jobs_stop(emb_store *store) {
  struct jobs *jobs = &store->jobs;
  struct env *env = store->core.env;
  pthread_mutex_lock(&jobs->lock);
  jobs->stopping = 1;
  pthread_mutex_unlock(&jobs->lock);
  for (uint32_t i = 0; i < EMB_IO_WORKERS_MAX; i++) {
    struct worker *worker = jobs->workers[i];
    if (worker) {
      background_end(&worker->background);
      if (worker->session) {
        session_free(worker->session);
      }
      env->release(env, worker);
      jobs->workers[i] = NULL;
    }
  }
  if (jobs->step_session) {
    session_free(jobs->step_session);
    jobs->step_session = NULL;
  }
}

/* Sorts the records by address, so that each page is read once. */
static int sort_records(struct job *job) {
  emb_session *s = job->session;
  struct env *env = s->core->env;
  qsort(job->cold, job->n, sizeof *job->cold, job_by_address);
  if (job->kind == JOB_READ) {
    return EMB_OK;
  }
  job->cold_keys = env->resize(env, NULL, job->n * sizeof *job->cold_keys);
  if (!job->cold_keys) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (size_t i = 0; i < job->n; i++) {
    job->cold_keys[i] = job->keys[job->cold[i].row];
    job->cold[i].row = (uint32_t)i;
  }
  return EMB_OK;
}

int job_start(struct job *job) {
  emb_session *s = job->session;
  emb_store *store = s->store;
  struct jobs *jobs = &store->jobs;
  uint32_t workers =
      atomic_load_explicit(&jobs->tune.workers, memory_order_relaxed);
  job->started_us = job->done_us = s->core->env->now_us(s->core->env);
  if (job->n == 0) {
    job->done = 1;
    return EMB_OK;
  }
  int rc = job->kind == JOB_WRITE ? EMB_OK : sort_records(job);
  job->slice = (job->n + workers - 1) / workers;
  job->slice = job->slice < SLICE_MIN ? SLICE_MIN : job->slice;
  job->slice = job->slice > s->chunk ? s->chunk : job->slice;
  job->slice = job->whole ? job->n : job->slice;
  uint32_t slices = (uint32_t)((job->n + job->slice - 1) / job->slice);
  pthread_mutex_lock(&jobs->lock);
  if (!rc && !s->core->step_mode) {
    background_allow(s->core->process, BACKGROUND_JOBS, workers);
    rc = job_call(store,
                  job->kind == JOB_WRITE ? 1
                  : slices < workers     ? slices
                                         : workers,
                  &s->err);
  }
  if (!rc) {
    job_append(jobs, job);
  }
  pthread_mutex_unlock(&jobs->lock);
  return rc;
}

/* Step mode: runs one slice in the caller's thread. */
int job_step(emb_store *store, int *did, emb_err *err) {
  struct jobs *jobs = &store->jobs;
  struct slice slice;
  int rc = EMB_OK;
  *did = 0;
  if (!store->core.step_mode) {
    return EMB_OK;
  }
  pthread_mutex_lock(&jobs->step_lock);
  if (!jobs->step_session) {
    rc = session_new(store, &jobs->step_session, err);
    if (!rc) {
      jobs->step_session->reads.depth_max = jobs->tune.depth_max;
    }
  }
  pthread_mutex_lock(&jobs->lock);
  *did = !rc && job_take(jobs, &slice);
  pthread_mutex_unlock(&jobs->lock);
  if (*did) {
    int result = job_run(jobs->step_session, &slice);
    pthread_mutex_lock(&jobs->lock);
    give_result(store, &slice, result, &jobs->step_session->err);
    pthread_mutex_unlock(&jobs->lock);
  }
  pthread_mutex_unlock(&jobs->step_lock);
  return rc;
}

int job_step_all(emb_session *s) {
  int rc = EMB_OK, did = s->core->step_mode;
  while (!rc && did) {
    rc = job_step(s->store, &did, &s->err);
  }
  return rc;
}

int job_is_done(struct job *job) {
  struct jobs *jobs = &job->session->store->jobs;
  pthread_mutex_lock(&jobs->lock);
  int done = job->done;
  pthread_mutex_unlock(&jobs->lock);
  return done;
}

int job_wait(struct job *job, int stops) {
  emb_session *s = job->session;
  struct jobs *jobs = &s->store->jobs;
  int rc = EMB_OK;
  while (!rc && !job_is_done(job)) {
    int did = 0;
    if (s->core->step_mode) {
      rc = job_step(s->store, &did, &s->err);
      continue;
    }
    pthread_mutex_lock(&jobs->lock);
    if (!job->done) {
      core_wait_ms(s->core, &jobs->ended, &jobs->lock, 20);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (stops) {
      rc = session_interrupted(s);
    }
  }
  return rc;
}

void job_cancel(struct job *job) {
  struct jobs *jobs = &job->session->store->jobs;
  pthread_mutex_lock(&jobs->lock);
  if (!job->done && job->kind != JOB_WRITE) {
    job->n = job->taken;
    if (job->finished == job->n) {
      job->done = 1;
      unlink_job(jobs, job);
    }
    emb_check(job_valid(job) && jobs_valid(jobs));
  }
  pthread_mutex_unlock(&jobs->lock);
  job_wait(job, 0);
}

int job__settle_writes(emb_session *s) {
  int rc = EMB_OK;
  for (struct job *job = s->tickets.first; !rc && job; job = job->sibling) {
    if (job->kind == JOB_WRITE) {
      rc = job_wait(job, 1);
    }
  }
  return rc;
}
