/* SPDX-License-Identifier: MIT
**
** tickets_valid.c -- checks the states of a session's tickets, as tickets.h
** describes them.  Only in self-checking builds (base/debug.h).  The owner's
** number and the outcome it reports come from another process.
*/
#include "tickets.h"

#include "engine/table/jobs/job.h"

#if EMB_DEBUG > 0

static void check_ticket(const emb_session *s, const struct remote_ticket *t) {
  emb_assert(t->kind == JOB_READ || t->kind == JOB_WRITE);
  emb_assert(t->kind == JOB_READ || !t->memory.base);
  emb_assert(t->number && t->number <= s->tickets.last);
  switch (t->state) {
  case TICKET_FLYING: /* on the session's only link */
    emb_assert(s->link && s->link->serial == t->serial);
    break;
  case TICKET_DONE:
    emb_assert(t->code >= 0);
    emb_assert(!t->has_died);
    break;
  default:
    emb_assert(t->state == TICKET_LOST);
    break;
  }
}

int tickets_valid(const emb_session *s) {
  uint64_t older = 0;
  for (const struct remote_ticket *t = s->tickets.remote; t; t = t->next) {
    check_ticket(s, t);
    emb_assert(t->number > older);
    older = t->number;
  }
  return 1;
}

#endif
