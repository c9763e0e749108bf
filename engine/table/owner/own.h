/* SPDX-License-Identifier: MIT
**
** own.h -- ownership of a store; see own.c.
*/
#ifndef EMB_OWNER_OWN_H
#define EMB_OWNER_OWN_H

#include "engine/storage/ckpt/readers.h"
#include "engine/storage/ckpt/recover.h"
#include "engine/table/session/session.h"

/* Before a write: the process owns the store, nothing failed or is in doubt. */
int own_claim(emb_session *s);
/* The error of a write to a store that was dropped. */
int own_dropped(emb_session *s);
/* Does this process own the store, or could it take it without waiting?
** CALL_ELSEWHERE: another one is the owner by now, and may serve this one. */
int own_may_write(emb_session *s, int *may);
/* Is a Get counted?  Then this process must be the one whose Puts give it back,
** so it becomes the owner; while another one is that does not serve, nothing is
** counted here.  CALL_ELSEWHERE as above. */
int own_counts(emb_session *s, int *counts);
/* Before a read: a reader sees the newest checkpoint. */
int own_refresh(emb_session *s);
/* A reader found a page damaged: loads the newest checkpoint, because the owner
** may have used its file slot again.  Scans in storage order end. */
int own_reload(emb_session *s);

/* Loads the checkpoint of a manifest, and with replay the log beyond it.
** Under own.lock, outside any epoch. */
int own_load(emb_store *store, const struct manifest *manifest, int replay,
             emb_err *err);
/* Takes the lock and becomes owner; EMB_BUSY.  Under own.lock. */
int own_take(emb_store *store, emb_err *err);
/* Gives the lock back. */
void own_unlock(emb_store *store);
/* own_take, if the manifest says that its owner did not close: it died, or is
** alive, and then its last checkpoint is what there is to see.  EMB_BUSY,
** without a text: another process owns the store, or none needs to; the
** manifest is read anew.  OWN_RECOVERING: another process is recovering it, or
** has just released the lock; OWN_SERVED: another process serves it.  Nothing
** may be shown before another attempt. */
int own_take_if_dead(emb_store *store, struct manifest *manifest, emb_err *err);
/* How another process holds the lock, and which, if that can be seen.  Not
** where this one may be the owner: see link__lock_of. */
int own_look(emb_store *store, enum env_lock_state *state, int64_t *holder,
             emb_err *err);
/* emb_resolve, of what recovery has found. */
int own_resolve(emb_store *store, uint64_t number, int commit, emb_err *err);
/* May the store be another process's, and be asked of that? */
static inline int own_may_ask(const emb_store *store) {
  return !store->remote.is_alone && !store->core.temporary &&
         !store->core.step_mode;
}
/* What is loaded is what the files have: no process has owned the store
** since. */
int own_is_current(emb_store *store);
#define OWN_RECOVERING (-3)
#define OWN_SERVED (-6)
/* Its text, when that takes too long: EMB_BUSY. */
int own_recovering(const char *dir, emb_err *err);
/* If another process serves this one, what was loaded here is forgotten and its
** memory given back, unless something still reads it: then when that ends. */
void own_unload(emb_store *store);
/* Loads the checkpoint of a manifest, or the one that has replaced it. */
int own_load_newest(emb_store *store, const struct manifest *manifest,
                    emb_err *err);

#endif
