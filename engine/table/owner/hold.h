/* SPDX-License-Identifier: MIT
**
** hold.h -- what a reader needs stays where it is; see hold.c.
*/
#ifndef EMB_OWNER_HOLD_H
#define EMB_OWNER_HOLD_H

#include "engine/table/session/session.h"

/* Until hold_end a reader sees one checkpoint, and what that says is in the
** log's file stays there.  *held is for hold_end; after an error there is
** nothing to let go. */
int hold_begin(emb_session *s, int *held);
void hold_end(emb_session *s, int held);

#endif
