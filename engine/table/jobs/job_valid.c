/* SPDX-License-Identifier: MIT
**
** job_valid.c -- checks the queue of jobs against job.h.  Only in self-checking
** builds (base/debug.h); under jobs.lock.
*/
#include "job.h"

#if EMB_DEBUG > 0

int job_valid(const struct job *job) {
  emb_assert(job->kind >= JOB_READ && job->kind <= JOB_WRITE);
  emb_assert(job->finished <= job->taken && job->taken <= job->n);
  emb_assert(!job->done || job->finished == job->n);
  emb_assert(!job->whole ||
             (job->kind == JOB_WRITE && (!job->taken || job->taken == job->n)));
  emb_assert(!job->writing ||
             (job->kind == JOB_WRITE && job->finished < job->taken));
  return 1;
}

/* J2: does an older job of the session write? */
static int follows_write(const struct jobs *jobs, const struct job *job) {
  const struct job *at = jobs->first;
  while (at != job && (at->kind != JOB_WRITE || at->session != job->session)) {
    at = at->next;
  }
  return at != job;
}

int jobs_valid(const struct jobs *jobs) {
  for (const struct job *job = jobs->first; job; job = job->next) {
    (void)job_valid(job);
    emb_assert(!job->done && job->n);
    emb_assert(!job->writing || !follows_write(jobs, job)); /* J2 */
  }
  return 1;
}

#endif
