/* SPDX-License-Identifier: MIT
**
** warm.c -- how long a newly opened table is slow: from the open to nine tenths
** of the speed it reaches when everything that will be in memory is there.
**
** Two tables: one that fits into memory, uniform keys; and one eight times as
** large, Zipf-distributed keys, under a memory limit.  Batches of 1,024 Gets,
** one thread.
**
** LIVES     Each measurement is a separate process.  The first one of a store
**           reads all keys twice if they fit, works for some time, reports its
**           speed at the end, and closes the store.  Then its files are dropped
**           from the page cache (synced, and DONTNEED), and the next process
**           opens it.  The result is the time from before the open to the end
**           of the first twentieth of a second that reaches that speed.
** LATENCY   p50 and p99 of the batches up to then.
** COLD      emb twice: as it is, and with EMB_OPEN_COLD, where only the Gets
**           themselves bring records into memory; both up to the same speed.
*/
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "contest.h"
#include "field.h"
#include "limit.h"

enum { DIM = 64 };
#define SLACK_BYTES (UINT64_C(32) << 20)
#define WINDOW 0.05
#define SHARE 0.9

struct life {
  const struct store_kind *kind;
  struct store_options store;
  uint64_t limit_bytes;
  const struct trace *trace;
  const struct trace *all; /* each key once, if everything fits; or NULL */
  double seconds;          /* time limit */
  double speed;            /* keys per second that end it; 0: none */
};

struct outcome {
  double speed;   /* of the last quarter of its time */
  double reached; /* seconds; 0: never reached */
  double p50_us, p99_us;
};

