/* SPDX-License-Identifier: MIT
**
** feature.c -- the descriptor of retention (store/feature.h).
*/
#include "engine/table/store/metrics.h"
#include "evict.h"
#include "forget.h"
#include "relieve.h"
#include "task.h"

static int retention_init(emb_store *store, emb_err *err) {
  (void)err;
  store->forget = forget__help;
  store->core.relieve = relieve__space;
  return EMB_OK;
}

static void retention_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  metric_count(to, "expired_keys", &c->expired_keys);
  metric_count(to, "evicted_keys", &c->evicted_keys);
  metric_count(to, "compacted_records", &c->compacted_records);
  metric_count(to, "moved_extents", &c->moved_extents);
}

const struct feature feature_retention = {
    .name = "retention",
    .state_bytes = sizeof(struct evict),
    /* In order: remove rows, compact, checkpoint, shorten the file. */
    .tasks = FEATURE_TASKS(&task_readers, &task_expire, &task_evict,
                           &task_compact, &task_checkpoint, &task_shorten),
    .init = retention_init,
    .metrics = retention_metrics,
};
