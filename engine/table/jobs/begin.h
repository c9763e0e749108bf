/* SPDX-License-Identifier: MIT
**
** begin.h -- the first line of every call that writes; see begin.c.
*/
#ifndef EMB_JOBS_BEGIN_H
#define EMB_JOBS_BEGIN_H

#include "engine/table/session/session.h"

/* session_begin for a call that writes: also waits for the session's background
** writes. */
int begin_write(emb_session *s);
/* begin_write for maintenance: also makes the process the owner.  EMB_LOCKED if
** the session has an open transaction; `what` names the maintenance. */
int begin_work(emb_session *s, const char *what);

#endif
