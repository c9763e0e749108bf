/* SPDX-License-Identifier: MIT
**
** async.h -- a session's running batches and look-aheads: see async.c, ahead.c.
*/
#ifndef EMB_LOOKAHEAD_ASYNC_H
#define EMB_LOOKAHEAD_ASYNC_H

#include "engine/storage/index/index.h"
#include "engine/table/jobs/job.h"

#define AHEADS 64

struct aheads {             /* a session's look-aheads; its thread only */
  struct job *jobs[AHEADS]; /* by number % AHEADS */
  size_t kept_bytes;
  /* Log address -> the job's slot in `jobs` and its record: slot << 32 |
  ** (record + 1). */
  struct index kept;
};

/* Are the batches and the look-aheads of a session, between two calls, as
** described here?  Only in self-checking builds. */
int async_tickets_valid(const emb_session *s);
int async_aheads_valid(const emb_session *s);
/* Refuses vectors that were read. */
int async_check_how(emb_session *s, const emb_update *how);
/* Ends all tickets and look-aheads of a closing session. */
void async_close(emb_session *s);
void ahead__close(emb_session *s);

#endif
