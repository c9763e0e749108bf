/* SPDX-License-Identifier: MIT
**
** dir.h -- operations on all files of a store's directory; see dir.c.
*/
#ifndef EMB_STORE_DIR_H
#define EMB_STORE_DIR_H

#include "engine/storage/kernel/store_file.h"

/* Calls each kind's `load`, in the order of features.def, until one fails. */
int dir_load(struct core *core, int recovered, emb_err *err);
/* Calls each kind's `save`; checkpoint->save. */
int dir_save(struct core *core, struct epoch_slot *slot, emb_err *err);
/* Calls each kind's `check`: damage is reported, and is no error. */
int dir_check(struct core *core, void (*report)(void *, const char *),
              void *arg, emb_err *err);

/* Under the owner's lock: removes files left by processes that died.  The valid
** checkpoint's index file has this generation. */
void dir_remove_leftovers(struct core *core, uint64_t index_generation);
/* Under the owner's lock: removes all files of the store, the manifest first.
** Returns the errno. */
int dir_remove(struct env *env, const char *dir);
/* Removes a failed backup that was never opened, except the index file.  Needs
** no file descriptor. */
void dir_remove_copy(struct env *env, const char *dir);

#endif
