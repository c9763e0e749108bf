/* SPDX-License-Identifier: MIT
**
** drop.h -- deletes the files of an open store; see drop.c.
*/
#ifndef EMB_OWNER_DROP_H
#define EMB_OWNER_DROP_H

#include "engine/table/store/store.h"

/* A piece of background work, or of another thread's call, keeps a store from
** being dropped for a moment: how often, and after what pause, to try again. */
#define DROP_TRIES 500
#define DROP_TRY_US 2000

/* Under the registry's lock.  EMB_LOCKED: the store is in use, and nothing has
** changed; *soon is then 1 if another try may succeed, and 0 if a transaction
** has written to the store. */
int drop_store(emb_store *store, int *soon, emb_err *err);

#endif
