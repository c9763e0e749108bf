/* SPDX-License-Identifier: MIT
**
** make.h -- the files of a store, at its opening; see make.c.
*/
#ifndef EMB_STORE_MAKE_H
#define EMB_STORE_MAKE_H

#include "store.h"

/* Dimension and type come from the store where there is one.  *create: there is
** none, and one is asked for. */
int make_layout(emb_store *store, int *create, emb_err *err);
/* Takes the lock under which a store is made, after its directory.  *create is
** 0 if another process has made it meanwhile. */
int make_begin(emb_store *store, int *create, emb_err *err);
void make_end(emb_store *store);
/* The files of a new store, durably; the log of a temporary one, which has no
** name. */
int make_files(emb_store *store, emb_err *err);
int make_temporary(emb_store *store, emb_err *err);
/* Opens the log.  ENV_WRITE, ENV_CREATE; where the file may not be written it
** is opened for reading, and store->own.readonly says so. */
int make_open_log(emb_store *store, int flags, emb_err *err);

#endif
