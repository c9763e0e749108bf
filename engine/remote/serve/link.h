/* SPDX-License-Identifier: MIT
**
** link.h -- a session's link to the process that owns its store.
*/
#ifndef EMB_SERVE_LINK_H
#define EMB_SERVE_LINK_H

#include "shape.h"

struct remote_ticket; /* tickets.h */

struct link {
  struct env_peer *peer;
  struct env_who owner;
  struct env_shared memory;
  struct link_slot *slot;
  uint64_t number;  /* of the session there */
  uint64_t serial;  /* of the link in this process: objects have it, too */
  uint32_t holds;   /* SLOT_HAS_*, after the last call */
  uint32_t objects; /* open there, that end with the owner */
  int is_used;      /* a call was carried out */
  int owes;         /* the answer to a commit that was not waited for */
  int is_near;      /* process numbers mean the same there as here */
  struct remote_ticket *later; /* of a prefetch that is asked for just now */
  uint64_t aheads_before;      /* the session's look-aheads before this link */
  struct units units;
  /* emb_verify's, while it runs. */
  void (*report)(void *, const char *);
  void *report_arg;
};

/* How a link may fail to be made. */
enum link_trial {
  LINK_MADE = 0,
  LINK_NOBODY,  /* nobody serves: there is no socket */
  LINK_LATER,   /* its owner begins, ends, or has just died: try again */
  LINK_REFUSED, /* the session's error says why */
  LINK_HUNG_UP, /* of link.c alone: it has heard the hello, and not answered */
};

/* "process 12", or what to say of one of another container (0). */
struct process_name {
  char text[48];
};
struct process_name link__name(int64_t process);
/* What is said of an owner that gives no sign of life, and what to do. */
#define LINK_SILENT                                                            \
  "%s is owned by %s, which does not answer; if it is stopped, let it go on "  \
  "or end it"

/* How another process holds the lock; *holder is that one, unless it cannot be
** seen.  After an error *state is UNSETTLED. */
int link__lock_of(emb_store *store, enum env_lock_state *state, int64_t *holder,
                  emb_err *err);
/* Links the session to the owner of its store; waits for an answer for
** wait_us at most (LINK_REFUSED, EMB_BUSY). */
enum link_trial link__open(emb_session *s, uint64_t wait_us);
/* Ends it: what the session holds there is rolled back and given back. */
void link__close(emb_session *s);

/* Asks the owner, with the call's args_NAME.  Paths in them become absolute, in
** memory of this call: such arguments are for one call.  EMB_OK: it was carried
** out, and *result is what it returned.  CALL_ELSEWHERE: it was not, and the
** session has no link any more.  Else an error, which is the session's. */
int link__ask(emb_session *s, int call, uint64_t object, void *args,
              uint64_t *result);

#endif
