/* SPDX-License-Identifier: MIT
**
** async.h -- a session's running batches and look-aheads: see async.c, ahead.c.
*/
#ifndef EMB_LOOKAHEAD_ASYNC_H
#define EMB_LOOKAHEAD_ASYNC_H

#include "engine/table/jobs/job.h"

/* Ends all tickets and look-aheads of a closing session. */
void async_close(emb_session *s);
void ahead__close(emb_session *s);

#endif
