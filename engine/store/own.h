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

#endif
