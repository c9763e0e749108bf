/* SPDX-License-Identifier: MIT
**
** restore.h -- private to restore.c and delta_apply.c: the rows of a file
** become the table's, within a transaction of the session.
*/
#ifndef EMB_SNAPSHOT_RESTORE_H
#define EMB_SNAPSHOT_RESTORE_H

#include "chain.h"
#include "engine/storage/schema/form.h"
#include "engine/table/txn/txn.h"

struct restore {
  emb_session *s;
  int begun; /* progress is reported */
  const char *path;
  const emb_file_keys *keys; /* of the rows of a file with texts; NULL */
  struct pack_reader *reader;
  struct form form;
  char *value;     /* of a record */
  float *vectors;  /* scratch */
  uint32_t newest; /* updated_at of all rows */
  uint64_t rows;
};

/* From here to restore_leave no other call restores, applies, or changes the
** chain and the position: the files of both describe one table.  EMB_BUSY. */
int restore_enter(emb_session *s);
void restore_leave(emb_session *s);
/* Opens it and sees that its rows fit the table, and keys fit them. */
int restore_open(struct restore *r);
/* Reads all of it; then there is room for its rows, too. */
int restore_verify(struct restore *r);
/* Rows that the file says it has, deletions included. */
uint64_t restore_count(const struct restore *r);
/* Puts and deletes what it says; whole: and deletes all other keys. */
int restore_rows(struct restore *r, int whole);
/* After the commit.  In a table whose clock is the data's, that of the rows
** counts as given. */
void restore_settle(struct restore *r);
void restore_close(struct restore *r);

#endif
