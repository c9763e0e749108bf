/* SPDX-License-Identifier: MIT
**
** make.h -- the files of a store when it is opened; see make.c.
*/
#ifndef EMB_STORE_MAKE_H
#define EMB_STORE_MAKE_H

#include "store.h"

/* Dimension and type come from the store if it exists.  *create: there is none,
** and the caller asks for one. */
int make_layout(emb_store *store, int *create, emb_err *err);
/* Creates the directory, and takes the lock under which a store is made.
** *create is 0 if another process has made the store by then. */
int make_begin(emb_store *store, int *create, emb_err *err);
void make_end(emb_store *store);
/* Creates the files of a new store, durably, or the log of a temporary store,
** which has no name. */
int make_files(emb_store *store, emb_err *err);
int make_temporary(emb_store *store, emb_err *err);
/* Opens the log with ENV_WRITE, ENV_CREATE.  A file that may not be written is
** opened for reading, and store->own.readonly says so. */
int make_open_log(emb_store *store, int flags, emb_err *err);

#endif
