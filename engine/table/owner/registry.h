/* SPDX-License-Identifier: MIT
**
** registry.h -- all stores that this process has open; see registry.c.
*/
#ifndef EMB_OWNER_REGISTRY_H
#define EMB_OWNER_REGISTRY_H

#include "engine/table/session/session.h"

/* The lock under which stores are found, created and closed. */
void registry_enter(void);
int registry_try_enter(void); /* 0: another thread has it */
void registry_leave(void);
/* Under the registry's lock: the store with this device and inode, or NULL;
** adding a store; removing one. */
emb_store *registry_find(const uint64_t id[2]);
void registry_add(emb_store *store);
void registry_remove(emb_store *store);

/* A store that a thread is opening, without the lock: it may wait for an owner
** or for a recovery.  Under the registry's lock. */
struct registry_opening {
  uint64_t id[2];
  struct registry_opening *next;
};
int registry_is_opening(const uint64_t id[2]);
void registry_begin_opening(struct registry_opening *opening);
void registry_end_opening(struct registry_opening *opening);

/* Calls visit for each open store, under the registry's lock. */
void registry_each(void (*visit)(void *arg, emb_store *store), void *arg);

/* EMB_CANTOPEN: the path is too long for the files of a store. */
int registry_check_path(const char *dir, emb_err *err);
/* *there: whether something is at this path; id identifies it.  It is an error
** if that cannot be determined: an open store must not be opened a second time
** in this process. */
int registry_identify(const char *dir, uint64_t id[2], int *there,
                      emb_err *err);

/* Takes the owner's lock of a store that is not open here: EMB_BUSY.  *there =
** 0: the store no longer exists.  Under the registry's lock, like the next two
** functions. */
int registry__lock_dir(const char *dir, struct env_lock **held, int *there,
                       emb_err *err);
/* Deletes the store's files, then its directory. */
int registry_destroy(const char *dir, emb_err *err);
/* Returns an errno; 0 also if other files keep the directory in place. */
int registry_remove_dir(const char *dir);
int registry_cannot_remove(const char *dir, int os, emb_err *err);

#endif
