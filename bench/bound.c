/* SPDX-License-Identifier: MIT
**
** bound.c -- the effect of a staleness bound: several threads train on the same
** skewed keys of a table in memory, each processing one batch after the other:
** Get, compute, Put.  Batches of different threads share hot keys, so at bound
** 0 one thread's Get waits for another's Put, and at bound N it waits if N + 1
** threads have the key.  Computing is mostly sleep, as if done elsewhere, so
** that more threads than processors can make progress.
**
** There is one store per bound; the stores take turns in each round.
**
** A vector's stamp counts its Puts: the new stamp is that of the Get plus one.
** The sum of stamps therefore shows how many updates were lost because another
** thread had read the same vector.  At bound 0 none may be lost; this is
** checked.
*/
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "direct.h"
#include "keys.h"

enum { BOUNDS = 9, THREADS_MAX = 16, CHECK_EACH = 8, CHECK_VECTORS = 16 };
static const int bounds[BOUNDS] = {0, 1, 2, 4, 8, 16, 40, 80, DIRECT_NO_BOUND};
static const double COMPUTE = 0.010; /* seconds per batch */
static const int threads_full[] = {2, 4, 16, 0}, threads_quick[] = {4, 0};

struct player {
  struct direct direct;
  int bound;
  char name[32];
  emb_session *sessions[THREADS_MAX];
  size_t at[THREADS_MAX]; /* next batch in the trace */
};

struct worker {
  struct player *player;
  const struct trace *trace;
  pthread_barrier_t *barrier;
  int number, threads;
  double seconds;
  float *got, *new;
  uint32_t *seen; /* [keys + 1] last batch with the key */
  uint32_t batches;
  uint64_t updates; /* keys put, each once per batch */
  double *times;    /* of Gets */
  double cpu;
};

static const char *name_of(int bound) {
  return bound == DIRECT_NO_BOUND ? "no bound" : path("bound %d", bound);
}

static void check(const struct worker *w, const int64_t *keys) {
  for (size_t i = 0; i < CHECK_VECTORS; i++) {
    size_t k = i * (BATCH / CHECK_VECTORS);
    vector_check(w->got + k * DIRECT_DIM, DIRECT_DIM, keys[k], w->player->name);
  }
}

static void compute(struct worker *w, const int64_t *keys) {
  double start = now();
  w->batches++;
  if (w->batches % CHECK_EACH == 0) {
    check(w, keys);
  }
  for (size_t i = 0; i < BATCH; i++) {
    uint32_t stamp = (uint32_t)w->got[i * DIRECT_DIM + 3] + 1;
    vector_fill(w->new + i *DIRECT_DIM, DIRECT_DIM, keys[i], stamp);
    w->updates += w->seen[keys[i]] != w->batches;
    w->seen[keys[i]] = w->batches;
  }
  double left = COMPUTE - (now() - start);
  if (left > 0) {
    nap(left);
  }
}

static void do_batches(struct worker *w, double seconds, uint32_t most) {
  struct player *player = w->player;
  emb_session *session = player->sessions[w->number];
  size_t *at = &player->at[w->number], count = w->trace->count / BATCH;
  double end = now() + seconds;
  w->batches = 0;
  w->updates = 0;
  memset(w->seen, 0, (w->trace->highest + 1) * sizeof(uint32_t));
  while (now() < end && w->batches < most) {
    const int64_t *keys = w->trace->keys + (*at)++ % count * BATCH;
    double start = now();
    direct_ok(session, emb_get(session, keys, BATCH, w->got, NULL, NULL),
              player->name);
    w->times[w->batches] = now() - start;
    compute(w, keys);
    direct_ok(session, emb_put(session, keys, BATCH, w->new, NULL),
              player->name);
  }
}

static void *work(void *arg) {
  struct worker *w = arg;
  size_t bytes = (size_t)BATCH * DIRECT_DIM * sizeof(float);
  uint32_t most = (uint32_t)(w->seconds / COMPUTE) + 2;
  w->got = need_huge(bytes);
  w->new = need_huge(bytes);
  w->seen = need(w->trace->highest + 1, sizeof(uint32_t));
  w->times = need(most, sizeof(double));
  pthread_barrier_wait(w->barrier);
  double cpu = cpu_of_thread();
  do_batches(w, w->seconds, most);
  w->cpu = cpu_of_thread() - cpu;
  drop_huge(w->got, bytes);
  drop_huge(w->new, bytes);
  free(w->seen);
  return NULL;
}

/* Number of Puts, from the stamps. */
static uint64_t sum_of_stamps(const struct direct *direct) {
  enum { ROWS = 4096 };
  emb_session *session = direct_session(direct);
  int64_t *keys = need(ROWS, sizeof(*keys));
  float *vectors = need((size_t)ROWS * DIRECT_DIM, sizeof(float));
  uint64_t sum = 0;
  for (size_t from = 0; from < direct->keys; from += ROWS) {
    size_t left = direct->keys - from, n = left < ROWS ? left : ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i + 1);
    }
    direct_ok(session, emb_peek(session, keys, n, vectors, NULL, NULL),
              "emb_peek");
    for (size_t i = 0; i < n; i++) {
      sum += (uint64_t)vectors[i * DIRECT_DIM + 3];
    }
  }
  free(keys);
  free(vectors);
  emb_session_close(session);
  return sum;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Percentiles of the Gets of all workers. */
