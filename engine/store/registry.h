/* SPDX-License-Identifier: MIT
**
** registry.h -- all stores that this process has open; see registry.c.
*/
#ifndef EMB_STORE_REGISTRY_H
#define EMB_STORE_REGISTRY_H

#include "store.h"

/* open.c: a store object without references. */
int store_new(struct env *env, const char *dir, const emb_config *config,
              emb_store **store, emb_err *err);
int store_close(emb_store *store, emb_err *err);
void store_free(emb_store *store);

/* The environment for stores opened from now on; tests replace it. */
void registry_set_env(struct env *env);
struct env *registry_env(void);

#endif
