/* SPDX-License-Identifier: MIT
**
** step.h -- runs the background tasks; see step.c.
*/
#ifndef EMB_BACKGROUND_STEP_H
#define EMB_BACKGROUND_STEP_H

#include "engine/table/session/session.h"

/* State that a store's background work keeps from run to run.  Only that work
** accesses it. */
struct background_step {
  /* Inputs of LANE_FLUSH's work, as of the last run. */
  struct flush_state {
    uint64_t version, tail, loads, promoted;
  } last;
  /* For core->work: the bits it has set in core->resting, and whether it
  ** ran. */
  uint32_t rest;
  int has_begun;
};

static inline struct background_step *step_of(const emb_store *store) {
  return store->features[FEATURE_background];
}

/* Starts the store's background work; does nothing in step mode. */
int step_start(emb_store *store, emb_err *err);
/* Stops the background work and waits until it has ended. */
void step_stop(emb_store *store);

#endif
