/* SPDX-License-Identifier: MIT
**
** advice.h -- how effective a store's memory is; see advice.c.
*/
#ifndef EMB_MEMORY_ADVICE_H
#define EMB_MEMORY_ADVICE_H

#include "engine/table/session/session.h"

/* Starts the period of the recent numbers now. */
void advice__begin(emb_store *store);

#endif
