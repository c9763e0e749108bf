/* SPDX-License-Identifier: MIT
**
** dir.h -- all files of a store's directory; see dir.c.
*/
#ifndef EMB_STORE_DIR_H
#define EMB_STORE_DIR_H

#include "engine/storage/kernel/store_file.h"

/* Each kind's `load`, in the order of features.def, until one fails. */
int dir_load(struct core *core, int recovered, emb_err *err);
/* Each kind's `save`; checkpoint->save. */
int dir_save(struct core *core, struct epoch_slot *slot, emb_err *err);
/* Each kind's `check`: what is damaged is reported, and is no error. */
int dir_check(struct core *core, void (*report)(void *, const char *),
              void *arg, emb_err *err);

/* Under the owner's lock: what processes that died have left.  The valid
** checkpoint's index file is of this generation. */
void dir_remove_leftovers(struct core *core, uint64_t index_generation);
/* Under the owner's lock: all files of the store, the manifest first.  The
** errno. */
int dir_remove(struct env *env, const char *dir);
/* Of a backup that failed and was never opened; but the index file.  It takes
** no descriptor. */
void dir_remove_copy(struct env *env, const char *dir);

#endif
