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
  uint64_t number;  /* of the session at the owner */
  uint64_t serial;  /* of the link in this process; its objects have it, too */
  uint32_t holds;   /* SLOT_HAS_*, after the last call */
  uint32_t objects; /* open there, and lost when the owner goes */
  int is_used;      /* a call has been carried out */
  int owes;         /* the answer to a commit is still outstanding */
  int is_near;      /* process numbers mean the same there as here */
  struct remote_ticket *later; /* of a prefetch being requested */
  uint64_t aheads_before;      /* number of look-aheads before this link */
  struct units units;
  /* The callback of emb_verify, while it runs. */
  void (*report)(void *, const char *);
  void *report_arg;
};

/* How a link may fail to be made. */
enum link_trial {
  LINK_MADE = 0,
  LINK_NOBODY,  /* no process serves: there is no socket */
  LINK_LATER,   /* the owner is starting, leaving or has just died: retry */
  LINK_REFUSED, /* the session's error says why */
  LINK_HUNG_UP, /* only within link.c: hung up on our hello without an answer */
};

/* "process 12", or a text for a process of another container (0). */
struct process_name {
  char text[48];
};
struct process_name link__name(int64_t process);
/* The error for an unresponsive owner, with a remedy. */
#define LINK_SILENT                                                            \
  "%s is owned by %s, which does not answer; if it is stopped, let it go on "  \
  "or end it"

/* Finds how another process holds the lock; *holder is that process, unless it
** is not visible.  After an error *state is UNSETTLED. */
int link__lock_of(emb_store *store, enum env_lock_state *state, int64_t *holder,
                  emb_err *err);
/* Links the session to the owner of its store; waits at most wait_us for an
** answer (then LINK_REFUSED, EMB_BUSY). */
enum link_trial link__open(emb_session *s, uint64_t wait_us);
/* Ends the link: the session's transaction there is rolled back, and its leases
** are given back. */
void link__close(emb_session *s);

/* Asks the owner, with the call's args_NAME.  Paths in args are made absolute,
** in memory of this call, so such args are good for one call only.  EMB_OK: the
** call was carried out, and *result is what it returned.  CALL_ELSEWHERE: it
** was not, and the session has no link any more.  Otherwise the session's
** error. */
int link__ask(emb_session *s, int call, uint64_t object, void *args,
              uint64_t *result);

/* ---- link_valid.c -------------------------------------------------------- */

/* Only in self-checking builds (base/debug.h): returns 1; checks the session's
** link, if it has one. */
int link_valid(const emb_session *s);

#endif
