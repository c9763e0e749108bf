/* SPDX-License-Identifier: MIT
**
** async.h -- what a session has under way: see async.c and ahead.c.
*/
#ifndef EMB_LOOKAHEAD_ASYNC_H
#define EMB_LOOKAHEAD_ASYNC_H

#include "engine/table/jobs/job.h"

/* Ends all tickets and look-aheads of a session that is being closed. */
void async_close(emb_session *s);
void ahead__close(emb_session *s);

#endif
