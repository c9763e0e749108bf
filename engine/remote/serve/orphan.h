/* SPDX-License-Identifier: MIT
**
** orphan.h -- a transaction that was prepared, and whose client has gone.
**
** Its coordinator, SQLite's file, may have decided for it, and only who can
** read that file knows.  So it is in doubt as after a crash (emb_in_doubt):
** nothing is written until emb_resolve says how it ends.  If the owner closes
** the store before that, or dies, the next one finds it in the log.
*/
#ifndef EMB_SERVE_ORPHAN_H
#define EMB_SERVE_ORPHAN_H

#include "engine/table/session/session.h"

/* Takes the session over, with its transaction. */
void orphan__adopt(emb_session *s, uint64_t number);
/* The store is closed: what is in doubt stays so. */
void orphan__abandon(emb_store *store);

#endif
