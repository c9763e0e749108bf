/* SPDX-License-Identifier: MIT
**
** stats.c -- the metrics of a store; sql/manual/metrics.md lists them.
*/
#include "engine/storage/kernel/space.h"
#include "engine/features/memory/advice.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/store/budget.h"
#include "engine/features/warmup/warm.h"
#include "engine/table/bank/bank.h"
#include "engine/features/nearest/index.h"
#include "engine/features/negatives/weights.h"

struct stats_list {
  emb_stat *stats;
  size_t max, n;
};

static void number(struct stats_list *list, const char *name, uint64_t value) {
  if (list->n < list->max) {
    list->stats[list->n] = (emb_stat){name, NULL, (int64_t)value};
  }
  list->n++;
}

static void text(struct stats_list *list, const char *name, const char *value) {
  if (list->n < list->max) {
    list->stats[list->n] = (emb_stat){name, value, 0};
  }
  list->n++;
}

static void number_of_task(void *list, const char *name, uint64_t value) {
  number(list, name, value);
}

static uint64_t stats_of(_Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void tuning(struct stats_list *l, struct tune *tune) {
  static const char *const decision[] = {"hold", "raise", "lower"};
  number(l, "io_depth", atomic_load(&tune->depth));
  number(l, "io_workers", atomic_load(&tune->workers));
  number(l, "io_us", stats_of(&tune->io_us));
  number(l, "compute_us", stats_of(&tune->compute_us));
  number(l, "wait_us", stats_of(&tune->wait_us));
  number(l, "io_ratio_percent", stats_of(&tune->ratio));
  number(l, "io_raised", stats_of(&tune->raised));
  number(l, "io_lowered", stats_of(&tune->lowered));
  text(l, "io_decision", decision[atomic_load(&tune->decision)]);
}

static void advice(struct stats_list *l, emb_store *store) {
  struct advice_metrics f;
  advice_metrics(store, &f);
  number(l, "hit_permille", (uint64_t)f.hits);
  number(l, "hit_permille_recent", (uint64_t)f.hits_recent);
  number(l, "hit_permille_twice_memory", (uint64_t)f.hits_twice);
  text(l, "memory_advice", f.text);
}

static void owner(struct stats_list *l, emb_store *store) {
  emb_client who = {0};
  size_t n = store->clients(store, &who, 1);
  number(l, "owner", (uint64_t)atomic_load(&store->owner));
  number(l, "owner_pid", (uint64_t)who.process);
  number(l, "owner_since", (uint64_t)who.since);
  number(l, "clients", n ? n - 1 : 0);
}

static void errors(struct stats_list *l, emb_store *store) {
  uint64_t count, ms_ago;
  text(l, "background_error", tasks_error(store, &count, &ms_ago));
  number(l, "background_errors", count);
  number(l, "background_error_ms_ago", ms_ago);
}

static void neighbours(struct stats_list *l, emb_store *store) {
  struct nearest_index *x = store->nearest;
  text(l, "nearest_index", nearest_state(store));
  text(l, "nearest_file", nearest_file(store));
  number(l, "nearest_rows", stats_of(&x->indexed));
  number(l, "nearest_recent", stats_of(&x->recent_count));
  number(l, "nearest_behind", stats_of(&x->behind));
  number(l, "nearest_lists", stats_of(&x->lists));
  number(l, "nearest_bytes", stats_of(&x->bytes));
  number(l, "nearest_made", stats_of(&x->rebuilds));
  number(l, "nearest_saved", stats_of(&x->saves));
  number(l, "nearest_queries", stats_of(&x->searches));
  number(l, "nearest_candidates", stats_of(&x->candidates));
}

static void samples(struct stats_list *l, emb_store *store) {
  struct sampling *x = store->sampling;
  number(l, "samples", stats_of(&x->samples));
  number(l, "sample_bytes", stats_of(&x->bytes));
  number(l, "sample_counted", stats_of(&x->made));
}

size_t local_stats(emb_store *store, emb_stat *stats, size_t max) {
  struct core *core = &store->core;
  struct counters *c = &core->counters;
  struct stats_list list = {stats, max, 0}, *l = &list;
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
  owner(l, store);
  number(l, "failed", (uint64_t)atomic_load(&core->log.failed));
  text(l, "failed_reason", atomic_load(&core->log.failed) ? core->log.why : "");
  number(l, "in_doubt", atomic_load(&store->in_doubt));
  number(l, "transaction", atomic_load(&core->txn_committed));
  number(l, "memory_bytes",
         (uint64_t)frames_count(&core->frames) * core->frames.frame_bytes);
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
  number(l, "get_cache", stats_of(&c->get_cache));
  number(l, "get_disk", tally[TALLY_DISK]);
  number(l, "get_absent", tally[TALLY_ABSENT]);
  number(l, "put_keys", tally[TALLY_PUT]);
  number(l, "put_in_place", stats_of(&c->put_in_place));
  number(l, "rmw_keys", stats_of(&c->rmw_keys));
  number(l, "delete_keys", stats_of(&c->delete_keys));
  number(l, "expired_keys", stats_of(&c->expired_keys));
  number(l, "evicted_keys", stats_of(&c->evicted_keys));
  number(l, "filtered_keys", stats_of(&c->filtered_keys));
  number(l, "filtered_updates", stats_of(&c->filtered_updates));
  number(l, "read_pages", stats_of(&c->read_pages));
  number(l, "read_bytes", stats_of(&c->read_bytes));
  number(l, "write_bytes", stats_of(&c->write_bytes));
  number(l, "syncs", stats_of(&c->syncs));
  number(l, "flushes", stats_of(&c->flushes));
  number(l, "evictions", stats_of(&c->evictions));
  number(l, "checkpoints", stats_of(&c->checkpoints));
  number(l, "compacted_records", stats_of(&c->compacted_records));
  number(l, "moved_extents", stats_of(&c->moved_extents));
  text(l, "warm", warm_state(store));
  number(l, "warm_bytes", stats_of(&c->warm_bytes));
  number(l, "warm_rows", stats_of(&c->warm_rows));
  number(l, "warm_ms", stats_of(&c->warm_us) / 1000);
  number(l, "warm_errors", stats_of(&c->warm_errors));
  number(l, "warm_damaged", stats_of(&c->warm_damaged));
  number(l, "rows_in_memory", warm_resident(store));
  number(l, "cache_admitted", stats_of(&c->cache_admitted));
  number(l, "cache_evicted", stats_of(&c->cache_evicted));
  number(l, "waits_for_memory", stats_of(&c->waits_room));
  number(l, "waits_for_key", stats_of(&c->waits_key));
  number(l, "commits", stats_of(&c->commits));
  number(l, "rollbacks", stats_of(&c->rollbacks));
  number(l, "manifest_damaged", stats_of(&c->manifest_damaged));
  number(l, "admission_damaged", stats_of(&c->admission_damaged));
  if (core_bounded(core)) {
    number(l, "staleness", core->staleness);
  } else {
    text(l, "staleness", "none");
  }
  number(l, "staleness_waits", stats_of(&c->staleness_waits));
  number(l, "staleness_busy", stats_of(&c->staleness_busy));
  number(l, "lookahead_asked", stats_of(&c->ahead_asked));
  number(l, "lookahead_in_memory", stats_of(&c->ahead_memory));
  number(l, "lookahead_absent", stats_of(&c->ahead_absent));
  number(l, "lookahead_read", stats_of(&c->ahead_read));
  number(l, "lookahead_refused", stats_of(&c->ahead_refused));
  number(l, "lookahead_pinned", stats_of(&core->cache.pinned));
  number(l, "prefetch_batches", stats_of(&c->prefetches));
  number(l, "write_back_batches", stats_of(&c->write_backs));
  tuning(l, &store->jobs.tune);
  advice(l, store);
  tasks_metrics(store, number_of_task, l);
  number(l, "sessions", (uint64_t)atomic_load(&store->sessions));
  neighbours(l, store);
  samples(l, store);
  bank_metrics(store, number_of_task, l);
  errors(l, store);
  return list.n < max || max == 0 ? list.n : max;
}
