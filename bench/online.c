/* SPDX-License-Identifier: MIT
**
** online.c -- features for online training: rows that record when and how often
** they were updated, that expire, and that are admitted once they recur; and
** snapshots during writes.
**
** LOOP      A batch is read, its gradients are computed, and they are applied
**           by the store (Adagrad) or by the program, which puts the rows.
**           Measured with all keys present, and with one key in 16 absent: the
**           plain table drops it, the other counts it first.  The tables take
**           turns within a round; each turn begins with an unmeasured pass over
**           all keys.
** STALL     A writer puts small batches without a pause.  The time of each call
**           is recorded while a snapshot of the table is taken, and for as long
**           before it, to show what the machine itself does to a thread.
*/
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"

enum { DIM = 64, TABLES = 4, LOOPS = 5, UNKNOWN = 16 };

/* ---- the training loop --------------------------------------------------- */

static const struct loop {
  const char *name;
  int table;
} loops[LOOPS] = {{"get, apply", 0},
                  {"get, apply, forgetting", 1},
                  {"get, put", 2},
                  {"get, put, forgetting", 3},
                  {"get, apply again", 0}};

struct tables {
  const struct options *options;
  size_t keys;
  double seconds;
  emb_store *store[TABLES];
  emb_session *session[TABLES];
  float *rows, *gradients, weights[DIM];
  int64_t unknown; /* the last absent key used */
  struct figure *figure;
  struct trace trace;
};

static void check(emb_session *s, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(s));
  }
}

static void open_table(struct tables *t, int i) {
  emb_err err;
  int forgets = i % 2;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_TEMPORARY,
                       .optimizer = i < 2 ? "adagrad" : NULL,
                       .insert_on =
                           forgets ? EMB_INSERT_ON_UPDATE : EMB_INSERT_ON_PUT,
                       .track = forgets ? EMB_TRACK_WALL : EMB_TRACK_NONE,
                       .ttl = forgets ? "30d" : NULL,
                       .admission = forgets ? "count(n=3)" : NULL,
                       .memory_bytes = t->keys * 1200 + (256u << 20)};
  if (emb_open(t->options->data, &config, &t->store[i], &err) ||
      emb_session_open(t->store[i], &t->session[i], &err)) {
    die("emb: %s", err.text);
  }
}

/* Logistic regression on the rows, with labels derived from the keys. */
static void compute(struct tables *t, const int64_t *keys, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float *row = t->rows + i * DIM;
    float *gradient = t->gradients + i * DIM, sum = 0;
    for (int k = 0; k < DIM; k++) {
      sum += row[k] * t->weights[k];
    }
    float error = 1 / (1 + expf(-sum)) - (float)(keys[i] & 1);
    for (int k = 0; k < DIM; k++) {
      gradient[k] = error * t->weights[k] + 1e-4f * row[k];
    }
  }
}

static void run_batch(struct tables *t, int table, const int64_t *keys,
                      size_t n) {
  emb_session *s = t->session[table];
  check(s, emb_get(s, keys, n, t->rows, NULL, NULL));
  compute(t, keys, n);
  if (table < 2) {
    check(s, emb_apply_gradients(s, keys, n, t->gradients, NULL, NULL));
    return;
  }
  for (size_t i = 0; i < n * DIM; i++) {
    t->rows[i] -= 0.01f * t->gradients[i];
  }
  check(s, emb_put(s, keys, n, t->rows, NULL));
}

static void touch_all(struct tables *t, int table, int load) {
  int64_t keys[BATCH];
  for (size_t at = 0; at < t->keys; at += BATCH) {
    size_t n = t->keys - at < BATCH ? t->keys - at : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(at + i + 1);
    }
    if (load) {
      check(t->session[table],
            emb_put(t->session[table], keys, n, t->rows, NULL));
    } else {
      run_batch(t, table, keys, n);
    }
  }
}

