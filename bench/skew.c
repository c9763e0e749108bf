/* SPDX-License-Identifier: MIT
**
** skew.c -- a table eight times as large as memory, with Zipf-distributed keys:
** the value of a record cache.  Gets, then alternating Gets and Puts, against
** other stores under the same memory limit.
**
** HIT RATE  emb's hit rate is compared with that of the best static cache: one
**           with room for as many records as emb's whole budget, which holds
**           from the start the records most frequent in the very trace being
**           read.  A key that occurs twice in a batch and is not in memory
**           counts as two misses, for both.  For information: the hit rate of a
**           cache that also knows the future order (Belady's, which may also
**           decline to admit a record).
** WRITES    Gets must not write; counted by emb and by the system.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "field.h"

/* ---- the best caches ----------------------------------------------------- */

static int larger_first(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x < y) - (x > y);
}

/* Hit rate of the `records` most frequent keys of the trace. */
static double best_static(const struct trace *trace, size_t records) {
  uint32_t *counts = need(trace->highest + 1, sizeof(*counts));
  for (size_t i = 0; i < trace->count; i++) {
    counts[trace->keys[i]]++;
  }
  qsort(counts, trace->highest + 1, sizeof(*counts), larger_first);
  uint64_t hits = 0;
  for (size_t i = 0; i < records && i <= trace->highest; i++) {
    hits += counts[i];
  }
  free(counts);
  return (double)hits / (double)trace->count;
}

/* A heap of (position of the next use, key), the farthest on top.  Outdated
** entries are discarded when they reach the top. */
struct use {
  uint32_t next, key;
};
struct heap {
  struct use *uses;
  size_t count;
};

