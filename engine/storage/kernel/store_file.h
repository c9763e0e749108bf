/* SPDX-License-Identifier: MIT
**
** store_file.h -- a kind of file in a store's directory, as a constant that its
** feature defines, and names in its descriptor (store/feature.h); store/dir.c
** does what is done with all: loading, saving, the check, and removing.
**
** What a store of its own process only needs while it runs has no name in the
** file system, and is no kind.
*/
#ifndef EMB_KERNEL_STORE_FILE_H
#define EMB_KERNEL_STORE_FILE_H

#include "core.h"

/* Names end with '*' where they stand for all that begin so. */
struct store_file {
  const char *name;      /* NULL: it is never left but by a process that died */
  const char *temporary; /* while it is written; NULL: under no other name */
  int in_copy;           /* a backup of a store has it, too */
  /* NULL: what has this name counts.  Else, is it one that a process that died
  ** has left, beside the index file of this generation? */
  int (*is_left)(const char *name, uint64_t index_generation);
  /* The process becomes the owner: called before anything is freed or written,
  ** under ckpt_lock.  recovered: the owner before died. */
  int (*load)(struct core *core, int recovered, emb_err *err);
  /* A checkpoint is taken: called before its index is written, under ckpt_lock.
  ** No data, so that the older one will do where there is no space: EMB_FULL
  ** does not keep the checkpoint from being taken. */
  int (*save)(struct core *core, struct epoch_slot *slot, emb_err *err);
  /* emb_verify, under ckpt_lock: EMB_CORRUPT says in its text what is wrong. */
  int (*check)(struct core *core, const char *name, emb_err *err);
};

#endif
