/* SPDX-License-Identifier: MIT
**
** control.h -- asks the owner what concerns the store and no connection, by
** sessions of the store's own.
**
** ROLE      emb_stats, emb_committed and others have a store, and no session,
**           and may be called by any thread.
** LOCKS     control.lock: the session that is kept.  A call takes that out and
**           works without the lock: what it waits for may be long in coming,
**           and its interrupt callback may run a statement of the user's, which
**           asks the same store.  Where the kept one is out, a call makes
**           another, and one of them is kept.
*/
#ifndef EMB_SERVE_CONTROL_H
#define EMB_SERVE_CONTROL_H

#include "link.h"

/* CALL_* with its arguments, as link__ask; waits as the thread's patience says.
** CALL_ELSEWHERE: what is in this process is the newest there is.  After an
** error *result is 0. */
int control__ask(const emb_store *store, int call, void *args, uint64_t *result,
                 emb_err *err);
/* What the owner writes into the slot of each session, without asking it. */
enum control_word { CONTROL_DROPPED, CONTROL_IN_DOUBT };
uint64_t control__look(const emb_store *store, enum control_word which);
/* The owner's number, as the last call saw it; *is_near: so are the others that
** it names.  -1: it was not asked. */
int64_t control__owner(const emb_store *store, int *is_near);

/* Closes the kept one that is not used. */
extern const struct task task_control;

#endif
