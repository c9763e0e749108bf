/* SPDX-License-Identifier: MIT
**
** step.h -- what drives the background tasks; see step.c.
*/
#ifndef EMB_BACKGROUND_STEP_H
#define EMB_BACKGROUND_STEP_H

#include "engine/table/session/session.h"

/* core->step: for a call that waits in a store without threads. */
int step_once(struct core *core, int *more, emb_err *err);

/* What the background work of a store remembers from run to run; only that
** touches it. */
struct background_step {
  /* What LANE_FLUSH's work follows from, as it was after the last run. */
  struct flush_state {
    uint64_t version, tail, loads, promoted;
  } last;
  /* The other: core->resting's bits that it has set, and whether it ran. */
  uint32_t rest;
  int has_begun;
};

/* Background work of the store begins; nothing in step mode. */
int step_start(emb_store *store, emb_err *err);

#endif
