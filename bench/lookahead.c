/* SPDX-License-Identifier: MIT
**
** lookahead.c -- training on a table four times as large as its memory: one
** thread reads a batch of 1,024 uniform keys, computes on it and writes it
** back, batch after batch.  How close does it come to the same loop on a table
** in memory?
**
**   in memory           emb_get, compute, emb_put
**   on disk             the same calls
**   look-ahead 1, 2     the same calls, and after each Get the batch one or two
**                       ahead is passed to emb_lookahead
**   prefetch            two buffers: synchronize the last emb_prefetch, start
**                       the next, compute, synchronize the last emb_write_back,
**                       start the next
**
** Computing is a busy loop, which occupies the calling processor as training on
** it would.  It lasts 1.3 times as long as a batch's Get and Put on disk took
** at the start, so there is enough time for read-in.  What remains visible is
** the wait: all of a batch's time that is not computing.
**
** Each Put has a unique stamp, and the last stamp of each key is recorded.  In
** one batch of eight all Gets are compared with it.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "direct.h"
#include "keys.h"

enum { CHECK_EACH = 8, BUFFERS = 2, WAYS = 5, BOUNDS = 2 };
static const double COMPUTE = 1.3; /* times the I/O of a batch */
static const int bounds[BOUNDS] = {0, 4};

enum way { IN_MEMORY, ON_DISK, AHEAD_1, AHEAD_2, PREFETCH };
static const char *const ways[WAYS] = {"in memory", "on disk, no look-ahead",
                                       "look-ahead 1", "look-ahead 2",
                                       "prefetch"};

struct table {
  struct direct direct;
  int bound;
  emb_session *session;
  const struct trace *trace;
  size_t batch;   /* position in the trace; continues from turn to turn */
  uint32_t *last; /* [keys + 1] stamp of the key's last Put */
  uint32_t stamp;
  float *got[BUFFERS], *new;
};

struct turn {
  struct table *table;
  enum way way;
  size_t batches;
  double compute; /* seconds */
  double *times;  /* of each batch */
  double took, cpu;
};

static size_t bytes_of_batch(void) {
  return (size_t)BATCH * DIRECT_DIM * sizeof(float);
}

/* The batch `ahead` positions after the present one. */
static const int64_t *keys_of(const struct table *table, size_t ahead) {
  size_t batches = table->trace->count / BATCH;
  return table->trace->keys + (table->batch + ahead) % batches * BATCH;
}

/* exact: no Put of a key may be missing. */
static void check(const struct table *table, const int64_t *keys,
                  const float *vectors, int exact) {
  for (size_t i = 0; i < BATCH; i++) {
    const float *vector = vectors + i * DIRECT_DIM;
    vector_check(vector, DIRECT_DIM, keys[i], table->direct.name);
    if (exact && (uint32_t)vector[3] != table->last[keys[i]]) {
      die("%s: key %lld has stamp %g, its last Put %u", table->direct.name,
          (long long)keys[i], (double)vector[3], table->last[keys[i]]);
    }
  }
}

/* Makes the new vectors, then computes until `end`. */
static void compute(struct table *table, const int64_t *keys, double end) {
  table->stamp = (table->stamp + 1) & 0xfffff;
  for (size_t i = 0; i < BATCH; i++) {
    vector_fill(table->new + i *DIRECT_DIM, DIRECT_DIM, keys[i], table->stamp);
    table->last[keys[i]] = table->stamp;
  }
  while (now() < end) {
  }
}

static void start_prefetch(struct table *table, size_t ahead, float *to) {
  uint64_t ticket;
  direct_ok(table->session,
            emb_prefetch(table->session, keys_of(table, ahead), BATCH,
                         &(emb_rows){.vectors = to}, &ticket),
            "emb_prefetch");
}

static void end_write_back(struct table *table) {
  size_t write_backs;
  emb_tickets(table->session, &write_backs);
  if (write_backs) {
    direct_ok(table->session,
              emb_write_back_synchronize(table->session, 0, NULL),
              "emb_write_back_synchronize");
  }
}

static const float *read_batch(struct turn *turn, size_t i) {
  struct table *table = turn->table;
  emb_session *session = table->session;
  float *to = table->got[i % BUFFERS];
  size_t ahead = turn->way == AHEAD_1 ? 1 : turn->way == AHEAD_2 ? 2 : 0;
  if (turn->way == PREFETCH) {
    direct_ok(session, emb_prefetch_synchronize(session, 0, NULL),
              "emb_prefetch_synchronize");
    if (i + 1 < turn->batches) {
      start_prefetch(table, 1, table->got[(i + 1) % BUFFERS]);
    }
    return to;
  }
  direct_ok(session, emb_get(session, keys_of(table, 0), BATCH, to, NULL, NULL),
            "emb_get");
  if (ahead && i + ahead < turn->batches) {
    direct_ok(session,
              emb_lookahead(session, keys_of(table, ahead), BATCH,
                            EMB_AHEAD_BUFFER, NULL),
              "emb_lookahead");
  }
  return to;
}

