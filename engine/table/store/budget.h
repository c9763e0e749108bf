/* SPDX-License-Identifier: MIT
**
** budget.h -- how many frames a budget in bytes is.
*/
#ifndef EMB_STORE_BUDGET_H
#define EMB_STORE_BUDGET_H

#include "store.h"

/* EMB_RANGE: it is more than this process can have.  0 is the default. */
int budget_check(struct env *env, uint64_t bytes, emb_err *err);
/* The least that a store with such records works with, in bytes. */
uint64_t budget_least(const struct layout *layout);
/* Frames of a budget, at least those of the least. */
uint32_t budget_frames(const struct layout *layout, uint64_t bytes);
/* The budget is another one: what is sampled of twice as much begins anew. */
void budget_sample(struct core *core);

#endif
