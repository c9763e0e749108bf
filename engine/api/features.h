/* SPDX-License-Identifier: MIT
**
** features.h -- what a store has of its features; see features.c.
*/
#ifndef EMB_API_FEATURES_H
#define EMB_API_FEATURES_H

#include "../snapshot/chain.h"
#include "../snapshot/snapshot.h"
#include "../life/evict.h"
#include "../session/store.h"
#include "../ahead/warm.h"
#include "../bank/bank.h"
#include "../nearest/index.h"
#include "../sample/weights.h"

/* A store of zeros in one piece with what its features keep for it; NULL
** without memory. */
emb_store *features__new_store(struct env *env);

#endif
