/* SPDX-License-Identifier: MIT
**
** async.h -- what a session has under way: see async.c and ahead.c.
*/
#ifndef EMB_STORE_ASYNC_H
#define EMB_STORE_ASYNC_H

#include "job.h"

/* Ends all tickets and look-aheads of a session that is being closed. */
void async_close(emb_session *s);
void ahead_close(emb_session *s);
/* Delivers those of the n records in s->cold that the session's own cache has:
** use as for read_cold.  Returns how many are left, at the front. */
uint32_t ahead_serve(emb_session *s, const int64_t *keys, uint32_t n,
                     cold_use use, void *arg);

#endif