static void heap_push(struct heap *heap, struct use use) {
  size_t i = heap->count++;
  while (i && heap->uses[(i - 1) / 2].next < use.next) {
    heap->uses[i] = heap->uses[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  heap->uses[i] = use;
}

static void heap_pop(struct heap *heap) {
  struct use use = heap->uses[--heap->count];
  size_t i = 0, child;
  while ((child = 2 * i + 1) < heap->count) {
    child += child + 1 < heap->count &&
             heap->uses[child + 1].next > heap->uses[child].next;
    if (heap->uses[child].next <= use.next) {
      break;
    }
    heap->uses[i] = heap->uses[child];
    i = child;
  }
  heap->uses[i] = use;
}

/* Position of each key's next occurrence.  The trace repeats after its end, so
** positions in the next repetition continue from there. */
static uint32_t *next_uses(const struct trace *trace) {
  uint32_t *next = need(trace->count, sizeof(*next));
  uint32_t *seen = need(trace->highest + 1, sizeof(*seen));
  for (int round = 0; round < 2; round++) {
    uint32_t base = round ? 0 : (uint32_t)trace->count;
    for (size_t i = trace->count; i-- > 0;) {
      next[i] = seen[trace->keys[i]];
      seen[trace->keys[i]] = base + (uint32_t)i;
    }
  }
  free(seen);
  return next;
}

/* Hit rate of the second run through the trace; the first fills the cache. */
static double best_of_all(const struct trace *trace, size_t records) {
  enum { ABSENT = 0 };
  uint32_t *next = next_uses(trace);
  uint32_t *kept = need(trace->highest + 1, sizeof(*kept)); /* next + 1 */
  struct heap heap = {need(2 * trace->count + 1, sizeof(struct use)), 0};
  size_t held = 0;
  uint64_t hits = 0;
  for (int round = 0; round < 2; round++) {
    uint32_t base = round ? (uint32_t)trace->count : 0;
    for (size_t i = 0; i < trace->count; i++) {
      uint32_t key = (uint32_t)trace->keys[i];
      struct use use = {base + next[i], key};
      hits += round && kept[key] != ABSENT;
      held += kept[key] == ABSENT;
      kept[key] = use.next + 1;
      heap_push(&heap, use);
      while (held > records) { /* the newcomer itself may be evicted */
        struct use out = heap.uses[0];
        heap_pop(&heap);
        if (kept[out.key] == out.next + 1) {
          kept[out.key] = ABSENT;
          held--;
        }
      }
    }
  }
  free(next);
  free(kept);
  free(heap.uses);
  return (double)hits / (double)trace->count;
}

/* ---- emb's own counters -------------------------------------------------- */

struct reads {
  int64_t keys, in_memory, written;
};

static struct reads reads_of(struct contestant *emb) {
  return (struct reads){contestant_figure(emb, "get_keys"),
                        contestant_figure(emb, "get_memory") +
                            contestant_figure(emb, "get_cache"),
                        contestant_figure(emb, "write_bytes")};
}

struct watch {
  struct field *field;
  struct reads before;
  struct group *hits, *writes;
};

static void watch(void *arg, int player, int round,
                  const struct result *result) {
  struct watch *w = arg;
  if (w->field->kinds[player] != &store_emb) {
    return;
  }
  struct reads now_ = reads_of(w->field->players[player]);
  double keys = (double)(now_.keys - w->before.keys);
  group_add(w->hits, "emb C", round,
            100 * (double)(now_.in_memory - w->before.in_memory) / keys, NULL);
  group_add(w->writes, "emb C, by its own count", round,
            (double)(now_.written - w->before.written), NULL);
  group_add(w->writes, "emb C, by the system's", round,
            (double)result->disk_written, NULL);
  w->before = now_;
}

static void gets(struct field *field, const struct options *options,
                 struct figure *figure, const struct workload *workload) {
  struct contestant *emb = field_find(field, "emb C");
  struct group *group = figure_group(figure, "Get, Zipf", "keys/s", NAN);
  struct watch w = {.field = field,
                    .hits = figure_group(figure, "Get, Zipf: found in memory",
                                         "percent", NAN),
                    .writes = figure_group(figure, "Get, Zipf: written by Gets",
                                           "bytes", NAN)};
  if (emb) {
    w.before = reads_of(emb);
  }
  field_compare(field, options, group, workload, watch, &w);
  group_ratio(group, "emb C", "LMDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "RocksDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "SQLite table", AT_LEAST, 0);
  if (!emb) {
    return;
  }
  size_t records = (size_t)(contestant_figure(emb, "memory_bytes") /
                            contestant_figure(emb, "record_bytes"));
  double best = 100 * best_static(workload->trace, records);
  double belady = 100 * best_of_all(workload->trace, records);
  for (int round = 0; round < options->rounds; round++) {
    group_add(w.hits, "best that never changes", round, best, NULL);
    group_add(w.hits, "Belady's", round, belady, NULL);
  }
  figure_note(figure, "best caches: %zu records, all that fit the budget",
              records);
  group_bound(w.hits, "emb C", AT_LEAST, best - 3);
  group_bound(w.writes, "emb C, by its own count", AT_MOST, 0);
  group_bound(w.writes, "emb C, by the system's", AT_MOST, 0);
}

void bench_skew(const struct options *options) {
  size_t keys = field_keys(options);
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.15
                                        : 2;
  struct figure *figure =
      figure_new(options, "skew",
                 "Larger than memory, Zipf 0.99: batches of 1,024 keys,"
                 " one thread");
  struct trace trace;
  trace_zipf(&trace, keys * 2, keys);
  static const struct store_kind *const kinds[] = {
      &store_emb,     &store_emb_sql, &store_lmdb,
      &store_rocksdb, &store_sqlite,  NULL};
  struct field field;
  field_open(&field, options, figure, kinds, keys, field_memory(options, keys));
  struct workload workload = {
      .pattern = GET, .trace = &trace, .threads = 1, .seconds = seconds};
  struct workload warm = workload;
  warm.warm_seconds = options->quick ? 0.3 : 20;
  warm.seconds = 0.1;
  field_warm(&field, &warm);
  gets(&field, options, figure, &workload);
  workload.pattern = HALF;
  workload.warm_seconds = seconds / 3;
  struct group *group =
      figure_group(figure, "Get and Put, Zipf", "keys/s", NAN);
  field_compare(&field, options, group, &workload, NULL, NULL);
  group_ratio(group, "emb C", "LMDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "RocksDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "SQLite table", AT_LEAST, 0);
  field_close(&field, figure);
  trace_free(&trace);
  figure_done(figure);
}
