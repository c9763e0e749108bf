/* SPDX-License-Identifier: MIT
**
** features.h -- all features of a store, over its lifetime (store/feature.h);
** see features.c.
*/
#ifndef EMB_API_FEATURES_H
#define EMB_API_FEATURES_H

#include "engine/table/store/store.h"

/* Allocates a zeroed store together with its features' data; NULL: out of
** memory. */
emb_store *features__new_store(struct env *env);

int features__init(emb_store *store, emb_err *err);
int features__begin(emb_store *store, emb_err *err);
int features__drain(emb_store *store, emb_err *err);
void features__settled(emb_store *store);
void features__left(emb_store *store);
void features__free(emb_store *store);

#endif
