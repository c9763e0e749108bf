/* SPDX-License-Identifier: MIT
**
** feature.c -- descriptors without a feature of their own: the files and
** metrics that each store has, and those of admission, which is in storage/.
*/
#include "feature.h"

#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/identity.h"
#include "engine/storage/ckpt/seen.h"
#include "engine/storage/kernel/reserve.h"
#include "engine/storage/kernel/space.h"
#include "metrics.h"
#include "store.h"

/* ---- the files without a feature of their own ---------------------------- */

static const struct store_file file_manifest = {.name = MANIFEST_NAME,
                                                .temporary = MANIFEST_NEW_NAME,
                                                .in_copy = 1,
                                                .load = identity_begin};
static const struct store_file file_log = {.name = FILE_LOG, .in_copy = 1};
static const struct store_file file_lock = {.name = FILE_LOCK};
/* For a stack that became too long for memory, or for a backup; unlinked as
** soon as it is created. */
static const struct store_file file_spill = {.temporary = "spill-*"};

static int index_is_left(const char *name, uint64_t generation) {
  char present[40];
  (void)snprintf(present, sizeof present, "index-%016llx",
                 (unsigned long long)generation);
  return strcmp(name, present) != 0 && strcmp(name, RESERVE_SPARE) != 0;
}

static const struct store_file file_index = {.name = "index-*",
                                             .is_left = index_is_left};

/* ---- the metrics of each store ------------------------------------------- */

static void state_metrics(emb_store *store, struct metrics *to) {
  struct core *core = &store->core;
  int failed = atomic_load(&core->log.failed);
  metric_text(to, "directory", core->dir);
  metric_text(to, "io",
              core->queue_kind == ENV_QUEUE_URING ? "uring" : "pread");
  metric_text(to, "simd", core->vec->name);
  metric_text(to, "type", core->types);
  metric_number(to, "dimensions", core->layout.dim);
  metric_number(to, "keys", (uint64_t)atomic_load(&core->count));
  metric_number(to, "failed", (uint64_t)failed);
  metric_text(to, "failed_reason", failed ? core->log.why : "");
  metric_number(to, "in_doubt", atomic_load(&store->own.in_doubt));
  metric_number(to, "transaction", atomic_load(&core->txn_committed));
}

static void space_metrics(struct core *core, struct metrics *to) {
  struct space space;
  uint64_t extent = core->layout.extent_bytes;
  space_measure(core, &space);
  metric_number(to, "memory_bytes",
                (uint64_t)frames_count(&core->frames) *
                    core->frames.frame_bytes);
  metric_number(to, "index_bytes", index_bytes(&core->index));
  metric_number(to, "log_bytes_in_memory",
                (uint64_t)atomic_load(&core->log.resident) * extent);
  metric_number(to, "cache_bytes",
                (uint64_t)atomic_load(&core->cache.frame_count) * extent);
  metric_number(to, "cache_records", atomic_load(&core->cache.used));
  metric_number(to, "log_bytes", space.used + space.kept);
  metric_number(to, "live_bytes", space.live + space.kept_live);
  metric_number(to, "dead_bytes", space.dead);
  metric_number(to, "kept_bytes", space.kept);
  metric_number(to, "record_bytes", core->layout.rec_bytes);
  metric_number(to, "page_bytes", core->layout.page_bytes);
}

static void store_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  state_metrics(store, to);
  space_metrics(&store->core, to);
  metric_count(to, "read_pages", &c->read_pages);
  metric_count(to, "read_bytes", &c->read_bytes);
  metric_count(to, "write_bytes", &c->write_bytes);
  metric_count(to, "syncs", &c->syncs);
  metric_count(to, "flushes", &c->flushes);
  metric_count(to, "evictions", &c->evictions);
  metric_count(to, "checkpoints", &c->checkpoints);
  metric_count(to, "cache_admitted", &c->cache_admitted);
  metric_count(to, "cache_evicted", &c->cache_evicted);
  metric_count(to, "waits_for_memory", &c->waits_room);
  metric_count(to, "waits_for_key", &c->waits_key);
  metric_count(to, "manifest_damaged", &c->manifest_damaged);
}

const struct feature feature_store = {
    .name = "store",
    .files = FEATURE_FILES(&file_manifest, &file_log, &file_lock, &file_index,
                           &file_spill),
    .metrics = store_metrics,
};

/* ---- admission ----------------------------------------------------------- */

static void admission_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  metric_count(to, "filtered_keys", &c->filtered_keys);
  metric_count(to, "filtered_updates", &c->filtered_updates);
  metric_count(to, "admission_damaged", &c->admission_damaged);
}

const struct feature feature_admission = {
    .name = "admission",
    .files = FEATURE_FILES(&file_seen),
    .metrics = admission_metrics,
};
