/* SPDX-License-Identifier: MIT
**
** txn.h -- writing in a transaction, its savepoints, and its end.  What it
** consists of is in txn_map.h.
*/
#ifndef EMB_TXN_H
#define EMB_TXN_H

#include "engine/table/session/txn_map.h"

/* As emb_txn_put for one row, with all that its record holds. */
int txn_put_value(emb_session *s, int64_t key, const void *value);

/* txn_save.c */
/* First line of a call that needs a transaction. */
int txn__need(emb_session *s);
int txn__savepoint(emb_session *s, int number);
int txn__undo_to(emb_session *s, size_t savepoint);
/* Before an entry of the map is replaced, if it must remember that; may write
** to disk. */
int txn__remember(emb_session *s, int64_t key, uint64_t word);
int txn__must_remember(const struct txn *txn, uint64_t word);
/* Was the entry made after the newest savepoint? */
int txn__is_fresh(const struct txn *txn, uint64_t word);

/* txn_valid.c, for emb_check; of the session, outside any epoch. */
int txn_valid(emb_session *s);

/* txn_end.c */
void txn_drop(emb_session *s);
/* The page that says that this transaction was undone after a prepare. */
int txn__write_abort(emb_session *s, uint64_t number);

#endif
