/* SPDX-License-Identifier: MIT
**
** orphan.h -- a prepared transaction whose client has gone.
**
** Its coordinator, SQLite's file, may have decided to commit it, and only a
** process that can read that file knows.  So the transaction is in doubt, as
** after a crash (emb_in_doubt): nothing is written until emb_resolve says how
** it ends.  If the owner closes the store before that, or dies, the next owner
** finds the transaction in the log.
*/
#ifndef EMB_SERVE_ORPHAN_H
#define EMB_SERVE_ORPHAN_H

#include "engine/table/session/session.h"

/* Takes the session over, with its transaction. */
void orphan__adopt(emb_session *s, uint64_t number);
/* The store is closing: the transaction stays in doubt. */
void orphan__abandon(emb_store *store);

#endif
