/* SPDX-License-Identifier: MIT
**
** budget.h -- converts a budget in bytes to frames.
*/
#ifndef EMB_STORE_BUDGET_H
#define EMB_STORE_BUDGET_H

#include "store.h"

/* EMB_RANGE: more than this process can have.  0 means the default. */
int budget_check(struct env *env, uint64_t bytes, emb_err *err);
/* The minimum, in bytes, with which a store of this layout works. */
uint64_t budget_least(const struct layout *layout);
/* Frames of a budget, at least those of the minimum. */
uint32_t budget_frames(const struct layout *layout, uint64_t bytes);
/* The budget has changed: restarts the sampling of twice as much memory. */
void budget_sample(struct core *core);

#endif
