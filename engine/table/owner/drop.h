/* SPDX-License-Identifier: MIT
**
** drop.h -- deletes the files of an open store; see drop.c.
*/
#ifndef EMB_OWNER_DROP_H
#define EMB_OWNER_DROP_H

#include "engine/table/store/store.h"

/* Under the registry's lock.  EMB_LOCKED: the store is in use, and nothing has
** changed. */
int drop_store(emb_store *store, emb_err *err);

#endif
