/* SPDX-License-Identifier: MIT
**
** leave.h -- ends a session of a store of this process.
*/
#ifndef EMB_SERVE_LEAVE_H
#define EMB_SERVE_LEAVE_H

#include "engine/table/session/session.h"

/* Ends its operations in flight, then rolls back its transaction, then gives
** back its leases. */
void leave_session(emb_session *s);

#endif