static void write_batch(struct turn *turn) {
  struct table *table = turn->table;
  const int64_t *keys = keys_of(table, 0);
  uint64_t ticket;
  if (turn->way == PREFETCH) {
    end_write_back(table);
    direct_ok(table->session,
              emb_write_back(table->session, keys, BATCH, table->new, &ticket),
              "emb_write_back");
  } else {
    direct_ok(table->session,
              emb_put(table->session, keys, BATCH, table->new, NULL),
              "emb_put");
  }
}

/* Brings in what the first batches need before the clock starts. */
static void prepare(struct turn *turn) {
  struct table *table = turn->table;
  emb_session *session = table->session;
  emb_ahead ahead;
  if (turn->way == PREFETCH) {
    start_prefetch(table, 0, table->got[0]);
  }
  for (size_t i = 0; turn->way == AHEAD_1 || turn->way == AHEAD_2; i++) {
    direct_ok(session,
              emb_lookahead(session, keys_of(table, i), BATCH, EMB_AHEAD_BUFFER,
                            &ahead),
              "emb_lookahead");
    direct_ok(session, emb_lookahead_wait(session, ahead.number),
              "emb_lookahead_wait");
    if (i == (turn->way == AHEAD_2)) {
      break;
    }
  }
}

static void do_turn(void *arg) {
  struct turn *turn = arg;
  struct table *table = turn->table;
  /* Above bound 0 a prefetched batch may lack the previous batch's Put. */
  int exact = turn->way != PREFETCH || !table->bound;
  prepare(turn);
  double cpu = cpu_of_thread(), start = now(), before = start;
  for (size_t i = 0; i < turn->batches; i++) {
    const float *got = read_batch(turn, i);
    double end = now() + turn->compute; /* includes the checks */
    if (i % CHECK_EACH == 0) {
      check(table, keys_of(table, 0), got, exact);
    }
    compute(table, keys_of(table, 0), end);
    write_batch(turn);
    table->batch++;
    double after = now();
    turn->times[i] = after - before;
    before = after;
  }
  end_write_back(table);
  turn->took = now() - start;
  turn->cpu = cpu_of_thread() - cpu;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seconds per batch. */
static double run(struct table *table, enum way way, size_t batches,
                  double seconds, struct usage *usage) {
  struct turn turn = {.table = table,
                      .way = way,
                      .batches = batches,
                      .compute = seconds,
                      .times = need(batches, sizeof(double))};
  double process = cpu_of_process(), machine = cpu_of_machine();
  run_pinned(do_turn, &turn);
  process = cpu_of_process() - process;
  machine = cpu_of_machine() - machine;
  qsort(turn.times, batches, sizeof(double), compare);
  usage->cores = process / turn.took;
  usage->cores_engine = fmax(0, (process - turn.cpu) / turn.took);
  usage->cores_others = fmax(0, (machine - process) / turn.took);
  usage->p50_us = turn.times[batches / 2] * 1e6;
  usage->p99_us = turn.times[batches * 99 / 100] * 1e6;
  free(turn.times);
  settle();
  return turn.took / (double)batches;
}

/* Tables 0, 1: in memory, for each bound; 2, 3: on disk. */
static void open_table(struct table *table, const struct options *options,
                       const struct trace *trace, uint64_t budget, int bound) {
  static const char *const names[] = {"memory, bound 0", "memory, bound 4",
                                      "disk, bound 0", "disk, bound 4"};
  table->bound = bound;
  table->trace = trace;
  direct_open(&table->direct, options, names[2 * !!budget + !!bound],
              trace->highest, budget, bound);
  table->session = direct_session(&table->direct);
  table->last = need(trace->highest + 1, sizeof(uint32_t));
  for (size_t i = 0; i <= trace->highest; i++) {
    table->last[i] = 1;
  }
  table->stamp = 1;
  for (size_t i = 0; i < BUFFERS; i++) {
    table->got[i] = need_huge(bytes_of_batch());
  }
  table->new = need_huge(bytes_of_batch());
}

static void close_table(struct table *table) {
  emb_session_close(table->session);
  direct_close(&table->direct);
  for (size_t i = 0; i < BUFFERS; i++) {
    drop_huge(table->got[i], bytes_of_batch());
  }
  drop_huge(table->new, bytes_of_batch());
  free(table->last);
}

/* Compares all ways at one bound, round after round. */
static void compare_ways(const struct options *options, struct figure *figure,
                         struct table *memory, struct table *disk,
                         size_t batches, double seconds) {
  char name[64];
  snprintf(name, sizeof(name), "batches, bound %d", memory->bound);
  struct group *rates = figure_group(figure, name, "batches/s", NAN);
  snprintf(name, sizeof(name), "wait per batch, bound %d", memory->bound);
  struct group *waits = figure_group(figure, name, "ms", NAN);
  int64_t reads = direct_figure(&memory->direct, "get_disk");
  for (int round = 0; round < options->rounds; round++) {
    for (int i = 0; i < WAYS; i++) {
      int way = (i + round) % WAYS;
      struct usage usage;
      if (options->only && !strstr(ways[way], options->only)) {
        continue;
      }
      double took = run(way == IN_MEMORY ? memory : disk, (enum way)way,
                        batches, seconds, &usage);
      group_add(rates, ways[way], round, 1 / took, &usage);
      group_add(waits, ways[way], round, (took - seconds) * 1e3, NULL);
    }
  }
  if (direct_figure(&memory->direct, "get_disk") != reads) {
    figure_note(figure, "bound %d: the table in memory has read from disk",
                memory->bound);
  }
  group_ratio(rates, ways[ON_DISK], ways[IN_MEMORY], AT_LEAST, 0);
  group_ratio(rates, ways[AHEAD_1], ways[IN_MEMORY], AT_LEAST, 0);
  group_ratio(rates, ways[AHEAD_2], ways[IN_MEMORY], AT_LEAST, 0.95);
  group_ratio(rates, ways[PREFETCH], ways[IN_MEMORY], AT_LEAST, 0.95);
  group_ratio(waits, ways[AHEAD_2], ways[ON_DISK], AT_MOST, 0);
  group_ratio(waits, ways[PREFETCH], ways[ON_DISK], AT_MOST, 0);
}

static void note_disk(struct figure *figure, const struct table *table) {
  const struct direct *d = &table->direct;
  figure_note(figure,
              "%s: budget %.0f MiB, index %.0f MiB; %lld keys looked ahead and"
              " read, %lld refused; at the end %lld workers with %lld requests",
              d->name, (double)direct_figure(d, "memory_bytes") / 0x1p20,
              (double)direct_figure(d, "index_bytes") / 0x1p20,
              (long long)direct_figure(d, "lookahead_read"),
              (long long)direct_figure(d, "lookahead_refused"),
              (long long)direct_figure(d, "io_workers"),
              (long long)direct_figure(d, "io_depth"));
}

void bench_lookahead(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 100000
                                 : 4000000;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.1
                                        : 2;
  uint64_t vectors = (uint64_t)keys * DIRECT_DIM * sizeof(float);
  uint64_t budget = vectors / 4;
  struct figure *figure =
      figure_new(options, "lookahead",
                 "Training on a table four times as large as its memory");
  figure_note(figure,
              "%zu keys, %.0f MiB of vectors, budget %.0f MiB; batches of"
              " 1,024 uniform keys, one thread: Get, compute, Put",
              keys, (double)vectors / 0x1p20, (double)budget / 0x1p20);
  struct trace trace;
  trace_uniform(&trace, keys, keys);
  struct table tables[2 * BOUNDS];
  memset(tables, 0, sizeof(tables));
  for (int i = 0; i < BOUNDS; i++) {
    open_table(&tables[i], options, &trace, 0, bounds[i]);
    open_table(&tables[BOUNDS + i], options, &trace, budget, bounds[i]);
  }
  /* Caches fill and the log reaches its steady state; then the I/O is timed. */
  struct usage usage;
  size_t warm = keys / BATCH / 2;
  double io = 0;
  for (int i = 0; i < BOUNDS; i++) {
    run(&tables[i], IN_MEMORY, 16, 0, &usage);
    run(&tables[BOUNDS + i], ON_DISK, warm, 0, &usage);
    io = fmax(io, run(&tables[BOUNDS + i], ON_DISK, 64, 0, &usage));
  }
  double compute = COMPUTE * io;
  size_t batches = (size_t)(seconds / compute) + 16;
  figure_note(figure,
              "Get and Put of a batch on disk: %.2f ms; computing: %.2f ms of"
              " busy loop; %zu batches per turn",
              io * 1e3, compute * 1e3, batches);
  for (int i = 0; i < BOUNDS; i++) {
    compare_ways(options, figure, &tables[i], &tables[BOUNDS + i], batches,
                 compute);
  }
  for (int i = 0; i < BOUNDS; i++) {
    note_disk(figure, &tables[BOUNDS + i]);
  }
  for (int i = 0; i < 2 * BOUNDS; i++) {
    close_table(&tables[i]);
  }
  trace_free(&trace);
  figure_done(figure);
}
