/* SPDX-License-Identifier: MIT
**
** remote_batch.c -- prefetches and write-backs requested by a client; see
** tickets.h for what happens to them when their owner goes.
*/
#include <string.h>

#include "engine/features/lookahead/async.h"
#include "engine/table/jobs/job.h"
#include "remote.h"
#include "tickets.h"

/* ---- beginning ----------------------------------------------------------- */

/* Makes the ticket before the owner is asked: whatever it begins must have
** one. */
static struct remote_ticket *ticket_new(emb_session *s, int kind) {
  struct env *env = s->core->env;
  struct remote_ticket *t = env->allocate(env, sizeof *t);
  if (t) {
    t->kind = kind;
  } else {
    session_error(s, EMB_NOMEM, "out of memory");
  }
  return t;
}

/* Keeps the ticket if the owner has begun the operation. */
static int ticket_begun(emb_session *s, struct remote_ticket *t, int rc,
                        uint64_t *ticket) {
  if (rc) {
    tickets__free_one(s, t);
    return rc;
  }
  tickets__add(s, t);
  t->there = *ticket;
  t->serial = s->link->serial;
  t->number = ++s->tickets.last;
  emb_check(tickets_valid(s));
  *ticket = t->number;
  return EMB_OK;
}

int remote_prefetch(emb_session *session, const int64_t *keys, size_t n,
                    const emb_rows *to, uint64_t *ticket) {
  struct remote_ticket *t = ticket_new(session, JOB_READ);
  if (!t) {
    return session->err.code;
  }
  struct args_prefetch args = args_of_prefetch(session, keys, n, to, ticket);
  session->link->later = t;
  int rc = remote__ask_session(session, CALL_prefetch, &args);
  if (session->link) {
    session->link->later = NULL;
  }
  return ticket_begun(session, t, rc, ticket);
}

int remote_write_back(emb_session *session, const int64_t *keys, size_t n,
                      const float *vectors, uint64_t *ticket) {
  struct remote_ticket *t = ticket_new(session, JOB_WRITE);
  if (!t) {
    return session->err.code;
  }
  struct args_write_back args =
      args_of_write_back(session, keys, n, vectors, ticket);
  return ticket_begun(
      session, t, remote__ask_session(session, CALL_write_back, &args), ticket);
}

int remote_apply_async(emb_session *session, const int64_t *keys, size_t n,
                       const float *gradients, const emb_update *how,
                       uint64_t *ticket) {
  int rc = session_begin(session);
  rc = rc ? rc : async_check_how(session, how);
  struct remote_ticket *t = rc ? NULL : ticket_new(session, JOB_WRITE);
  if (!t) {
    return session->err.code;
  }
  struct args_apply_async args =
      args_of_apply_async(session, keys, n, gradients, how, ticket);
  rc = remote__ask_session(session, CALL_apply_async, &args);
  return ticket_begun(session, t, rc, ticket);
}

/* ---- synchronizing ------------------------------------------------------- */

static void ticket_deliver(const struct remote_ticket *t) {
  for (int i = 0; i < REQUEST_ARGS; i++) {
    if (t->to[i]) {
      memcpy(t->to[i], (char *)t->memory.base + t->extent.at[i],
             t->extent.length[i]);
    }
  }
}

static const char *ticket_word(int kind) {
  return kind == JOB_READ ? "prefetch" : "write-back";
}

/* Returns the outcome of a ticket without asking the owner. */
static int ticket_outcome(emb_session *s, struct remote_ticket *t) {
  const char *dir = s->core->dir, *what = ticket_word(t->kind);
  int code = t->state == TICKET_LOST ? EMB_LOST : t->code;
  if (t->state == TICKET_LOST) {
    session_error(s, code,
                  "the process that owned %s has %s, and the %s was lost with "
                  "it; begin it again",
                  dir, t->has_died ? "died" : "closed it", what);
  } else if (code) {
    session_error(s, code,
                  "the process that owned %s has closed it; the %s had failed "
                  "there; begin it again",
                  dir, what);
  } else {
    ticket_deliver(t);
  }
  return code;
}

static int synchronize_tickets(emb_session *s, int call, int kind,
                               uint64_t ticket, uint64_t *ended) {
  struct remote_ticket *t = tickets_find(s, kind, ticket);
  uint64_t number, which = 0;
  int rc;
  if (!t) {
    return ticket ? session_error(s, EMB_RANGE, "no %s with ticket %llu",
                                  ticket_word(kind), (unsigned long long)ticket)
                  : session_error(s, EMB_RANGE, "no %s is in progress",
                                  ticket_word(kind));
  }
  number = t->number;
  if (t->state == TICKET_FLYING) {
    union args args = {.prefetch_synchronize = {s, t->there, &which}};
    rc = remote__ask_session(s, call, &args);
    if (rc == CALL_ELSEWHERE) {
      rc = ticket_outcome(s, t);
    } else if (rc == EMB_OK) {
      ticket_deliver(t);
    } else if (t->state == TICKET_FLYING && which != t->there) {
      return rc; /* still in flight */
    }
  } else {
    rc = ticket_outcome(s, t);
  }
  tickets__end(s, t);
  if (ended) {
    *ended = number;
  }
  return rc;
}

int remote_prefetch_synchronize(emb_session *session, uint64_t ticket,
                                uint64_t *ended) {
  return synchronize_tickets(session, CALL_prefetch_synchronize, JOB_READ,
                             ticket, ended);
}

int remote_write_back_synchronize(emb_session *session, uint64_t ticket,
                                  uint64_t *ended) {
  return synchronize_tickets(session, CALL_write_back_synchronize, JOB_WRITE,
                             ticket, ended);
}

size_t remote_tickets(const emb_session *session, size_t *write_backs) {
  size_t n[2] = {0, 0};
  for (const struct remote_ticket *t = session->tickets.remote; t;
       t = t->next) {
    n[t->kind == JOB_WRITE]++;
  }
  if (write_backs) {
    *write_backs = n[1];
  }
  return n[0];
}