/* Keys per second of the process's time, background work included: this is the
** cost of interest, and it does not vary on a busy machine. */
static double measure(struct tables *t, int table, int unknown) {
  size_t at = 0, done = 0;
  int64_t keys[BATCH];
  touch_all(t, table, 0);
  double end = now() + t->seconds, start = cpu_of_process();
  do {
    for (int i = 0; i < 16; i++) {
      memcpy(keys, t->trace.keys + at, sizeof(keys));
      for (size_t k = 0; unknown && k < BATCH; k += UNKNOWN) {
        keys[k] = ++t->unknown;
      }
      run_batch(t, table, keys, BATCH);
      at = (at + BATCH) % t->trace.count;
      done += BATCH;
    }
  } while (now() < end);
  return (double)done / (cpu_of_process() - start);
}

static void compare(struct tables *t, int unknown) {
  struct group *group = figure_group(
      t->figure, unknown ? "training, 1 key in 16 unknown" : "training",
      "keys/s of processor time", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < LOOPS; i++) {
      const struct loop *loop = &loops[(i + round) % LOOPS];
      if (!unknown || loop->table < 2) {
        group_add(group, loop->name, round, measure(t, loop->table, unknown),
                  NULL);
      }
    }
  }
  /* At most 5 % of the time. */
  group_ratio(group, "get, apply, forgetting", "get, apply", AT_LEAST, 0.95);
  if (!unknown) {
    group_ratio(group, "get, put, forgetting", "get, put", AT_LEAST, 0.95);
  }
  group_ratio(group, "get, apply again", "get, apply", AT_LEAST, 0);
}

static void train(void *arg) {
  struct tables *t = arg;
  compare(t, 0);
  compare(t, 1);
}

static void bench_loop(const struct options *options, struct figure *figure) {
  struct tables t = {.options = options,
                     .figure = figure,
                     .keys = options->keys    ? options->keys
                             : options->quick ? 100000
                                              : 1000000,
                     .seconds = options->seconds > 0 ? options->seconds
                                : options->quick     ? 0.1
                                                     : 1,
                     .unknown = INT64_C(1) << 40};
  figure_note(figure,
              "training: %zu keys, 64 floats, one thread, batches of 1,024, "
              "Zipf; forgetting: track, ttl='30d', admission='count(n=3)'",
              t.keys);
  t.rows = need(BATCH * DIM, sizeof(float));
  t.gradients = need(BATCH * DIM, sizeof(float));
  for (int k = 0; k < DIM; k++) {
    t.weights[k] = (float)(k % 19) / 100 - 0.09f;
  }
  for (int i = 0; i < TABLES; i++) {
    open_table(&t, i);
    touch_all(&t, i, 1);
  }
  trace_zipf(&t.trace, 1 << 20, t.keys);
  run_pinned(train, &t);
  for (int i = 0; i < TABLES; i++) {
    emb_err err;
    emb_session_close(t.session[i]);
    if (emb_close(t.store[i], &err)) {
      die("emb: %s", err.text);
    }
  }
  trace_free(&t.trace);
  free(t.rows);
  free(t.gradients);
}

/* ---- a writer during a snapshot ------------------------------------------ */

enum { SMALL = 16, PUT_ROWS = 64, CALLS_MAX = 1 << 22 };

struct stall {
  emb_store *store;
  size_t keys;
  struct trace trace;
  float *rows;
  float *us; /* of each call */
  size_t calls;
  _Atomic int stop; /* main sets, the writer reads; relaxed */
};

static void *write_on(void *arg) {
  struct stall *w = arg;
  emb_session *s;
  emb_err err;
  size_t at = 0;
  if (emb_session_open(w->store, &s, &err)) {
    die("emb: %s", err.text);
  }
  double before = now();
  for (w->calls = 0; w->calls < CALLS_MAX && !atomic_load(&w->stop);
       w->calls++) {
    check(s, emb_put(s, w->trace.keys + at, PUT_ROWS, w->rows, NULL));
    at = (at + PUT_ROWS) % w->trace.count;
    double time = now();
    w->us[w->calls] = (float)((time - before) * 1e6);
    before = time;
  }
  emb_session_close(s);
  return NULL;
}

