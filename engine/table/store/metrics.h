/* SPDX-License-Identifier: MIT
**
** metrics.h -- the rows of emb_stats, as a feature reports them (feature.h).
** sql/manual/metrics.md describes each.
*/
#ifndef EMB_STORE_METRICS_H
#define EMB_STORE_METRICS_H

#include <stdatomic.h>

#include "engine/emb.h"

struct metrics {
  emb_stat *stats;
  size_t max, n; /* n counts all rows, and may exceed max */
};

/* Names and texts must last as long as the store. */
void metric_number(struct metrics *to, const char *name, uint64_t value);
void metric_text(struct metrics *to, const char *name, const char *value);
/* A counter that other threads write; read relaxed. */
void metric_count(struct metrics *to, const char *name,
                  _Atomic uint64_t *counter);

#endif
