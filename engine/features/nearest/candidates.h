/* SPDX-License-Identifier: MIT
**
** candidates.h -- candidates from an index for several queries: keys whose rows
** must still be compared.
**
** THREADS  Several if there are many queries, each with its own memory.  Only
**          the caller's touches the session, to poll for an interrupt.
*/
#ifndef EMB_NEAREST_CANDIDATES_H
#define EMB_NEAREST_CANDIDATES_H

#include "engine/math/ivf/ivf.h"
#include "ask.h"

struct candidates { /* of a query */
  size_t query;
  uint32_t probes; /* lists to probe */
  int64_t *keys;   /* from env->resize */
  size_t n, room;
  size_t fit; /* rows that fit; maintained by indexed.c */
  /* With a condition: keys tested against it, and keys it admitted. */
  uint32_t sampled, admitted;
};

/* Of a query of `ask`, once compared.  Only in self-checking builds
** (best_valid.c). */
int candidates_valid(const struct candidates *c, const struct ask *ask);

struct candidates_how {
  uint32_t most;  /* per query, approximately */
  uint32_t order; /* of the lists (ivf/order.h) */
  int few;        /* a filter admits few keys */
};
/* Finds candidates for each of n queries.  EMB_NOMEM, EMB_INTERRUPT. */
int candidates__find(const struct ask *ask, struct ivf *ivf,
                     struct candidates *all, size_t n,
                     const struct candidates_how *how);

#endif
