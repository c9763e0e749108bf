/* SPDX-License-Identifier: MIT
**
** txn_row.h -- one row of a transaction: written, deleted, read.  The session
** has a transaction with a number.
*/
#ifndef EMB_TXN_ROW_H
#define EMB_TXN_ROW_H

#include "engine/table/rows/value.h"
#include "txn.h"

/* Which keys a write is for. */
enum txn_which { PUT_ANY, PUT_PRESENT, PUT_ABSENT };

struct txn_row {
  int64_t key;
  enum txn_which which;
  const struct row_change *change;
  const float *says; /* of the change */
  const float *read;
  uint32_t times;        /* rows of the batch that it stands for */
  uint32_t at;           /* its position in the chunk, */
  struct loaded *loaded; /* for which this was read; or NULL */
  int found;             /* the key was there */
  int done;              /* it was written: the key was as it was to be */
};

/* Writes it, and waits for room in the log where it must. */
int txn__put_row(emb_session *s, struct txn_row *row);
/* *found: the key was there. */
int txn__delete_row(emb_session *s, int64_t key, uint8_t *found);
/* The stored value of a key, which is claimed if the session sees it: *found.
 */
int txn__read_row(emb_session *s, int64_t key, void *value, int *found);
/* Is there more to do than to write down what the row says? */
int txn__needs_old(const emb_session *s, const struct row_change *change);

#endif
