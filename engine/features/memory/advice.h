/* SPDX-License-Identifier: MIT
**
** advice.h -- what the memory of a store is good for; see advice.c.
*/
#ifndef EMB_MEMORY_ADVICE_H
#define EMB_MEMORY_ADVICE_H

#include "engine/table/session/session.h"

/* What is recent begins now. */
void advice__begin(emb_store *store);

#endif
