/* SPDX-License-Identifier: MIT
**
** average.c -- the cost of lazily averaged gradients: four threads send batches
** of gradients for hot keys (Zipf), all in memory, with adagrad, to a table
** that applies each at once, and to tables that average them.
**
** Besides gradients per second the figure shows steps per hundred gradients:
** the optimizers' work, from the stores' own counters.  The tables take turns
** within a round.  Each turn begins with an unmeasured pass and ends with a
** flush, which is measured.
*/
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"

enum { DIM = 64, TABLES = 4, THREADS = 4 };

static const struct rule {
  const char *name, *gradients;
} rules[TABLES] = {
    {"each at once", NULL},
    {"average", "average(max=16, expire=500ms)"},
    {"average, mad", "average(max=16, expire=500ms, outlier=mad)"},
    {"each at once again", NULL},
};

struct average_table {
  emb_store *store;
  emb_session *sessions[THREADS];
};

struct sender {
  emb_session *session;
  const struct trace *trace;
  const float *rows;
  size_t at; /* in the trace */
  double seconds;
  size_t done;
};

static void check(emb_session *s, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(s));
  }
}

static void open_average(const struct options *options, size_t keys,
                         const char *gradients, struct average_table *t) {
  emb_err err;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_TEMPORARY,
                       .timeout_ms = 10000,
                       .optimizer = "adagrad",
                       .gradients = gradients,
                       .memory_bytes = keys * 1200 + (512u << 20)};
  if (emb_open(options->data, &config, &t->store, &err)) {
    die("emb: %s", err.text);
  }
  for (int i = 0; i < THREADS; i++) {
    if (emb_session_open(t->store, &t->sessions[i], &err)) {
      die("emb: %s", err.text);
    }
  }
}

static void *send_batches(void *arg) {
  struct sender *sender = arg;
  double start = now();
  do {
    for (int i = 0; i < 8; i++) {
      check(sender->session,
            emb_apply_gradients(sender->session,
                                sender->trace->keys + sender->at, BATCH,
                                sender->rows, NULL, NULL));
      sender->at = (sender->at + BATCH) % sender->trace->count;
      sender->done += BATCH;
    }
  } while (now() < start + sender->seconds);
  return NULL;
}

static int64_t metric(const struct average_table *t, const char *name) {
  static emb_stat stats[512];
  size_t n = emb_stats(t->store, stats, 512);
  for (size_t i = 0; i < n; i++) {
    if (!strcmp(stats[i].name, name)) {
      return stats[i].value;
    }
  }
  die("there is no metric %s", name);
}

/* Gradients per second, and *steps per gradient. */
static double send_for(struct average_table *t, const struct trace *trace,
                       const float *rows, double seconds, double *steps) {
  struct sender senders[THREADS];
  pthread_t threads[THREADS];
  int64_t before = metric(t, "gradients_steps");
  size_t done = 0;
  double start = now();
  for (int i = 0; i < THREADS; i++) {
    senders[i] = (struct sender){.session = t->sessions[i],
                                 .trace = trace,
                                 .rows = rows,
                                 .at = (size_t)i * trace->count / THREADS /
                                       BATCH * BATCH,
                                 .seconds = seconds};
    if (pthread_create(&threads[i], NULL, send_batches, &senders[i])) {
      die("no thread");
    }
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    done += senders[i].done;
  }
  check(t->sessions[0], emb_flush_gradients(t->sessions[0], NULL));
  double time = now() - start;
  *steps = (double)(metric(t, "gradients_steps") - before) / (double)done;
  return (double)done / time;
}

static void compare_rules(const struct options *options,
                          struct average_table *tables,
                          const struct trace *trace, const float *rows,
                          struct figure *figure) {
  struct group *speed =
      figure_group(figure, "4 threads, zipf", "gradients/s", NAN);
  struct group *work =
      figure_group(figure, "steps for 100 gradients", "steps", NAN);
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.3
                                        : 2;
  for (int round = 0; round < options->rounds; round++) {
    for (int i = 0; i < TABLES; i++) {
      int k = (i + round) % TABLES;
      double steps;
      send_for(&tables[k], trace, rows, seconds / 4, &steps);
      double rate = send_for(&tables[k], trace, rows, seconds, &steps);
      group_add(speed, rules[k].name, round, rate, NULL);
      if (rules[k].gradients) {
        group_add(work, rules[k].name, round, 100 * steps, NULL);
      }
    }
  }
  group_ratio(speed, "average", "each at once", AT_LEAST, 1);
  group_ratio(speed, "average, mad", "each at once", AT_LEAST, 0);
  group_ratio(speed, "each at once again", "each at once", AT_LEAST, 0);
  group_bound(work, "average", AT_MOST, 10);
}

void bench_average(const struct options *options) {
  struct average_table tables[TABLES];
  struct trace trace;
  size_t keys = options->keys ? options->keys : 10000;
  struct figure *figure = figure_new(
      options, "average", "Gradients that are averaged lazily, all in memory");
  figure_note(figure,
              "%zu keys, Zipf 0.99, 64 floats, adagrad, batches of 1,024, "
              "max=16, expire=500ms",
              keys);
  make_directory(options->data);
  float *rows = need(BATCH * DIM, sizeof(float));
  for (size_t i = 0; i < BATCH * DIM; i++) {
    rows[i] = (float)(i % 19) / 100 - 0.09f;
  }
  trace_zipf(&trace, 1 << 20, keys);
  for (int i = 0; i < TABLES; i++) {
    open_average(options, keys, rules[i].gradients, &tables[i]);
  }
  compare_rules(options, tables, &trace, rows, figure);
  for (int i = 0; i < TABLES; i++) {
    emb_err err;
    for (int k = 0; k < THREADS; k++) {
      emb_session_close(tables[i].sessions[k]);
    }
    if (emb_close(tables[i].store, &err)) {
      die("emb: %s", err.text);
    }
  }
  trace_free(&trace);
  free(rows);
  figure_done(figure);
}
