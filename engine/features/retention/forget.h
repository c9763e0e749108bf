/* SPDX-License-Identifier: MIT
**
** forget.h -- a writer's share in keeping a table below its capacity.
*/
#ifndef EMB_RETENTION_FORGET_H
#define EMB_RETENTION_FORGET_H

#include "engine/table/session/session.h"

/* store->forget: at the end of a call that wrote, and before a transaction.
** Does a piece of the work if there is too much (retention/evict.h says when it
** waits for others).  Outside any epoch and lock.  What fails is left to
** steps. */
void forget__help(emb_session *s);

#endif
