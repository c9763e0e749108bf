/* SPDX-License-Identifier: MIT
**
** tickets.h -- a client's prefetches and write-backs, which are under way at
** the process that owns the store.
**
** A ticket has two numbers: the session's, which its caller knows and which no
** other ticket of the session has, wherever that is under way; and the owner's,
** which means something at that owner only.  So after a change of owner no
** ticket is taken for another.
**
** STATES    of a ticket
**
**   FLYING -> ended          synchronized at its owner       [remote_batch.c]
**   FLYING -> DONE           the owner has left in peace, and has finished it
**                            before: it is in the slot's list [tickets__left]
**   FLYING -> LOST           the owner died, was given up, or could not finish
**                            it (a prefetch that counted is not finished: its
**                            leases are given back)
**   DONE, LOST -> ended      synchronized, without asking anyone; LOST is
**                            EMB_LOST, once
**
** INVARIANT An array of the caller is written only from memory that the owner
**           has finished with: after its answer, or its leaving in peace.
** THREADS   The session's.
*/
#ifndef EMB_SERVE_TICKETS_H
#define EMB_SERVE_TICKETS_H

#include "link.h"

enum ticket_state { TICKET_FLYING, TICKET_DONE, TICKET_LOST };

struct remote_ticket {
  struct remote_ticket *next; /* the session's, oldest first */
  uint64_t number;            /* the session's */
  uint64_t serial, there;     /* its link, and the owner's number */
  int kind;                   /* JOB_READ, JOB_WRITE */
  enum ticket_state state;
  int code;     /* DONE: how it ended */
  int has_died; /* LOST: its owner has; else that has closed the store */
  /* Of a prefetch: where the owner puts what comes, and where that goes. */
  struct env_shared memory;
  struct extent_of extent;
  void *to[REQUEST_ARGS];
};

/* The oldest ticket of a kind (number 0), or that with this number; NULL. */
struct remote_ticket *tickets_find(const emb_session *s, int kind,
                                   uint64_t number);
void tickets__add(emb_session *s, struct remote_ticket *t);
/* It is over; or it was never one of the session's. */
void tickets__end(emb_session *s, struct remote_ticket *t);
void tickets__free_one(emb_session *s, struct remote_ticket *t);
/* The link is about to go: what becomes of what is under way there.  in_peace:
** the owner's list in the slot counts. */
void tickets__left(emb_session *s, const struct link *link, int in_peace);
/* Of a session that is closed. */
void tickets__free(emb_session *s);

#endif
