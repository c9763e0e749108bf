/* SPDX-License-Identifier: MIT
**
** stats.c -- the figures of a store; README.md lists them.
*/
#include "../life/compact.h"
#include "store.h"

struct list {
  emb_stat *stats;
  size_t max, n;
};

static void number(struct list *list, const char *name, uint64_t value) {
  if (list->n < list->max) {
    list->stats[list->n] = (emb_stat){name, NULL, (int64_t)value};
  }
  list->n++;
}

static void text(struct list *list, const char *name, const char *value) {
  if (list->n < list->max) {
    list->stats[list->n] = (emb_stat){name, value, 0};
  }
  list->n++;
}

static uint64_t of(_Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void tuning(struct list *l, struct tune *tune) {
  static const char *const decision[] = {"hold", "raise", "lower"};
  number(l, "io_depth", atomic_load(&tune->depth));
  number(l, "io_workers", atomic_load(&tune->workers));
  number(l, "io_us", of(&tune->io_us));
  number(l, "compute_us", of(&tune->compute_us));
  number(l, "wait_us", of(&tune->wait_us));
  number(l, "io_ratio_percent", of(&tune->ratio));
  number(l, "io_raised", of(&tune->raised));
  number(l, "io_lowered", of(&tune->lowered));
  text(l, "io_decision", decision[atomic_load(&tune->decision)]);
}

size_t emb_stats(emb_store *store, emb_stat *stats, size_t max) {
  struct core *core = &store->core;
  struct counters *c = &core->counters;
  struct list list = {stats, max, 0}, *l = &list;
  struct space space;
  uint64_t tally[TALLIES];
  if (store_check(store, NULL)) {
    return 0;
  }
  space_measure(core, &space);
  session_tallies(store, tally);
  text(l, "directory", core->dir);
  text(l, "io", core->queue_kind == ENV_QUEUE_URING ? "uring" : "pread");
  text(l, "simd", core->vec->name);
  text(l, "type", core->layout.type == EMB_F16 ? "float16" : "float32");
  number(l, "dimensions", core->layout.dim);
  number(l, "keys", (uint64_t)atomic_load(&core->count));
  number(l, "owner", (uint64_t)atomic_load(&store->owner));
  number(l, "failed", (uint64_t)atomic_load(&core->log.failed));
  number(l, "in_doubt", atomic_load(&store->in_doubt));
  number(l, "transaction", atomic_load(&core->txn_committed));
  number(l, "memory_bytes",
         (uint64_t)core->frames.count * core->frames.frame_bytes);
  number(l, "index_bytes", index_bytes(&core->index));
  number(l, "log_bytes_in_memory",
         (uint64_t)atomic_load(&core->log.resident) *
             core->layout.extent_bytes);
  number(l, "cache_bytes",
         (uint64_t)atomic_load(&core->cache.frame_count) *
             core->layout.extent_bytes);
  number(l, "cache_records", atomic_load(&core->cache.used));
  number(l, "log_bytes", space.used + space.kept);
  number(l, "live_bytes", space.live + space.kept_live);
  number(l, "dead_bytes", space.dead);
  number(l, "kept_bytes", space.kept);
  number(l, "record_bytes", core->layout.rec_bytes);
  number(l, "page_bytes", core->layout.page_bytes);
  number(l, "get_keys", tally[TALLY_GET]);
  number(l, "get_memory", tally[TALLY_MEMORY]);
  number(l, "get_cache", of(&c->get_cache));
  number(l, "get_disk", tally[TALLY_DISK]);
  number(l, "get_absent", tally[TALLY_ABSENT]);
  number(l, "put_keys", tally[TALLY_PUT]);
  number(l, "put_in_place", of(&c->put_in_place));
  number(l, "rmw_keys", of(&c->rmw_keys));
  number(l, "delete_keys", of(&c->delete_keys));
  number(l, "expired_keys", of(&c->expired_keys));
  number(l, "evicted_keys", of(&c->evicted_keys));
  number(l, "filtered_keys", of(&c->filtered_keys));
  number(l, "filtered_updates", of(&c->filtered_updates));
  number(l, "read_pages", of(&c->read_pages));
  number(l, "read_bytes", of(&c->read_bytes));
  number(l, "write_bytes", of(&c->write_bytes));
  number(l, "syncs", of(&c->syncs));
  number(l, "flushes", of(&c->flushes));
  number(l, "evictions", of(&c->evictions));
  number(l, "checkpoints", of(&c->checkpoints));
  number(l, "compacted_records", of(&c->compacted_records));
  number(l, "moved_extents", of(&c->moved_extents));
  number(l, "cache_admitted", of(&c->cache_admitted));
  number(l, "cache_evicted", of(&c->cache_evicted));
  number(l, "waits_for_memory", of(&c->waits_room));
  number(l, "waits_for_key", of(&c->waits_key));
  number(l, "commits", of(&c->commits));
  number(l, "rollbacks", of(&c->rollbacks));
  number(l, "manifest_damaged", of(&c->manifest_damaged));
  number(l, "admission_damaged", of(&c->admission_damaged));
  if (core_bounded(core)) {
    number(l, "staleness", core->staleness);
  } else {
    text(l, "staleness", "none");
  }
  number(l, "staleness_waits", of(&c->staleness_waits));
  number(l, "staleness_busy", of(&c->staleness_busy));
  number(l, "lookahead_asked", of(&c->ahead_asked));
  number(l, "lookahead_in_memory", of(&c->ahead_memory));
  number(l, "lookahead_absent", of(&c->ahead_absent));
  number(l, "lookahead_read", of(&c->ahead_read));
  number(l, "lookahead_refused", of(&c->ahead_refused));
  number(l, "lookahead_pinned", of(&core->cache.pinned));
  number(l, "prefetch_batches", of(&c->prefetches));
  number(l, "write_back_batches", of(&c->write_backs));
  tuning(l, &store->jobs.tune);
  number(l, "sessions", (uint64_t)atomic_load(&store->sessions));
  return list.n < max ? list.n : max;
}
