/* SPDX-License-Identifier: MIT
**
** open.h -- a store object without references; see open.c.
*/
#ifndef EMB_API_OPEN_H
#define EMB_API_OPEN_H

#include "engine/table/session/session.h"

int open__make(struct env *env, const char *dir, const emb_config *config,
               emb_store **store, emb_err *err);
int open__close(emb_store *store, emb_err *err);
void open__free(emb_store *store);

#endif
