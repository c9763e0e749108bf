/* SPDX-License-Identifier: MIT
**
** own.h -- ownership of a store; see own.c.
*/
#ifndef EMB_STORE_OWN_H
#define EMB_STORE_OWN_H

#include "../ckpt/recover.h"
#include "../ckpt/seen.h"
#include "store.h"

/* Loads the checkpoint of a manifest, and with replay the log beyond it.
** Under own_lock, outside any epoch. */
int own_load(emb_store *store, const struct manifest *manifest, int replay,
             emb_err *err);
/* Takes the lock and becomes owner; EMB_BUSY.  Under own_lock. */
int own_take(emb_store *store, emb_err *err);
/* own_take, if the manifest says that its owner did not close: it died, or is
** alive, and then its last checkpoint is what there is to see.  EMB_BUSY,
** without a text: somebody owns the store, or nobody needs to. */
int own_inherit(emb_store *store, const struct manifest *manifest,
                emb_err *err);
/* Loads the checkpoint of a manifest, or the one that has replaced it. */
int own_follow(emb_store *store, const struct manifest *manifest, emb_err *err);

#endif
