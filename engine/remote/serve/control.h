/* SPDX-License-Identifier: MIT
**
** control.h -- asks the owner about the store itself, not a connection, through
** the store's own sessions.
**
** ROLE      emb_stats, emb_committed and others take a store, not a session,
**           and may be called by any thread.
** LOCKS     control.lock protects the cached session.  A call takes the session
**           out and works without the lock: the wait may be long, and its
**           interrupt callback may run a statement of the user's on the same
**           store.  If the cached session is in use, a call makes another; one
**           of the two is kept.
*/
#ifndef EMB_SERVE_CONTROL_H
#define EMB_SERVE_CONTROL_H

#include "link.h"

/* Asks for CALL_* with its arguments, as link__ask; waits as the thread's
** patience says.  CALL_ELSEWHERE: the state in this process is the newest.
** After an error *result is 0. */
int control__ask(const emb_store *store, int call, void *args, uint64_t *result,
                 emb_err *err);
/* Values the owner publishes in the slot of each session; reading them needs no
** call. */
enum control_word { CONTROL_DROPPED, CONTROL_IN_DOUBT };
uint64_t control__look(const emb_store *store, enum control_word which);
/* Returns the owner's process number as of the last call, or -1 if it was not
** asked.  *is_near: process numbers mean the same there as here. */
int64_t control__owner(const emb_store *store, int *is_near);

/* Closes the cached session when unused. */
extern const struct task task_control;

#endif
