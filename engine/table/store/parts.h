/* SPDX-License-Identifier: MIT
**
** parts.h -- the parts of a store, at its opening; see parts.c.
*/
#ifndef EMB_STORE_PARTS_H
#define EMB_STORE_PARTS_H

#include "store.h"

void parts_locks(emb_store *store);
/* Index, log and cache, of the size that the store's configuration says. */
int parts_memory(emb_store *store, emb_err *err);
/* Finds out how the disk can be accessed here. */
int parts_queue(emb_store *store, emb_err *err);

#endif
