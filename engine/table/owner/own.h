/* SPDX-License-Identifier: MIT
**
** own.h -- ownership of a store; see own.c.
*/
#ifndef EMB_OWNER_OWN_H
#define EMB_OWNER_OWN_H

#include "engine/storage/ckpt/readers.h"
#include "engine/storage/ckpt/recover.h"
#include "engine/table/session/session.h"

/* Only in self-checking builds: under own.lock, while no state is loaded or
** discarded. */
int own_valid(const emb_store *store);

/* Before a write: makes this process the owner; checks that the store has not
** failed and nothing is in doubt. */
int own_claim(emb_session *s);
/* The error of a write to a dropped store. */
int own_dropped(emb_session *s);
/* Does this process own the store, or could it take it without waiting?
** CALL_ELSEWHERE: another one is the owner by now, and may serve this one. */
int own_may_write(emb_session *s, int *may);
/* Is a Get counted?  If so, this process becomes the owner, since its Puts must
** give the lease back.  While another process that does not serve is the owner,
** nothing is counted here.  CALL_ELSEWHERE as above. */
int own_counts(emb_session *s, int *counts);
/* Before a read: brings a reader to the newest checkpoint. */
int own_refresh(emb_session *s);
/* A reader found a damaged page: loads the newest checkpoint, because the owner
** may have reused the page's file slot.  Scans in storage order end. */
int own_reload(emb_session *s);

/* Loads the checkpoint of a manifest and, if replay is set, the log beyond it.
** Under own.lock, outside any epoch. */
int own_load(emb_store *store, const struct manifest *manifest, int replay,
             emb_err *err);
/* Takes the lock and becomes the owner; EMB_BUSY.  Under own.lock. */
int own_take(emb_store *store, emb_err *err);
/* Releases the lock. */
void own_unlock(emb_store *store);
/* own_take, if the manifest says that its owner did not close: that owner died,
** or it is alive and its last checkpoint is all that can be seen.  EMB_BUSY,
** without a text: another process owns the store, and *manifest was read again;
** or no process needs to own it, since the manifest is clean.  OWN_RECOVERING:
** another process is recovering the store, or has just released the lock;
** OWN_SERVED: another process serves it.  After these two, nothing may be
** shown before another attempt. */
int own_take_if_dead(emb_store *store, struct manifest *manifest, emb_err *err);
/* How another process holds the lock, and which process, if its pid is visible.
** Not to be called where this process may be the owner: see link__lock_of. */
int own_look(emb_store *store, enum env_lock_state *state, int64_t *holder,
             emb_err *err);
/* emb_resolve, for a transaction that recovery found in doubt. */
int own_resolve(emb_store *store, uint64_t number, int commit, emb_err *err);
/* May another process own the store, and be asked? */
static inline int own_may_ask(const emb_store *store) {
  return !store->remote.is_alone && !store->core.temporary &&
         !store->core.step_mode;
}
/* Is the loaded state that of the files?  Then no process has owned the store
** since it was loaded. */
int own_is_current(emb_store *store);
#define OWN_RECOVERING (-3)
#define OWN_SERVED (-6)
/* Sets the error text for a recovery that takes too long; returns EMB_BUSY. */
int own_recovering(const char *dir, emb_err *err);
/* If another process serves this one, discards the loaded state and frees its
** memory, unless something still reads it: then this is done when that ends. */
void own_unload(emb_store *store);
/* Loads the checkpoint of a manifest, or the checkpoint that replaced it. */
int own_load_newest(emb_store *store, const struct manifest *manifest,
                    emb_err *err);

#endif
