/* SPDX-License-Identifier: MIT
**
** remote.h -- what a session has open at the owner's.
**
** It ends with its owner: EMB_LOST, or EMB_ABORT if the session was told that
** before.  But a scan goes on at the next one, if this one has left in peace.
*/
#ifndef EMB_SERVE_REMOTE_H
#define EMB_SERVE_REMOTE_H

#include "link.h"
#include "served.h"

struct remote {
  struct link *link; /* first: not NULL.  The session's has the serial */
  emb_session *s;
  uint64_t number, serial;
};

/* Begins with a struct remote; zeros behind it.  NULL: *rc, the session's
** error or CALL_ELSEWHERE.  args: the call's args_NAME. */
void *remote__open(emb_session *s, int call, void *args, size_t bytes, int *rc);
/* Asks the owner to close it, if that is the one it was opened at. */
void remote__close(struct remote *remote, int call);
/* A call of what is open. */
int remote__ask(const void *object, int call, void *args, uint64_t *result);
int remote__is_there(const struct remote *remote);
/* EMB_ABORT, with a text. */
int remote__has_gone(const struct remote *remote);

/* For the calls that calls.def says are asked, opened and closed: the code. */
int served__ask(emb_session *s, int call, void *args);
int remote__ask_code(const void *object, int call, void *args);
int remote__open_counted(emb_session *s, int call, void *args);
void remote__close_counted(void *object, int call);

#endif
