/* SPDX-License-Identifier: MIT
**
** forget.h -- a writer's share of keeping a table below its capacity.
*/
#ifndef EMB_RETENTION_FORGET_H
#define EMB_RETENTION_FORGET_H

#include "engine/table/session/session.h"

/* store->forget: called at the end of a call that wrote, and before a
** transaction.  Does a piece of eviction if there are too many rows
** (retention/evict.h says when it waits for others).  Outside any epoch and
** lock.  Failures are left to the background steps. */
void forget__help(emb_session *s);

#endif
