/* SPDX-License-Identifier: MIT
**
** features.h -- what a store has of its features; see features.c.
*/
#ifndef EMB_API_FEATURES_H
#define EMB_API_FEATURES_H

#include "engine/features/snapshot/chain.h"
#include "engine/features/snapshot/snapshot.h"
#include "engine/features/retention/evict.h"
#include "engine/table/session/session.h"
#include "engine/features/warmup/warm.h"
#include "engine/table/bank/bank.h"
#include "engine/features/nearest/index.h"
#include "engine/features/negatives/weights.h"

/* A store of zeros in one piece with what its features keep for it; NULL
** without memory. */
emb_store *features__new_store(struct env *env);

#endif
