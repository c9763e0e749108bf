/* SPDX-License-Identifier: MIT
**
** begin.h -- the first line of calls that write; see begin.c.
*/
#ifndef EMB_JOBS_BEGIN_H
#define EMB_JOBS_BEGIN_H

#include "engine/table/session/session.h"

/* session_begin before a write: what the session writes in the background comes
** first. */
int begin_write(emb_session *s);
/* The same before maintenance, which no transaction of the session may be open
** for; `what` names it. */
int begin_work(emb_session *s, const char *what);

#endif
