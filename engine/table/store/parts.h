/* SPDX-License-Identifier: MIT
**
** parts.h -- the parts of a store, made when it is opened; see parts.c.
*/
#ifndef EMB_STORE_PARTS_H
#define EMB_STORE_PARTS_H

#include "store.h"

void parts_locks(emb_store *store);
/* Index, log and cache, sized by the store's configuration. */
int parts_memory(emb_store *store, emb_err *err);
/* Finds out which kind of disk access works here. */
int parts_queue(emb_store *store, emb_err *err);

#endif
