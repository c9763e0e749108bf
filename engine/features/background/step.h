/* SPDX-License-Identifier: MIT
**
** step.h -- what drives the background tasks; see step.c.
*/
#ifndef EMB_BACKGROUND_STEP_H
#define EMB_BACKGROUND_STEP_H

#include "engine/table/session/session.h"

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

static inline struct background_step *step_of(const emb_store *store) {
  return store->features[FEATURE_background];
}

/* Background work of the store begins; nothing in step mode. */
int step_start(emb_store *store, emb_err *err);
/* It ends, and has ended. */
void step_stop(emb_store *store);

#endif
