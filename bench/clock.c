/* SPDX-License-Identifier: MIT
**
** clock.c -- the cost of counting: a store with bounded reads (staleness 8)
** against one without a bound.  Everything is in memory.  A thread gets a batch
** and then puts the same batch, as training does; two threads have separate
** keys, so neither ever waits.
**
** Each turn begins with unmeasured Puts: a pause is followed by a checkpoint,
** after which the first Put of a key copies its record.
**
** A second store without a bound is measured in the same rounds.  Its ratio to
** the first shows how far two equal stores differ: a cost below that spread
** means nothing.  Within a round the three stores take several turns each,
** because the effect is smaller than the drift of such a machine within
** seconds.
*/
#include <math.h>
#include <stdio.h>

#include "bench.h"
#include "contest.h"

enum { DIM = 64, STALENESS = 8, PLAYERS = 3, THREADS = 2 };

static int slices(const struct options *options) {
  return options->quick ? 2 : 5;
}

static struct contestant *open_one(const struct options *options,
                                   const char *name, size_t keys, int bounded) {
  struct store_options store = {.dim = DIM,
                                .keys = keys,
                                .bounded = bounded,
                                .staleness = bounded ? STALENESS : 0};
  snprintf(store.directory, sizeof(store.directory), "%s/%s", options->data,
           name);
  make_directory(store.directory);
  load_store(&store_emb, &store);
  struct contestant *c = contestant_new(&store_emb, name, &store, 0);
  contestant_open(c, THREADS);
  contestant_write_all(c); /* all records in memory, where Puts leave them */
  return c;
}

static void compare(const struct options *options, struct figure *figure,
                    struct contestant **players,
                    const struct workload *workload, double target) {
  char name[64];
  snprintf(name, sizeof(name), "Get, then Put the same, %s, %d thread%s",
           workload->trace->name, workload->threads,
           workload->threads > 1 ? "s" : "");
  struct group *group = figure_group(figure, name, "keys/s", NAN);
  for (int round = 0; round < options->rounds; round++) {
    struct result last[PLAYERS];
    double cost[PLAYERS] = {0}; /* seconds per key, of all slices */
    for (int i = 0; i < PLAYERS * slices(options); i++) {
      int k = (i + i / PLAYERS + round) % PLAYERS;
      last[k] = contestant_run(players[k], workload);
      cost[k] += 1 / last[k].keys_per_second;
    }
    for (int k = 0; k < PLAYERS; k++) {
      group_add(group, contestant_name(players[k]), round,
                slices(options) / cost[k], &last[k].usage);
    }
  }
  group_ratio(group, "bound 8", "no bound", AT_LEAST, target);
  group_ratio(group, "no bound again", "no bound", AT_LEAST, 0);
}

void bench_clock(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 200000
                                 : 2000000;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.1
                                        : 1;
  struct figure *figure = figure_new(
      options, "clock", "The cost of a staleness bound, all in memory");
  figure_note(figure, "%zu keys, 64 floats, batches of 1,024", keys);
  struct trace traces[2];
  trace_uniform(&traces[0], 1 << 20, keys);
  trace_zipf(&traces[1], 1 << 20, keys);
  struct contestant *players[PLAYERS] = {
      open_one(options, "no bound", keys, 0),
      open_one(options, "bound 8", keys, 1),
      open_one(options, "no bound again", keys, 0)};
  for (int t = 0; t < 2; t++) {
    for (int threads = 1; threads <= (options->quick ? 1 : THREADS);
         threads++) {
      struct workload workload = {.pattern = TRAIN,
                                  .trace = &traces[t],
                                  .threads = threads,
                                  .disjoint = threads > 1,
                                  .warm_seconds = seconds,
                                  .warm_keys = keys * 8,
                                  .seconds = seconds / slices(options)};
      compare(options, figure, players, &workload, t ? 0.90 : 0.92);
    }
  }
  if (contestant_figure(players[1], "staleness") != STALENESS ||
      contestant_figure(players[1], "staleness_waits") != 0) {
    die("the bound is %lld, and there were %lld waits",
        (long long)contestant_figure(players[1], "staleness"),
        (long long)contestant_figure(players[1], "staleness_waits"));
  }
  for (int i = 0; i < PLAYERS; i++) {
    contestant_close(players[i]);
  }
  trace_free(&traces[0]);
  trace_free(&traces[1]);
  figure_done(figure);
}
