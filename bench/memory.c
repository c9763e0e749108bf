/* SPDX-License-Identifier: MIT
**
** memory.c -- everything in memory: batches of Gets, and of alternating Gets
** and Puts, uniform and skewed, one and two threads, against the limit of
** memory itself and against other stores.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "contest.h"

enum { DIM = 64, PLAYERS = 7, THREADS = 2 };

static const struct store_kind *const kinds[PLAYERS] = {
    &store_ram,    &store_emb,  &store_emb_sql, &store_emb_table,
    &store_sqlite, &store_lmdb, &store_rocksdb,
};

static void open_all(const struct options *options, size_t keys,
                     struct contestant **players) {
  for (int i = 0; i < PLAYERS; i++) {
    if (options->only && !strstr(kinds[i]->name, options->only)) {
      continue;
    }
    struct store_options store = {
        .extension = options->extension, .dim = DIM, .keys = keys};
    /* both SQL interfaces read one table */
    const struct store_kind *owner =
        kinds[i] == &store_emb_table ? &store_emb_sql : kinds[i];
    snprintf(store.directory, sizeof(store.directory), "%s/%s", options->data,
             owner->name);
    if (owner != kinds[i] && (!players[i - 1])) {
      continue;
    }
    make_directory(store.directory);
    if (kinds[i] == owner && owner != &store_ram) {
      load_store(owner, &store);
    }
    players[i] = contestant_new(kinds[i], NULL, &store, 0);
    contestant_open(players[i], THREADS);
    contestant_read_all(players[i]);
  }
}

/* Everything should be in memory: adds a note if emb has read from disk all the
** same. */
static void note_reads(struct figure *figure, const char *when,
                       struct contestant *player, int64_t before) {
  int64_t reads = contestant_figure(player, "get_disk") - before;
  if (before >= 0 && reads) {
    figure_note(figure, "%s: %s read %lld keys from disk", when,
                contestant_name(player), (long long)reads);
  }
}

static void compare(const struct options *options, struct figure *figure,
                    struct contestant **players,
                    const struct workload *workload) {
  char name[64];
  snprintf(name, sizeof(name), "%s, %s, %d thread%s",
           workload->pattern == GET ? "Get" : "Get and Put",
           workload->trace->name, workload->threads,
           workload->threads > 1 ? "s" : "");
  struct group *group = figure_group(figure, name, "keys/s", NAN);
  int64_t reads[PLAYERS];
  for (int i = 0; i < PLAYERS; i++) {
    reads[i] = players[i] ? contestant_figure(players[i], "get_disk") : -1;
  }
  for (int round = 0; round < options->rounds; round++) {
    for (int i = 0; i < PLAYERS; i++) {
      int k = (i + round) % PLAYERS; /* rotates which store is first */
      if (!players[k] ||
          (kinds[k] == &store_emb_table && workload->pattern != GET)) {
        continue;
      }
      struct result r = contestant_run(players[k], workload);
      group_add(group, contestant_name(players[k]), round, r.keys_per_second,
                &r.usage);
    }
  }
  for (int i = 0; i < PLAYERS; i++) {
    if (players[i]) {
      note_reads(figure, name, players[i], reads[i]);
    }
  }
  double target = workload->pattern != GET                 ? 0.60
                  : !strcmp(workload->trace->name, "Zipf") ? 0.45
                                                           : 0.55;
  group_ratio(group, "emb C", "memory ceiling", AT_LEAST, target);
  group_ratio(group, "emb SQL", "memory ceiling", AT_LEAST, target - 0.05);
  if (workload->pattern == GET) {
    group_ratio(group, "emb SQL items(?)", "memory ceiling", AT_LEAST, 0);
  }
  group_ratio(group, "emb SQL", "SQLite table", AT_LEAST, 0);
  group_ratio(group, "emb SQL", "LMDB", AT_LEAST, 0);
  group_ratio(group, "emb SQL", "RocksDB", AT_LEAST, 0);
}

static void note_memory(struct figure *figure, struct contestant **players) {
  for (int i = 0; i < PLAYERS; i++) {
    if (players[i] && contestant_figure(players[i], "keys") >= 0 &&
        kinds[i] != &store_emb_table) {
      figure_note(
          figure, "%s: index %.0f MiB, log in memory %.0f MiB, budget %.0f MiB",
          contestant_name(players[i]),
          (double)contestant_figure(players[i], "index_bytes") / 0x1p20,
          (double)contestant_figure(players[i], "log_bytes_in_memory") / 0x1p20,
          (double)contestant_figure(players[i], "memory_bytes") / 0x1p20);
    }
  }
}

void bench_memory(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 100000
                                 : 2000000;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.05
                                        : 1;
  struct figure *figure = figure_new(
      options, "memory", "All in memory: batches of 1,024 keys, 64 floats");
  figure_note(figure,
              "%zu keys, %.0f MiB of vectors; all stores in one process", keys,
              (double)keys * DIM * sizeof(float) / 0x1p20);
  figure_note(figure, "the memory ceiling reads the 4 cache lines of a vector; "
                      "a Get reads 6.5, with its entry in the index, and "
                      "cannot be faster than 0.61 of it");
  struct trace traces[2];
  trace_uniform(&traces[0], options->quick ? 1 << 20 : 1 << 22, keys);
  trace_zipf(&traces[1], options->quick ? 1 << 20 : 1 << 22, keys);
  struct contestant *players[PLAYERS] = {NULL};
  open_all(options, keys, players);
  static const enum pattern patterns[] = {GET, HALF};
  for (int p = 0; p < 2; p++) {
    for (int i = 0; i < PLAYERS && patterns[p] == HALF; i++) {
      if (players[i] && kinds[i] != &store_emb_table) {
        contestant_write_all(players[i]);
      }
    }
    for (int t = 0; t < 2; t++) {
      for (int threads = 1; threads <= (options->quick ? 1 : THREADS);
           threads++) {
        struct workload workload = {.pattern = patterns[p],
                                    .trace = &traces[t],
                                    .threads = threads,
                                    .warm_seconds = seconds / 5,
                                    .seconds = seconds};
        if (patterns[p] == HALF) {
          /* Reach the steady state: a pause is followed by a checkpoint, after
          ** which the first Put of a key copies its record. */
          workload.warm_seconds = seconds * 2;
          workload.warm_keys = keys * 10;
        }
        compare(options, figure, players, &workload);
      }
    }
  }
  note_memory(figure, players);
  for (int i = 0; i < PLAYERS; i++) {
    if (players[i]) {
      contestant_close(players[i]);
    }
  }
  trace_free(&traces[0]);
  trace_free(&traces[1]);
  figure_done(figure);
}
