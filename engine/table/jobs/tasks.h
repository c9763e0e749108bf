/* SPDX-License-Identifier: MIT
**
** tasks.h -- passes over the list of background tasks (store/task.h); see
** tasks.c.
*/
#ifndef EMB_JOBS_TASKS_H
#define EMB_JOBS_TASKS_H

#include "engine/table/session/session.h"

/* Makes one pass over the tasks of LANE_FLUSH, LANE_WORK (with LANE_RELEASE
** before it) or LANE_AFTER.  *more: there may be more to do.  The first task
** that fails ends the pass, and its error is returned.  by_thread: does nothing
** during the pause after a failure. */
int tasks_pass(emb_store *store, enum lane lane, int by_thread, int *more,
               emb_err *err);
#define TASKS_NEVER UINT64_MAX
/* How long nothing will be due unless something changes (core_changed); 0: not
** known, look again after *pause_us.  For the thread of LANE_WORK, after a
** pass. */
uint64_t tasks_rest_us(emb_store *store, uint64_t *pause_us);
/* Was the thread roused recently?  Then further calls need not wake it. */
int tasks_were_roused(const emb_store *store, uint64_t now_us);
/* Runs the tasks of LANE_RELEASE alone, before something else is freed.  Under
** ckpt_lock. */
int tasks_release(emb_store *store, emb_err *err);
/* Makes the next pass look for work: there may be something to free although
** nothing was written.  Under ckpt_lock. */
void tasks_look_again(emb_store *store);
/* Was no version given out for a while (QUIET_US)?  In step mode always yes.
** Under ckpt_lock. */
int tasks_quiet(emb_store *store);
/* May background work write to the store? */
int tasks_may_work(const emb_store *store);

/* Space usage, as measured when a task of this pass first asked. */
const struct space *pass_space(struct pass *pass);

#endif
