/* SPDX-License-Identifier: MIT
**
** leave.h -- the end of a session of this process's own store.
*/
#ifndef EMB_SERVE_LEAVE_H
#define EMB_SERVE_LEAVE_H

#include "engine/table/session/session.h"

/* What it has under way is ended first, then its transaction is undone, then
** its leases are given back. */
void leave_session(emb_session *s);

#endif
