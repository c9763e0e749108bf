/* SPDX-License-Identifier: MIT
**
** file.h -- private to backup/: a file of rows read without a store; used by
** file.c and texts.c.
*/
#ifndef EMB_BACKUP_FILE_H
#define EMB_BACKUP_FILE_H

#include "engine/storage/pack/emb_file.h"
#include "engine/storage/schema/form.h"

struct emb_file {
  struct env *env;
  struct pack_reader *reader;
  struct form form;
  uint64_t row;  /* the reader's next row */
  uint64_t text; /* the row of the next text */
};

#endif
