/* SPDX-License-Identifier: MIT
**
** advice.h -- what the memory of a store is good for; see advice.c.
*/
#ifndef EMB_MEMORY_ADVICE_H
#define EMB_MEMORY_ADVICE_H

#include "engine/table/session/session.h"

/* What the memory is good for, for emb_stats; of all reads of keys that are
** there, in thousandths.  -1: there were none. */
struct advice_metrics {
  int64_t hits;        /* that found the record in memory, since the opening */
  int64_t hits_recent; /* of the last half a minute to a minute */
  int64_t hits_twice;  /* of these, if there were twice the memory */
  const char *text;
};
void advice_metrics(emb_store *store, struct advice_metrics *metrics);
/* What is recent begins now. */
void advice__begin(emb_store *store);

#endif
