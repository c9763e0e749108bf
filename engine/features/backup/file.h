/* SPDX-License-Identifier: MIT
**
** file.h -- private to backup/: a file of rows that is read without a store,
** between file.c and texts.c.
*/
#ifndef EMB_BACKUP_FILE_H
#define EMB_BACKUP_FILE_H

#include "engine/storage/pack/emb_file.h"
#include "engine/storage/schema/form.h"

struct emb_file {
  struct env *env;
  struct pack_reader *reader;
  struct form form;
  uint64_t row;  /* the next one of the reader's, */
  uint64_t text; /* and whose text comes next */
};

#endif
