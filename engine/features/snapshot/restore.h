/* SPDX-License-Identifier: MIT
**
** restore.h -- private to restore.c and delta_apply.c: puts the rows of a file
** into the table, within a transaction of the session.
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
  const emb_file_keys *keys; /* of the rows, if the file has texts; else NULL */
  struct pack_reader *reader;
  struct form form;
  char *value;     /* of a record */
  float *vectors;  /* scratch */
  uint32_t newest; /* updated_at of all rows */
  uint64_t rows;
};

/* From here to restore_leave no other call restores, applies, or changes the
** chain and the position: both files must describe the same table.
** EMB_BUSY. */
int restore_enter(emb_session *s);
void restore_leave(emb_session *s);
/* Opens the file and checks that its rows and the keys fit the table. */
int restore_open(struct restore *r);
/* Reads and checks the whole file, and allocates room for a row. */
int restore_verify(struct restore *r);
/* Returns the number of rows in the file, deletions included. */
uint64_t restore_count(const struct restore *r);
/* Applies the file's puts and deletions; whole: also deletes all other keys. */
int restore_rows(struct restore *r, int whole);
/* After the commit: if the table's clock is set by its data, the times of the
** rows count as given. */
void restore_settle(struct restore *r);
void restore_close(struct restore *r);

#endif
