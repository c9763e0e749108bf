/* SPDX-License-Identifier: MIT
**
** job.c -- the order in which workers take jobs.
**
** ORACLE    Each slice adds its job to a list when it begins and when it ends.
*/
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/table/jobs/job.h"

enum { READS = 128 }; /* two slices, so that two workers are woken */

/* What the slices share. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct job *held; /* its slice waits until this is NULL */
static const struct job *began[2], *ended[2];
static size_t n_began, n_ended;

static int run_noted(emb_session *w, struct job *job, size_t from, size_t to) {
  (void)w;
  CHECK_EQ_INT(to - from, 1);
  (void)pthread_mutex_lock(&lock);
  began[n_began++] = job;
  (void)pthread_cond_broadcast(&changed);
  while (held == job)
    (void)pthread_cond_wait(&changed, &lock);
  ended[n_ended++] = job;
  (void)pthread_mutex_unlock(&lock);
  return EMB_OK;
}

static int run_nothing(emb_session *w, struct job *job, size_t from,
                       size_t to) {
  (void)w;
  (void)job;
  CHECK(from < to);
  return EMB_OK;
}

static struct job *write_job(emb_session *s) {
  const int64_t key = 1;
  struct job *job = job_new(s, JOB_WRITE, &key, 1);
  job->run = run_noted;
  job->n = 1;
  return job;
}

/* A job of reads, for two workers. */
static struct job *read_job(emb_session *s) {
  static const int64_t keys[READS];
  struct env *env = s->core->env;
  struct job *job = job_new(s, JOB_READ, keys, READS);
  job->cold = env->allocate(env, READS * sizeof *job->cold);
  job->run = run_nothing;
  job->n = READS;
  return job;
}

/* While the first of a session's writes runs, another worker passes over the
** second one (J2), and takes the reads behind it. */
TEST(writes_of_a_session_in_order) {
  const emb_config config = {.dim = 4,
                             .flags = EMB_OPEN_CREATE,
                             .io_workers_min = 2,
                             .io_workers_max = 2};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  struct job *first = write_job(s), *second = write_job(s), *reads;
  held = first;
  OK(s, job_start(first));
  (void)pthread_mutex_lock(&lock);
  while (n_began == 0)
    (void)pthread_cond_wait(&changed, &lock);
  (void)pthread_mutex_unlock(&lock);
  OK(s, job_start(second));
  reads = read_job(s);
  OK(s, job_start(reads));
  OK(s, job_wait(reads, 0));
  (void)pthread_mutex_lock(&lock);
  CHECK_EQ_INT(n_began, 1);
  held = NULL;
  (void)pthread_cond_broadcast(&changed);
  (void)pthread_mutex_unlock(&lock);
  OK(s, job_wait(first, 0));
  OK(s, job_wait(second, 0));
  CHECK(began[0] == first && began[1] == second);
  CHECK(ended[0] == first && ended[1] == second);
  job_free(first);
  job_free(second);
  job_free(reads);
  help_close(store, s);
}
