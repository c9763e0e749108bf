/* SPDX-License-Identifier: MIT
**
** metrics.c -- see metrics.h.
*/
#include "metrics.h"

static void metric_add(struct metrics *to, emb_stat stat) {
  if (to->n < to->max) {
    to->stats[to->n] = stat;
  }
  to->n++;
}

void metric_number(struct metrics *to, const char *name, uint64_t value) {
  metric_add(to, (emb_stat){name, NULL, (int64_t)value});
}

void metric_text(struct metrics *to, const char *name, const char *value) {
  metric_add(to, (emb_stat){name, value, 0});
}

void metric_count(struct metrics *to, const char *name,
                  _Atomic uint64_t *counter) {
  metric_number(to, name, atomic_load_explicit(counter, memory_order_relaxed));
}
