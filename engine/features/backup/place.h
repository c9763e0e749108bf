/* SPDX-License-Identifier: MIT
**
** place.h -- a directory of stores; see place.c.
*/
#ifndef EMB_BACKUP_PLACE_H
#define EMB_BACKUP_PLACE_H

#include "engine/base/env/env.h"
#include "engine/emb.h"

/* Takes the owner's lock of a store that is not open here: EMB_LOCKED,
** EMB_BUSY. *lock is NULL if there is no directory.  Call place__let_go
** afterwards. */
int place__hold(const char *dir, struct env_lock **lock, emb_err *err);
void place__let_go(struct env_lock *lock);

#endif