static int by_size(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Writes while `beside` runs. */
static void stall(struct stall *w, struct group *group, const char *what,
                  int round, void (*beside)(void *), void *arg) {
  pthread_t writer;
  char name[64];
  atomic_store(&w->stop, 0);
  if (pthread_create(&writer, NULL, write_on, w)) {
    die("no thread");
  }
  nap(0.1);
  beside(arg);
  atomic_store(&w->stop, 1);
  (void)pthread_join(writer, NULL);
  qsort(w->us, w->calls, sizeof(*w->us), by_size);
  (void)snprintf(name, sizeof(name), "longest, %s", what);
  group_add(group, name, round, w->us[w->calls - 1] / 1e3, NULL);
  (void)snprintf(name, sizeof(name), "99.9 %%, %s", what);
  group_add(group, name, round, w->us[(w->calls - 1) * 999 / 1000] / 1e3, NULL);
}

static void wait_so_long(void *arg) { nap(*(double *)arg); }

struct taking {
  emb_session *s;
  double seconds;
};

static void take(void *arg) {
  struct taking *t = arg;
  double start = now();
  check(t->s, emb_snapshot(t->s, "bench"));
  t->seconds = now() - start;
}

static void fill_store(struct stall *w, emb_session *s) {
  struct trace all;
  trace_all(&all, w->keys);
  for (size_t at = 0; at + BATCH <= all.count; at += BATCH) {
    check(s, emb_put(s, all.keys + at, BATCH, w->rows, NULL));
  }
  trace_free(&all);
}

static void bench_stall(const struct options *options, struct figure *figure) {
  struct stall w = {.keys = options->quick ? 200000 : 2000000};
  struct taking taking = {.seconds = 1};
  const char *directory = path("%s/online", options->data);
  emb_err err;
  emb_config config = {.dim = SMALL,
                       .flags = EMB_OPEN_CREATE,
                       .memory_bytes = w.keys * 240 + (64u << 20)};
  struct group *group =
      figure_group(figure, "a writer's call, 64 rows", "ms", NAN);
  double took = 0;
  figure_note(figure,
              "a writer's call: %zu keys, 16 floats; one thread puts, another "
              "takes a snapshot, or waits as long as the last one took",
              w.keys);
  remove_tree(directory);
  make_directory(directory);
  w.rows = need(BATCH * SMALL, sizeof(float));
  w.us = need(CALLS_MAX, sizeof(float));
  trace_zipf(&w.trace, 1 << 20, w.keys);
  if (emb_open(directory, &config, &w.store, &err) ||
      emb_session_open(w.store, &taking.s, &err)) {
    die("emb: %s", err.text);
  }
  fill_store(&w, taking.s);
  for (int round = 0; round < options->rounds; round++) {
    check(taking.s, emb_checkpoint(taking.s));
    stall(&w, group, "no snapshot", round, wait_so_long, &taking.seconds);
    check(taking.s, emb_checkpoint(taking.s));
    stall(&w, group, "a snapshot", round, take, &taking);
    check(taking.s, emb_snapshot_drop(taking.s, "bench"));
    took += taking.seconds;
  }
  figure_note(figure, "a snapshot took %.0f ms on average",
              took / options->rounds * 1e3);
  group_bound(group, "longest, a snapshot", AT_MOST, 5);
  group_bound(group, "99.9 %, a snapshot", AT_MOST, 0.5);
  emb_session_close(taking.s);
  if (emb_close(w.store, &err)) {
    die("emb: %s", err.text);
  }
  remove_tree(directory);
  trace_free(&w.trace);
  free(w.rows);
  free(w.us);
}

void bench_online(const struct options *options) {
  struct figure *figure =
      figure_new(options, "online", "Online training: forgetting, snapshots");
  make_directory(options->data);
  bench_loop(options, figure);
  bench_stall(options, figure);
  figure_done(figure);
}
