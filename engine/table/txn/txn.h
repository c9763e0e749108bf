/* SPDX-License-Identifier: MIT
**
** txn.h -- writing in a transaction, its savepoints, and its end.  txn_map.h
** describes its data.
*/
#ifndef EMB_TXN_H
#define EMB_TXN_H

#include "engine/table/session/txn_map.h"

/* As emb_txn_put for one row, given the whole stored value. */
int txn_put_value(emb_session *s, int64_t key, const void *value);

/* txn_save.c */
/* First line of a call that needs an open transaction. */
int txn__need(emb_session *s);
int txn__savepoint(emb_session *s, int number);
int txn__undo_to(emb_session *s, size_t savepoint);
/* Called before an entry of the map is replaced: saves it if a savepoint needs
** it.  May write to disk. */
int txn__remember(emb_session *s, int64_t key, uint64_t word);
int txn__must_remember(const struct txn *txn, uint64_t word);
/* Was the entry made after the newest savepoint? */
int txn__is_fresh(const struct txn *txn, uint64_t word);

/* txn_valid.c, for emb_check; by the session's thread, outside any epoch. */
int txn_valid(emb_session *s);

/* txn_end.c */
void txn_drop(emb_session *s);
/* Writes the page saying that this transaction was undone after a prepare. */
int txn__write_abort(emb_session *s, uint64_t number);

#endif
