/* SPDX-License-Identifier: MIT
**
** seen_help.h -- how often a store with admission=count(...) has counted a
** key, looked up without counting.
*/
#ifndef EMB_SEEN_HELP_H
#define EMB_SEEN_HELP_H

#include "engine/storage/ckpt/seen.h"
#include "engine/table/session/session.h"

/* A rule that admits no key that comes less often; two tables of 2048. */
#define SEEN_RULE "count(n=1000000, memory=65536)"

/* Only for a store that has an owner: before, it has not read the counts. */
uint64_t seen_times(emb_store *store, int64_t key);

#endif
