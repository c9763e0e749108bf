/* SPDX-License-Identifier: MIT
**
** update.c -- the cost of an optimizer in the store: a batch of gradients
** applied in place, against a batch of vectors put, everything in memory and
** changed in place.
**
** The Put has two forms: into a table without an optimizer, whose records are
** half as long, and into the table that receives the gradients, where the state
** stays unchanged.  The third series is a program without an optimizer in the
** store: Get, one step of SGD in the program, Put.
**
** The stores take turns within a round.  Each turn begins with an unmeasured
** pass over all keys: a pause is followed by a checkpoint, after which the
** first write of a key copies its record.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"

enum { DIM = 64, TABLES = 4, WORKS = 7 };

static const char *const optimizers[TABLES] = {NULL, "adagrad", "adam",
                                               "rowwise_adagrad"};

enum kind { PUT, APPLY, GET_AND_PUT };

static const struct work {
  const char *name;
  int table;
  enum kind kind;
} works[WORKS] = {
    {"put, no optimizer", 0, PUT},       {"put, adagrad's table", 1, PUT},
    {"apply adagrad", 1, APPLY},         {"apply adam", 2, APPLY},
    {"apply rowwise_adagrad", 3, APPLY}, {"get, SGD, put", 0, GET_AND_PUT},
    {"put again, no optimizer", 0, PUT}};

struct tables {
  const struct options *options;
  size_t keys;
  double seconds;
  emb_store *store[TABLES];
  emb_session *session[TABLES];
  float *rows, *got;
  struct figure *figure;
  struct trace trace[2];
};

static void check(emb_session *s, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(s));
  }
}

static void open_table(struct tables *t, int i) {
  emb_err err;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_TEMPORARY,
                       .optimizer = optimizers[i],
                       .memory_bytes = t->keys * 1200 + (256u << 20)};
  if (emb_open(t->options->data, &config, &t->store[i], &err) ||
      emb_session_open(t->store[i], &t->session[i], &err)) {
    die("emb: %s", err.text);
  }
}

static void run_batch(struct tables *t, const struct work *w,
                      const int64_t *keys, size_t n) {
  emb_session *s = t->session[w->table];
  switch (w->kind) {
  case PUT:
    check(s, emb_put(s, keys, n, t->rows, NULL));
    break;
  case APPLY:
    check(s, emb_apply_gradients(s, keys, n, t->rows, NULL, NULL));
    break;
  case GET_AND_PUT:
    check(s, emb_get(s, keys, n, t->got, NULL, NULL));
    for (size_t i = 0; i < n * DIM; i++) {
      t->got[i] -= 0.01f * t->rows[i];
    }
    check(s, emb_put(s, keys, n, t->got, NULL));
  }
}

static void touch_all(struct tables *t, const struct work *w) {
  int64_t keys[BATCH];
  for (size_t at = 0; at < t->keys; at += BATCH) {
    size_t n = t->keys - at < BATCH ? t->keys - at : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(at + i + 1);
    }
    run_batch(t, w, keys, n);
  }
}

/* Keys per second. */
static double measure(struct tables *t, const struct work *w,
                      const struct trace *trace) {
  size_t at = 0, done = 0;
  touch_all(t, w);
  double start = now(), end = start + t->seconds, time;
  do {
    for (int i = 0; i < 16; i++) {
      run_batch(t, w, trace->keys + at, BATCH);
      at = (at + BATCH) % trace->count;
      done += BATCH;
    }
    time = now();
  } while (time < end);
  return (double)done / (time - start);
}

static void compare(struct tables *t, const struct trace *trace) {
  char name[64];
  (void)snprintf(name, sizeof(name), "batches of 1,024, %s", trace->name);
  struct group *group = figure_group(t->figure, name, "keys/s", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < WORKS; i++) {
      const struct work *w = &works[(i + round) % WORKS];
      group_add(group, w->name, round, measure(t, w, trace), NULL);
    }
  }
  group_ratio(group, "apply adagrad", "put, adagrad's table", AT_LEAST, 0.80);
  group_ratio(group, "apply adagrad", "put, no optimizer", AT_LEAST, 0);
  group_ratio(group, "apply adagrad", "get, SGD, put", AT_LEAST, 0);
  group_ratio(group, "put again, no optimizer", "put, no optimizer", AT_LEAST,
              0);
}

static void work(void *arg) {
  struct tables *t = arg;
  for (int i = 0; i < 2; i++) {
    compare(t, &t->trace[i]);
  }
}

void bench_update(const struct options *options) {
  struct tables t = {.options = options,
                     .keys = options->keys    ? options->keys
                             : options->quick ? 100000
                                              : 1000000,
                     .seconds = options->seconds > 0 ? options->seconds
                                : options->quick     ? 0.1
                                                     : 1};
  t.figure =
      figure_new(options, "update", "An optimizer in the store, all in memory");
  figure_note(t.figure, "%zu keys, 64 floats, one thread", t.keys);
  make_directory(options->data);
  t.rows = need(BATCH * DIM, sizeof(float));
  t.got = need(BATCH * DIM, sizeof(float));
  for (size_t i = 0; i < BATCH * DIM; i++) {
    t.rows[i] = (float)(i % 19) / 100 - 0.09f;
  }
  for (int i = 0; i < TABLES; i++) {
    struct work load = {"", i, PUT};
    open_table(&t, i);
    touch_all(&t, &load);
  }
  trace_uniform(&t.trace[0], 1 << 20, t.keys);
  trace_zipf(&t.trace[1], 1 << 20, t.keys);
  run_pinned(work, &t);
  for (int i = 0; i < TABLES; i++) {
    emb_err err;
    emb_session_close(t.session[i]);
    if (emb_close(t.store[i], &err)) {
      die("emb: %s", err.text);
    }
  }
  trace_free(&t.trace[0]);
  trace_free(&t.trace[1]);
  free(t.rows);
  free(t.got);
  figure_done(t.figure);
}
