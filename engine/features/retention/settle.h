/* SPDX-License-Identifier: MIT
**
** settle.h -- the files of a closing store; see settle.c.
*/
#ifndef EMB_RETENTION_SETTLE_H
#define EMB_RETENTION_SETTLE_H

#include "engine/table/session/session.h"

/* Leaves the files compact and complete: a clean checkpoint. */
int settle_files(emb_store *store, emb_err *err);

#endif
