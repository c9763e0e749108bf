/* SPDX-License-Identifier: MIT
**
** remote.h -- objects a session has open at the owner.
**
** An object is lost with its owner: EMB_LOST, or EMB_ABORT if the session was
** already told.  But a scan continues at the next owner if this one has left
** cleanly.
*/
#ifndef EMB_SERVE_REMOTE_H
#define EMB_SERVE_REMOTE_H

#include "link.h"
#include "remote_calls.h"

struct remote {
  struct link *link; /* first, not NULL; the session's if the serials agree */
  emb_session *s;
  uint64_t number, serial;
};

/* Opens an object of `bytes` bytes that begins with a struct remote, followed
** by zeros.  NULL: see *rc, the session's error or CALL_ELSEWHERE.  args: the
** call's args_NAME. */
void *remote__open(emb_session *s, int call, void *args, size_t bytes, int *rc);
/* Asks the owner to close it, if it is still the one where it was opened. */
void remote__close(struct remote *remote, int call);
/* Makes a call on an open object. */
int remote__ask(const void *object, int call, void *args, uint64_t *result);
int remote__is_there(const struct remote *remote);
/* EMB_ABORT, with a text. */
int remote__has_gone(const struct remote *remote);

/* For the calls marked ASK, OPEN and CLOSE in calls.def; returns the code. */
int remote__ask_session(emb_session *s, int call, void *args);
int remote__ask_code(const void *object, int call, void *args);
int remote__open_counted(emb_session *s, int call, void *args);
void remote__close_counted(void *object, int call);

#endif
