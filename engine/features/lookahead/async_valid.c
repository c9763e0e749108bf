/* SPDX-License-Identifier: MIT
**
** async_valid.c -- checks that the batches and look-aheads of a session are as
** async.h and jobs/job.h say.  Only in self-checking builds (base/debug.h).
*/
#include "async.h"

#if EMB_DEBUG > 0

int async_tickets_valid(const emb_session *s) {
  int count = 0;
  for (const struct job *job = s->tickets.first; job; job = job->sibling) {
    emb_assert(job->session == s);
    emb_assert(job->kind == JOB_READ || job->kind == JOB_WRITE);
    emb_assert(job->number && job->number <= s->tickets.last);
    for (const struct job *at = job->sibling; at; at = at->sibling) {
      emb_assert(at->number != job->number);
    }
    count++;
  }
  /* Data loaded for tickets stays loaded. */
  emb_assert(atomic_load(&s->store->sessions.tickets) >= count);
  return 1;
}

int async_aheads_valid(const emb_session *s) {
  const struct aheads *a = s->ahead.list;
  size_t bytes = 0;
  for (uint64_t i = 0; a && i < AHEADS; i++) {
    const struct job *job = a->jobs[i];
    if (job) {
      emb_assert(job->number % AHEADS == i);
      emb_assert(job->kind == JOB_AHEAD || job->kind == JOB_KEEP);
      emb_assert(job->kept || !job->kept_bytes);
      emb_assert(job->kept || !job->merged);
      emb_assert(job->kept_left <= job->key_count);
      bytes += job->kept_bytes;
    }
  }
  emb_assert(!a || bytes == a->kept_bytes);
  return 1;
}

#endif
