/* SPDX-License-Identifier: MIT
**
** store_file.h -- a kind of file in a store's directory: a constant that its
** feature defines and names in its descriptor (store/feature.h).  store/dir.c
** does the work common to all kinds: loading, saving, checking and removing.
**
** Files that a store needs only within its own process, while it runs, have no
** name in the file system and are not a kind.
*/
#ifndef EMB_KERNEL_STORE_FILE_H
#define EMB_KERNEL_STORE_FILE_H

#include "core.h"

/* A name that ends with '*' is a prefix that matches all names beginning with
** it. */
struct store_file {
  const char *name;      /* NULL: only a process that died leaves such a file */
  const char *temporary; /* name while being written; NULL: the same name */
  int in_copy;           /* a backup of a store has it, too */
  /* NULL: every file with this name is valid.  Otherwise: was the file left by
  ** a process that died, given the index file of this generation? */
  int (*is_left)(const char *name, uint64_t index_generation);
  /* Called when the process becomes the owner, before anything is freed or
  ** written, under ckpt_lock.  recovered: the previous owner died. */
  int (*load)(struct core *core, int recovered, emb_err *err);
  /* Called when a checkpoint is taken, before its index is written, under
  ** ckpt_lock.  The file has no data of its own, so the older file will do if
  ** there is no space: EMB_FULL does not prevent the checkpoint. */
  int (*save)(struct core *core, struct epoch_slot *slot, emb_err *err);
  /* Called by emb_verify, under ckpt_lock: the text of EMB_CORRUPT says what is
  ** wrong. */
  int (*check)(struct core *core, const char *name, emb_err *err);
};

#endif
