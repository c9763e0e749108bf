/* SPDX-License-Identifier: MIT
**
** job_valid.c -- each assertion about the queue of jobs fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/jobs/job.h"

static emb_store *store;
static emb_session *session;

TEST(the_queue_of_jobs) {
  const emb_config config = {.dim = 4,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  const int64_t key = 7;
  struct job *first, *second;
  if (!help_open(help_path("store"), &config, &store, &session))
    return;
  first = job_new(session, JOB_WRITE, &key, 1);
  second = job_new(session, JOB_WRITE, &key, 1);
  first->n = second->n = 2;
  if (!OK(session, job_start(first)) || !OK(session, job_start(second)))
    return;
  CHECK(store->jobs.first == first && first->next == second);
  CHECK(jobs_valid(&store->jobs));
  CHECK_FIRES(first->kind = 0; job_valid(first));
  CHECK_FIRES(first->finished = 1; job_valid(first));
  CHECK_FIRES(first->done = 1; job_valid(first));
  CHECK_FIRES(first->writing = 1; job_valid(first));
  CHECK_FIRES(first->whole = 1; first->taken = 1; job_valid(first));
  CHECK_FIRES(first->n = 0; jobs_valid(&store->jobs));
  CHECK_FIRES(second->taken = 1; second->writing = 1; jobs_valid(&store->jobs));
  CHECK_ALL_FIRED("engine/table/jobs/job_valid.c");
  CHECK_FIRES(first->taken = 1; job_free(first));
  store->jobs.first = NULL;
  job_free(first);
  job_free(second);
  help_close(store, session);
}
