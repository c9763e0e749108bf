/* SPDX-License-Identifier: MIT
**
** env_lock.h -- lock files and byte locks; contracts in env.h.  Private to
** engine/base/env.
*/
#ifndef EMB_ENV_LOCK_H
#define EMB_ENV_LOCK_H

#include "env.h"

/* A descriptor that carries locks: a child after fork() closes it. */
struct env__owned {
  int *fd; /* -1 in a child */
  struct env__owned *next;
  struct env__owned **at; /* NULL: not on the list */
};

/* Call before closing the descriptor; does nothing if it carries no locks. */
void env__lock_disown(struct env__owned *owned);

int env__lock(struct env *, const char *path, struct env_lock **);
void env__unlock(struct env *, struct env_lock *);
void env__lock_settle(struct env *, struct env_lock *, enum env_lock_state);
int env__lock_look(struct env *, const char *path, enum env_lock_state *,
                   int64_t *process);
int env__byte_lock(struct env *, struct env_file *, uint64_t at,
                   enum env_byte_lock);
int env__byte_lock_lowest(struct env *, struct env_file *, uint64_t below,
                          uint64_t *at);

#endif
