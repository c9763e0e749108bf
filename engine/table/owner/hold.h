/* SPDX-License-Identifier: MIT
**
** hold.h -- keeps the records that a reader needs in place; see hold.c.
*/
#ifndef EMB_OWNER_HOLD_H
#define EMB_OWNER_HOLD_H

#include "engine/table/session/session.h"

/* Until hold_end, a reader sees one checkpoint, and the records it names stay
** in the log file.  Pass *held to hold_end.  After an error there is nothing to
** release. */
int hold_begin(emb_session *s, int *held);
void hold_end(emb_session *s, int held);

#endif
