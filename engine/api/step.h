/* SPDX-License-Identifier: MIT
**
** step.h -- what drives the background tasks; see step.c.
*/
#ifndef EMB_API_STEP_H
#define EMB_API_STEP_H

#include "../session/store.h"

/* core->relieve: frees what is dead, and makes more of it, until there is a
** file slot for an extent; stops where nothing can be gained, or interrupt says
** so. */
void step__relieve(struct core *core, int (*interrupt)(void *), void *arg);
/* core->step: for a call that waits in a store without threads. */
int step__once(struct core *core, int *more, emb_err *err);

void step__flush_thread(void *store);
void step__work_thread(void *store);

#endif
