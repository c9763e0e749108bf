/* SPDX-License-Identifier: MIT
**
** tasks.h -- passes over the list of background tasks (store/task.h); see
** tasks.c.
*/
#ifndef EMB_JOBS_TASKS_H
#define EMB_JOBS_TASKS_H

#include "engine/table/session/session.h"

/* One pass over the tasks of LANE_FLUSH, LANE_WORK (with LANE_RELEASE before
** it) or LANE_AFTER.  *more: there may be more to do.  The error of the first
** task that fails, which ends the pass.  By a thread in the pause after that,
** nothing. */
int tasks_pass(emb_store *store, enum lane lane, int by_thread, int *more,
               emb_err *err);
#define TASKS_NEVER UINT64_MAX
/* How long nothing is due unless something changes (core_changed); 0: that is
** not known, look again after *pause_us.  For the thread of LANE_WORK, after a
** pass. */
uint64_t tasks_rest_us(emb_store *store, uint64_t *pause_us);
/* Not long ago: calls that follow need not wake the thread, too. */
int tasks_were_roused(const emb_store *store, uint64_t now_us);
/* The tasks of LANE_RELEASE alone, before something else is freed.  Under
** ckpt_lock. */
int tasks_release(emb_store *store, emb_err *err);
/* There may be something to free although nothing was written.  Under
** ckpt_lock. */
void tasks_look_again(emb_store *store);
/* No version was given out for a while; by hand always.  Under ckpt_lock. */
int tasks_quiet(emb_store *store);
/* The store may be written in the background. */
int tasks_may_work(const emb_store *store);

/* What space is used, as it was when a task of this pass first asked. */
const struct space *pass_space(struct pass *pass);

#endif