static int smaller_first(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Reads all keys twice, so that everything is in memory. */
static void read_all(const struct life *life, void *session, float *buffer) {
  for (size_t i = 0; i < 2 * life->all->count; i += BATCH) {
    life->kind->get(session, life->all->keys + i % life->all->count, BATCH,
                    buffer);
  }
}

static struct outcome live(const struct life *life) {
  enum { LATENCIES = 1 << 20 };
  struct outcome outcome = {0};
  float *buffer = need((size_t)BATCH * DIM, sizeof(*buffer));
  double *latencies = need(LATENCIES, sizeof(*latencies));
  size_t calls = 0, at = 0;
  double start = now(), quarter = 0;
  uint64_t in_window = 0, in_quarter = 0;
  void *store = life->kind->open(&life->store);
  void *session = life->kind->session_open(store);
  pin(0);
  if (life->all && life->speed <= 0) {
    read_all(life, session, buffer);
    start = now();
  }
  double window = start;
  while (now() - start < life->seconds && outcome.reached <= 0) {
    const int64_t *keys = life->trace->keys + at;
    at = (at + BATCH) % life->trace->count;
    double began = now();
    const float *vectors = life->kind->get(session, keys, BATCH, buffer);
    double ended = now();
    latencies[calls++ % LATENCIES] = ended - began;
    vector_check(vectors + (calls % BATCH) * DIM, DIM, keys[calls % BATCH],
                 life->kind->name);
    in_window += BATCH;
    if (ended - start > life->seconds * 3 / 4) {
      quarter = quarter > 0 ? quarter : began;
      in_quarter += BATCH;
      outcome.speed = (double)in_quarter / (ended - quarter);
    }
    if (ended - window >= WINDOW) {
      if (life->speed > 0 &&
          (double)in_window / (ended - window) >= SHARE * life->speed) {
        outcome.reached = ended - start;
      }
      window = ended;
      in_window = 0;
    }
  }
  calls = calls < LATENCIES ? calls : LATENCIES;
  qsort(latencies, calls, sizeof(*latencies), smaller_first);
  outcome.p50_us = calls ? latencies[calls / 2] * 1e6 : 0;
  outcome.p99_us = calls ? latencies[calls * 99 / 100] * 1e6 : 0;
  life->kind->session_close(session);
  life->kind->close(store);
  return outcome;
}

/* Runs a separate process, with the files not in the page cache. */
static struct outcome run_life(const struct life *life) {
  int ends[2];
  struct outcome outcome = {0};
  forget_tree(life->store.directory);
  if (pipe(ends)) {
    die("pipe: %s", strerror(errno));
  }
  pid_t child = fork();
  if (child == 0) {
    if (life->limit_bytes && !limit_memory(life->limit_bytes)) {
      die("%s: no memory control group", life->kind->name);
    }
    outcome = live(life);
    _exit(write(ends[1], &outcome, sizeof(outcome)) != sizeof(outcome));
  }
  close(ends[1]);
  int status = 0;
  ssize_t got = child < 0 ? 0 : read(ends[0], &outcome, sizeof(outcome));
  close(ends[0]);
  if (child < 0 || waitpid(child, &status, 0) != child || status ||
      got != sizeof(outcome)) {
    die("%s: its process has ended (%d)", life->kind->name, status);
  }
  limit_remove(child);
  return outcome;
}

/* ---- the stores ---------------------------------------------------------- */

static void *open_cold(const struct store_options *options) {
  struct store_options cold = *options;
  cold.cold = 1;
  return store_emb.open(&cold);
}

struct player {
  struct store_kind kind;
  struct life life;
};

static void play(struct player *player, const struct options *options,
                 const char *name, int loads, struct figure *figure,
                 struct group *speeds, struct group *times, double *speed) {
  struct life *life = &player->life;
  double most = options->seconds > 0 ? options->seconds
                : options->quick     ? 1
                                     : 30;
  if (options->only && !strstr(name, options->only)) {
    return;
  }
  life->kind = &player->kind;
  player->kind.name = name;
  if (loads) {
    uint64_t index = load_store_apart(&player->kind, &life->store);
    if (life->store.memory_bytes && index) {
      life->store.budget_bytes = life->store.memory_bytes - index;
    }
  }
  life->seconds = most;
  life->speed = 0;
  if (loads) {
    *speed = run_life(life).speed;
    group_add(speeds, name, 0, *speed, NULL);
  }
  for (int round = 0; round < options->rounds && round < 3; round++) {
    life->seconds = 2 * most;
    life->speed = *speed;
    struct outcome outcome = run_life(life);
    struct usage usage = {.p50_us = outcome.p50_us, .p99_us = outcome.p99_us};
    if (outcome.reached <= 0) {
      figure_note(figure, "%s, round %d: not within %.0f s", name, round + 1,
                  life->seconds);
      outcome.reached = life->seconds;
    }
    group_add(times, name, round, outcome.reached, &usage);
  }
}

static void table(const struct options *options, struct figure *figure,
                  const char *what, size_t keys, uint64_t memory_bytes,
                  const struct trace *trace, const struct trace *all) {
  static const char *const names[] = {"emb C", "emb C, warm=off", "LMDB",
                                      "SQLite table"};
  const struct store_kind *const kinds[] = {&store_emb, &store_emb, &store_lmdb,
                                            &store_sqlite};
  char title[100];
  snprintf(title, sizeof(title), "%s: warm", what);
  struct group *speeds = figure_group(figure, title, "keys/s", NAN);
  snprintf(title, sizeof(title), "%s: from open to 0.9 of that", what);
  struct group *times = figure_group(figure, title, "s", NAN);
  uint64_t budget = 0;
  double speed = 0; /* of the store loaded last */
  for (int i = 0; i < 4; i++) {
    struct player player = {.kind = *kinds[i]};
    struct store_options *store = &player.life.store;
    *store = (struct store_options){.extension = options->extension,
                                    .dim = DIM,
                                    .keys = keys,
                                    .memory_bytes = memory_bytes,
                                    .budget_bytes = i == 1 ? budget : 0};
    snprintf(store->directory, sizeof(store->directory), "%s/%s", options->data,
             kinds[i]->name);
    if (i == 1) { /* the same files */
      player.kind.open = open_cold;
    } else {
      make_directory(store->directory);
    }
    player.life.limit_bytes = memory_bytes ? memory_bytes + SLACK_BYTES : 0;
    player.life.trace = trace;
    player.life.all = all;
    if (memory_bytes && i > 1 && !limit_possible()) {
      figure_note(figure, "no memory control group here: %s is left out",
                  names[i]);
      continue;
    }
    player.life.limit_bytes =
        limit_possible() ? player.life.limit_bytes : UINT64_C(0);
    if (i == 1 && speed <= 0) {
      continue; /* left out by --only, so there are no files */
    }
    play(&player, options, names[i], i != 1, figure, speeds, times, &speed);
    budget = store->budget_bytes;
    if (i > 0) {
      remove_tree(store->directory);
    }
  }
  group_ratio(times, "emb C", "emb C, warm=off", AT_MOST,
              memory_bytes ? 1 : 0.1);
  group_ratio(times, "emb C", "LMDB", AT_MOST, 0);
  group_ratio(times, "emb C", "SQLite table", AT_MOST, 0);
}

void bench_warm(const struct options *options) {
  struct trace trace, all;
  size_t small = options->keys    ? options->keys / 4
                 : options->quick ? 100000
                                  : 2000000;
  size_t large = field_keys(options);
  struct figure *figure = figure_new(
      options, "warm",
      "After opening, nothing in the page cache: batches of 1,024 Gets,"
      " one thread");
  figure_note(figure,
              "fits: %zu keys, uniform; larger than memory: %zu keys,"
              " Zipf 0.99, %.0f MiB of memory",
              small, large, (double)field_memory(options, large) / 0x1p20);
  figure_note(figure, "page cache: each file synced, then posix_fadvise"
                      " DONTNEED");
  trace_uniform(&trace, small * 2, small);
  trace_all(&all, small);
  table(options, figure, "Fits, uniform", small, 0, &trace, &all);
  trace_free(&all);
  trace_free(&trace);
  trace_zipf(&trace, large * 2, large);
  table(options, figure, "Larger than memory, Zipf", large,
        field_memory(options, large), &trace, NULL);
  trace_free(&trace);
  figure_done(figure);
}
