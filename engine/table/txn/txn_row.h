/* SPDX-License-Identifier: MIT
**
** txn_row.h -- one row of a transaction: written, deleted, read.  The session
** has a transaction with a number.
*/
#ifndef EMB_TXN_ROW_H
#define EMB_TXN_ROW_H

#include "engine/table/rows/value.h"
#include "txn.h"

/* Which keys a write applies to. */
enum txn_which { PUT_ANY, PUT_PRESENT, PUT_ABSENT };

struct txn_row {
  int64_t key;
  enum txn_which which;
  const struct row_change *change;
  const float *says; /* input of the change */
  const float *read;
  uint32_t times;        /* rows of the batch it stands for */
  uint32_t at;           /* its position in the chunk */
  struct loaded *loaded; /* old values read for the chunk; or NULL */
  int found;             /* the key was present */
  int done;              /* written: present or absent as required */
};

/* Writes the row, and waits for room in the log if necessary. */
int txn__put_row(emb_session *s, struct txn_row *row);
/* *found: the key was present. */
int txn__delete_row(emb_session *s, int64_t key, uint8_t *found);
/* Reads a key's stored value, and claims the key if the session sees it: then
** *found is set. */
int txn__read_row(emb_session *s, int64_t key, void *value, int *found);
/* Does the new value depend on more than the row given? */
int txn__needs_old(const emb_session *s, const struct row_change *change);

#endif
