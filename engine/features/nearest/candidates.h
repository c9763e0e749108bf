/* SPDX-License-Identifier: MIT
**
** candidates.h -- what an index gives for several queries: keys, whose rows are
** still to be compared.
**
** THREADS  Where there are many queries, several, each with memory of its own;
**          only the caller's touches the session, to look for an interrupt.
*/
#ifndef EMB_NEAREST_CANDIDATES_H
#define EMB_NEAREST_CANDIDATES_H

#include "engine/math/ivf/ivf.h"
#include "ask.h"

struct candidates { /* of a query */
  size_t query;
  uint32_t probes; /* lists to look into */
  int64_t *keys;   /* of env->resize */
  size_t n, room;
  size_t fit; /* indexed.c's: of their rows */
  /* With a condition: keys that were asked for it, and those it let in. */
  uint32_t sampled, admitted;
};

/* Of each of n queries, at most about so many.  few: there is a filter, which
** admits few keys.  EMB_NOMEM, EMB_INTERRUPT. */
int candidates__find(const struct ask *ask, struct ivf *ivf,
                     struct candidates *all, size_t n, uint32_t most, int few);

#endif
