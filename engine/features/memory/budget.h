/* SPDX-License-Identifier: MIT
**
** budget.h -- how many frames a budget in bytes is.
*/
#ifndef EMB_MEMORY_BUDGET_H
#define EMB_MEMORY_BUDGET_H

#include "engine/table/store/store.h"

/* EMB_RANGE: it is more than this process can have.  0 is the default. */
int budget__check(struct env *env, uint64_t bytes, emb_err *err);
/* The least that a store with such records works with, in bytes. */
uint64_t budget_least(const struct layout *layout);
/* Frames of a budget, at least those of the least. */
uint32_t budget__frames(const struct layout *layout, uint64_t bytes);
/* The budget is another one: what is sampled of twice as much begins anew. */
void budget__sample(struct core *core);

/* What the memory is good for, for emb_stats; of all reads of keys that are
** there, in thousandths.  -1: there were none. */
struct advice__metrics {
  int64_t hits;        /* that found the record in memory, since the opening */
  int64_t hits_recent; /* of the last half a minute to a minute */
  int64_t hits_twice;  /* of these, if there were twice the memory */
  const char *text;
};
void advice__metrics(emb_store *store, struct advice__metrics *metrics);
/* What is recent begins now. */
void advice__begin(emb_store *store);

#endif
