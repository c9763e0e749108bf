/* SPDX-License-Identifier: MIT
**
** restore.h -- private to restore.c and delta_apply.c: the rows of a file
** become the table's, within a transaction of the session.
*/
#ifndef EMB_STORE_RESTORE_H
#define EMB_STORE_RESTORE_H

#include "../core/form.h"
#include "txn.h"

struct restore {
  emb_session *s;
  const char *path;
  struct pack_reader *reader;
  struct form form;
  char *value;     /* of a record */
  float *vectors;  /* scratch */
  uint32_t newest; /* updated_at of all rows */
  uint64_t rows;
};

/* Opens it and sees that its rows fit the table. */
int restore_open(struct restore *r);
/* Reads all of it; then there is room for its rows, too. */
int restore_verify(struct restore *r);
/* Puts and deletes what it says; whole: and deletes all other keys. */
int restore_rows(struct restore *r, int whole);
/* After the commit.  In a table whose clock is the data's, that of the rows
** counts as told. */
void restore_tell(struct restore *r);
void restore_close(struct restore *r);

#endif
