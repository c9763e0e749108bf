/* SPDX-License-Identifier: MIT
**
** growth.c -- the cost per key as the table grows under a fixed budget: first
** one that holds everything, then one of 256 MiB.
**
** One store of each kind grows step by step and is measured at each size.  The
** memory ceiling beside it shows how the machine's own caches and translation
** tables affect a random access as the data grows.  In memory the cost should
** stay flat (within twice that of a million keys).  On disk it should follow
** the share of keys that must be read; the last group therefore shows the cost
** per page read.
*/
#include <math.h>
#include <stdio.h>

#include "bench.h"
#include "contest.h"

enum { DIM = 64, SIZES_MAX = 6 };

struct growth {
  const struct options *options;
  struct figure *figure;
  struct trace traces[SIZES_MAX];
  size_t sizes[SIZES_MAX];
  int count;
  double seconds;
};

static void name_size(char *name, size_t size, const char *what,
                      double millions) {
  snprintf(name, size, "%s, %g M keys", what, millions);
}

static struct contestant *open_one(const struct options *options,
                                   const struct store_kind *kind,
                                   const char *name, size_t keys,
                                   uint64_t budget_bytes) {
  struct store_options store = {.extension = options->extension,
                                .dim = DIM,
                                .keys = keys,
                                .budget_bytes = budget_bytes,
                                .create = 1};
  snprintf(store.directory, sizeof(store.directory), "%s/%s", options->data,
           name);
  make_directory(store.directory);
  struct contestant *c = contestant_new(kind, name, &store, 0);
  contestant_open(c, 1);
  return c;
}

/* Nanoseconds per key. */
static double cost(struct contestant *c, const struct workload *w) {
  return 1e9 / contestant_run(c, w).keys_per_second;
}

static void in_memory(struct growth *g) {
  size_t highest = g->sizes[g->count - 1];
  struct contestant *ceiling =
      open_one(g->options, &store_ram, "memory ceiling", highest, 0);
  struct contestant *emb =
      open_one(g->options, &store_emb, "emb C", highest, 0);
  size_t loaded = 0;
  struct group *flat =
      figure_group(g->figure, "in memory: worst size against 1 M keys",
                   "times the cost", NAN);
  double worst[FIGURE_ROUNDS] = {0}, base[FIGURE_ROUNDS];
  for (int i = 0; i < g->count; i++) {
    char name[64];
    double millions = (double)g->sizes[i] / 1e6;
    contestant_fill(emb, loaded, g->sizes[i]);
    loaded = g->sizes[i];
    name_size(name, sizeof(name), "in memory", millions);
    struct group *group = figure_group(g->figure, name, "ns/key", millions);
    struct workload w = {.trace = &g->traces[i],
                         .threads = 1,
                         .warm_seconds = g->seconds / 2,
                         .seconds = g->seconds};
    for (int round = 0; round < g->options->rounds; round++) {
      w.pattern = GET;
      group_add(group, "memory ceiling", round, cost(ceiling, &w), NULL);
      double get = cost(emb, &w);
      group_add(group, "emb C", round, get, NULL);
      w.pattern = HALF;
      group_add(group, "emb C, Get and Put", round, cost(emb, &w), NULL);
      base[round] = millions <= 1 ? get : base[round];
      worst[round] = get > worst[round] ? get : worst[round];
      group_add(flat, "emb C", round, worst[round] / base[round], NULL);
    }
    group_ratio(group, "emb C", "memory ceiling", AT_MOST, 0);
  }
  group_bound(flat, "emb C", AT_MOST, 2);
  contestant_close(ceiling);
  contestant_close(emb);
}

struct counts {
  int64_t keys, disk, pages;
};

static struct counts counts_of(struct contestant *emb) {
  return (struct counts){contestant_figure(emb, "get_keys"),
                         contestant_figure(emb, "get_disk"),
                         contestant_figure(emb, "read_pages")};
}

static void on_disk(struct growth *g) {
  size_t highest = g->sizes[g->count - 1];
  uint64_t budget =
      g->options->quick ? UINT64_C(32) << 20 : UINT64_C(256) << 20;
  figure_note(g->figure, "on disk: budget %.0f MiB, the index beside it",
              (double)budget / 0x1p20);
  struct contestant *emb =
      open_one(g->options, &store_emb, "emb C on disk", highest, budget);
  size_t loaded = 0;
  for (int i = 0; i < g->count; i++) {
    char name[64];
    double millions = (double)g->sizes[i] / 1e6;
    contestant_fill(emb, loaded, g->sizes[i]);
    loaded = g->sizes[i];
    name_size(name, sizeof(name), "on disk", millions);
    struct group *group = figure_group(g->figure, name, "ns/key", millions);
    name_size(name, sizeof(name), "on disk: misses", millions);
    struct group *misses = figure_group(g->figure, name, "percent", millions);
    name_size(name, sizeof(name), "on disk: cost of a page read", millions);
    struct group *pages = figure_group(g->figure, name, "ns/page", millions);
    struct workload w = {.pattern = GET,
                         .trace = &g->traces[i],
                         .threads = 1,
                         .seconds = g->seconds};
    struct workload warm = w; /* until the cache is in its steady state */
    warm.warm_seconds = g->options->quick ? 0.3 : 15;
    warm.warm_keys = g->sizes[i] * 2;
    warm.seconds = 0.01;
    contestant_run(emb, &warm);
    for (int round = 0; round < g->options->rounds; round++) {
      struct counts before = counts_of(emb);
      double ns = cost(emb, &w);
      struct counts after = counts_of(emb);
      double keys = (double)(after.keys - before.keys);
      double read = (double)(after.pages - before.pages);
      group_add(group, "emb C", round, ns, NULL);
      group_add(misses, "emb C", round,
                100 * (double)(after.disk - before.disk) / keys, NULL);
      group_add(pages, "emb C", round,
                read > keys / 100 ? ns * keys / read : NAN, NULL);
    }
  }
  contestant_close(emb);
}

void bench_growth(const struct options *options) {
  static const double millions[] = {0.1, 0.3, 1, 3, 10, 20};
  double scale = options->keys ? (double)options->keys / 20e6 : 1;
  struct growth g = {.options = options,
                     .count = options->quick ? 3 : SIZES_MAX,
                     .seconds = options->seconds > 0 ? options->seconds
                                : options->quick     ? 0.1
                                                     : 1};
  g.figure = figure_new(options, "growth",
                        "Cost of a key as the table grows: batches of 1,024"
                        " keys, uniform, one thread");
  figure_axis(g.figure, "million keys");
  for (int i = 0; i < g.count; i++) {
    g.sizes[i] = (size_t)(millions[i] * 1e6 * scale);
    trace_uniform(&g.traces[i], options->quick ? 1 << 18 : 1 << 22, g.sizes[i]);
  }
  in_memory(&g);
  on_disk(&g);
  for (int i = 0; i < g.count; i++) {
    trace_free(&g.traces[i]);
  }
  figure_done(g.figure);
}
