/* SPDX-License-Identifier: MIT
**
** tickets.h -- a client's prefetches and write-backs in flight at the process
** that owns the store.
**
** A ticket has two numbers: the session's, which its caller knows and which is
** unique in the session, wherever the ticket is in flight; and the owner's,
** which is valid only at that owner.  So after a change of owner no ticket is
** mistaken for another.
**
** STATES    of a ticket
**
**   FLYING -> ended          synchronized at its owner       [remote_batch.c]
**   FLYING -> DONE           the owner finished it and then left cleanly: it is
**                            in the slot's list [tickets__left]
**   FLYING -> LOST           the owner died, was given up, or could not finish
**                            it (a counted prefetch is not finished: its leases
**                            are given back)
**   DONE, LOST -> ended      synchronized without asking any owner; LOST
**                            results in EMB_LOST, once
**
** INVARIANT A caller's array is written only from memory that the owner has
**           finished with: after its answer, or after it has left cleanly.
** THREADS   The session's.
*/
#ifndef EMB_SERVE_TICKETS_H
#define EMB_SERVE_TICKETS_H

#include "link.h"

enum ticket_state { TICKET_FLYING, TICKET_DONE, TICKET_LOST };

struct remote_ticket {
  struct remote_ticket *next; /* the session's, oldest first */
  uint64_t number;            /* the session's */
  uint64_t serial, there;     /* of its link; the owner's number */
  int kind;                   /* JOB_READ, JOB_WRITE */
  enum ticket_state state;
  int code;     /* DONE: how it ended */
  int has_died; /* LOST: the owner died, else closed the store */
  /* Of a prefetch: the owner's output, and its destination. */
  struct env_shared memory;
  struct extent_of extent;
  void *to[REQUEST_ARGS];
};

/* Returns the oldest ticket of a kind (number 0) or the ticket with this
** number, or NULL. */
struct remote_ticket *tickets_find(const emb_session *s, int kind,
                                   uint64_t number);
void tickets__add(emb_session *s, struct remote_ticket *t);
/* Ends a ticket that is over, or that was never added to the session. */
void tickets__end(emb_session *s, struct remote_ticket *t);
void tickets__free_one(emb_session *s, struct remote_ticket *t);
/* Settles the tickets in flight on a link about to be dropped.  in_peace: the
** owner's list in the slot is valid. */
void tickets__left(emb_session *s, const struct link *link, int in_peace);
/* Frees the tickets of a closed session. */
void tickets__free(emb_session *s);

/* Only in self-checking builds (base/debug.h): returns 1. */
int tickets_valid(const emb_session *s);

#endif
