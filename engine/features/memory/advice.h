/* SPDX-License-Identifier: MIT
**
** advice.h -- how effective a store's memory is; see advice.c.
*/
#ifndef EMB_MEMORY_ADVICE_H
#define EMB_MEMORY_ADVICE_H

#include "engine/table/session/session.h"

/* Does the cache's table have room for all frames of the budget?  Under
** budget_lock.  Only in self-checking builds. */
int memory_valid(emb_store *store);
/* Starts the period of the recent numbers now. */
void advice__begin(emb_store *store);

#endif