static void latencies(struct worker *workers, int threads,
                      struct usage *usage) {
  size_t n = 0;
  for (int i = 0; i < threads; i++) {
    n += workers[i].batches;
  }
  double *all = need(n, sizeof(double));
  n = 0;
  for (int i = 0; i < threads; i++) {
    memcpy(all + n, workers[i].times, workers[i].batches * sizeof(double));
    n += workers[i].batches;
    free(workers[i].times);
  }
  qsort(all, n, sizeof(double), compare);
  usage->p50_us = n ? all[n / 2] * 1e6 : NAN;
  usage->p99_us = n ? all[n * 99 / 100] * 1e6 : NAN;
  free(all);
}

struct outcome {
  double rate; /* batches per second */
  double lost; /* percent of updates */
  struct usage usage;
};

static struct outcome run(struct player *player, const struct trace *trace,
                          int threads, double seconds) {
  struct worker workers[THREADS_MAX];
  pthread_t ids[THREADS_MAX];
  pthread_barrier_t barrier;
  struct outcome outcome;
  uint64_t before = sum_of_stamps(&player->direct), updates = 0, batches = 0;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++) {
    workers[i] = (struct worker){.player = player,
                                 .trace = trace,
                                 .barrier = &barrier,
                                 .number = i,
                                 .threads = threads,
                                 .seconds = seconds};
    if (pthread_create(&ids[i], NULL, work, &workers[i])) {
      die("no thread");
    }
  }
  pthread_barrier_wait(&barrier);
  double start = now(), process = cpu_of_process(), machine = cpu_of_machine();
  double own = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(ids[i], NULL);
    updates += workers[i].updates;
    batches += workers[i].batches;
    own += workers[i].cpu;
  }
  double took = now() - start;
  process = cpu_of_process() - process;
  machine = cpu_of_machine() - machine;
  pthread_barrier_destroy(&barrier);
  uint64_t there = sum_of_stamps(&player->direct) - before;
  if (there > updates || (player->bound == 0 && there != updates)) {
    die("%s: %llu updates are there of %llu", player->name,
        (unsigned long long)there, (unsigned long long)updates);
  }
  outcome.rate = (double)batches / took;
  outcome.lost = 100 * (double)(updates - there) / (double)updates;
  outcome.usage.cores = process / took;
  outcome.usage.cores_engine = fmax(0, (process - own) / took);
  outcome.usage.cores_others = fmax(0, (machine - process) / took);
  latencies(workers, threads, &outcome.usage);
  settle();
  return outcome;
}

/* Compares all bounds at this number of threads, round after round. */
static void compare_bounds(const struct options *options, struct figure *figure,
                           struct player *players, const struct trace *trace,
                           int threads, double seconds) {
  char name[64];
  snprintf(name, sizeof(name), "%d threads", threads);
  struct group *all = figure_group(figure, name, "batches/s", NAN);
  struct group *part[BOUNDS], *lost[BOUNDS];
  for (int k = 0; k < BOUNDS; k++) {
    const char *at =
        bounds[k] == DIRECT_NO_BOUND ? "none" : path("%d", bounds[k]);
    snprintf(name, sizeof(name), "throughput, %s", at);
    part[k] = figure_group(figure, name, "of that without a bound", k);
    snprintf(name, sizeof(name), "updates lost, %s", at);
    lost[k] = figure_group(figure, name, "percent", k);
  }
  const char *series = path("%d threads", threads);
  for (int round = 0; round < options->rounds; round++) {
    double rate[BOUNDS];
    for (int i = 0; i < BOUNDS; i++) {
      int k = (i + round) % BOUNDS;
      struct outcome o = run(&players[k], trace, threads, seconds);
      rate[k] = o.rate;
      group_add(all, players[k].name, round, o.rate, &o.usage);
      group_add(lost[k], series, round, o.lost, NULL);
    }
    for (int k = 0; k < BOUNDS; k++) {
      group_add(part[k], series, round, rate[k] / rate[BOUNDS - 1], NULL);
    }
  }
  for (int k = 0; k < BOUNDS - 1; k++) {
    /* At most bound + 1 threads never wait. */
    group_ratio(all, players[k].name, players[BOUNDS - 1].name, AT_LEAST,
                bounds[k] + 1 >= threads ? 0.95 : 0);
  }
}

void bench_bound(const struct options *options) {
  size_t keys = options->keys ? options->keys : options->quick ? 50000 : 500000;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.2
                                        : 1;
  struct figure *figure =
      figure_new(options, "bound",
                 "Throughput against the staleness bound, all in memory");
  figure_steps(figure, "staleness bound");
  figure_note(figure,
              "%zu keys, 64 floats, batches of 1,024, Zipf %.2f, the same keys"
              " for all threads; Get, %.0f ms of computing (sleep), Put; the"
              " latencies are those of Gets",
              keys, ZIPF_EXPONENT, COMPUTE * 1e3);
  struct trace trace;
  trace_zipf(&trace, options->quick ? 1 << 18 : 1 << 22, keys);
  struct player players[BOUNDS];
  memset(players, 0, sizeof(players));
  for (int k = 0; k < BOUNDS; k++) {
    struct player *p = &players[k];
    p->bound = bounds[k];
    snprintf(p->name, sizeof(p->name), "%s", name_of(bounds[k]));
    direct_open(&p->direct, options, p->name, keys, 0, bounds[k]);
    for (int i = 0; i < THREADS_MAX; i++) {
      p->sessions[i] = direct_session(&p->direct);
      p->at[i] = trace.count / BATCH / THREADS_MAX * (size_t)i;
    }
  }
  for (const int *t = options->quick ? threads_quick : threads_full; *t; t++) {
    compare_bounds(options, figure, players, &trace, *t, seconds);
  }
  for (int k = 0; k < BOUNDS; k++) {
    for (int i = 0; i < THREADS_MAX; i++) {
      emb_session_close(players[k].sessions[i]);
    }
    direct_close(&players[k].direct);
  }
  trace_free(&trace);
  figure_done(figure);
}
