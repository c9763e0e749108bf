/* SPDX-License-Identifier: MIT
**
** bag.c -- pooled lookups: emb_bag against emb_get and emb_lookup of the same
** keys, with everything in memory, for three widths, in C and through SQL; and
** emb_bag_apply against emb_apply_gradients with one row per key.
**
** A batch has 8,192 keys in bags of 0 to 20, as in a multi-valued feature of a
** sample.  The ratio is the cost of the sums on top of moving the rows to the
** processor, less the output that need not be written.  The vectors of a bag
** are occasionally checked against sums computed here.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"
#include "sql.h"

enum { KEYS = 8 * BATCH, LONGEST = 20, WORKS = 6, STEPS = 2, QUERIES = 4 };

static const char *const works[WORKS] = {"emb_get",      "emb_lookup", "sum",
                                         "sum, weights", "mean",       "sqrtn"};
static const char *const steps[STEPS] = {"emb_apply_gradients",
                                         "emb_bag_apply"};
static const struct bag_query {
  const char *name, *sql;
} queries[QUERIES] = {
    {"emb_get", "SELECT emb_get('items', ?1)"},
    {"emb_lookup", "SELECT emb_lookup('items', ?1, 1)"},
    {"sum", "SELECT emb_bag('items', ?1, ?2, 'sum')"},
    {"mean, weights", "SELECT emb_bag('items', ?1, ?2, 'mean', ?3)"}};

struct bagged {
  const struct options *options;
  size_t keys, dim;
  double seconds;
  emb_store *store;
  emb_session *session;
  sqlite3 *db;
  sqlite3_stmt *statement[QUERIES];
  struct trace trace;
  size_t at; /* of the trace */
  int64_t offsets[KEYS];
  size_t bags;
  float weights[KEYS];
  float *rows, *pooled; /* KEYS of them */
  struct figure *figure;
};

static void bagged_check(struct bagged *t, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(t->session));
  }
}

/* Bags of 0 to LONGEST keys, KEYS in all. */
static void bagged_offsets(struct bagged *t) {
  uint64_t state = 17;
  for (size_t at = 0; at < KEYS && t->bags < KEYS; t->bags++) {
    t->offsets[t->bags] = (int64_t)at;
    at += random_next(&state) % (LONGEST + 1);
  }
  for (size_t i = 0; i < KEYS; i++) {
    t->weights[i] = (float)(random_next(&state) % 1000) / 1000;
  }
}

static emb_bags bagged_of(const struct bagged *t, int mode, int weights) {
  return (emb_bags){.offsets = t->offsets,
                    .count = t->bags,
                    .mode = mode,
                    .weights = weights ? t->weights : NULL};
}

static const int64_t *bagged_next(struct bagged *t) {
  const int64_t *keys = t->trace.keys + t->at;
  t->at = (t->at + KEYS) % t->trace.count;
  return keys;
}

/* Checks the sums of the first bags against rows read by emb_get. */
static void bagged_compare_sums(struct bagged *t, const int64_t *keys) {
  bagged_check(t, emb_get(t->session, keys, KEYS, t->rows, NULL, NULL));
  for (size_t bag = 0; bag < 16; bag++) {
    for (size_t k = 0; k < t->dim; k++) {
      float sum = 0;
      for (int64_t i = t->offsets[bag]; i < t->offsets[bag + 1]; i++) {
        sum += t->rows[(size_t)i * t->dim + k];
      }
      if (sum != t->pooled[bag * t->dim + k]) {
        die("bag %zu, element %zu: %g instead of %g", bag, k,
            (double)t->pooled[bag * t->dim + k], (double)sum);
      }
    }
  }
}

static void bagged_call(struct bagged *t, int work, int checked) {
  static const int modes[WORKS] = {
      0, 0, EMB_BAG_SUM, EMB_BAG_SUM, EMB_BAG_MEAN, EMB_BAG_SQRTN};
  const int64_t *keys = bagged_next(t);
  if (work < 2) {
    bagged_check(t, work
                        ? emb_lookup(t->session, keys, KEYS, t->rows, NULL)
                        : emb_get(t->session, keys, KEYS, t->rows, NULL, NULL));
    return;
  }
  emb_bags bags = bagged_of(t, modes[work], work == 3);
  bagged_check(t, emb_bag(t->session, keys, KEYS, &bags, t->pooled));
  if (checked && work == 2) {
    bagged_compare_sums(t, keys);
  }
}

static void bagged_step(struct bagged *t, int step, int checked) {
  const int64_t *keys = bagged_next(t);
  emb_bags bags = bagged_of(t, EMB_BAG_SUM, 0);
  (void)checked;
  bagged_check(
      t,
      step ? emb_bag_apply(t->session, keys, KEYS, &bags, t->pooled, NULL)
           : emb_apply_gradients(t->session, keys, KEYS, t->rows, NULL, NULL));
}

static void bagged_query(struct bagged *t, int query, int checked) {
  sqlite3_stmt *statement = t->statement[query];
  const int64_t *keys = bagged_next(t);
  size_t bytes = (query < 2 ? KEYS : t->bags) * t->dim * sizeof(float);
  sqlite3_reset(statement);
  sqlite3_bind_blob64(statement, 1, keys, KEYS * sizeof *keys, SQLITE_STATIC);
  if (query >= 2) {
    sqlite3_bind_blob64(statement, 2, t->offsets, t->bags * sizeof *t->offsets,
                        SQLITE_STATIC);
  }
  if (query == 3) {
    sqlite3_bind_blob64(statement, 3, t->weights, sizeof t->weights,
                        SQLITE_STATIC);
  }
  if (!sql_step(statement) ||
      (size_t)sqlite3_column_bytes(statement, 0) != bytes) {
    die("%s gave no vectors", queries[query].name);
  }
  if (checked && query == 2) {
    memcpy(t->pooled, sqlite3_column_blob(statement, 0), bytes);
    bagged_compare_sums(t, keys);
  }
}

typedef void bagged_call_of(struct bagged *, int, int);

/* Keys per second of this thread's processor time, which other programs running
** beside it do not affect. */
static double bagged_measure(struct bagged *t, bagged_call_of *call,
                             int which) {
  size_t done = 0;
  double start, time;
  for (int i = 0; i < 8; i++) {
    call(t, which, i == 0);
  }
  start = cpu_of_thread();
  do {
    for (int i = 0; i < 4; i++) {
      call(t, which, 0);
      done += KEYS;
    }
    time = cpu_of_thread() - start;
  } while (time < t->seconds);
  return (double)done / time;
}

static void bagged_work(void *arg) {
  struct bagged *t = arg;
  const char *name = path("%zu floats", t->dim);
  struct group *group = figure_group(t->figure, name, "keys/s", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < WORKS; i++) {
      int work = (i + round) % WORKS;
      group_add(group, works[work], round, bagged_measure(t, bagged_call, work),
                NULL);
    }
  }
  for (int i = 2; i < WORKS; i++) {
    group_ratio(group, works[i], "emb_get", AT_LEAST, 1 / 1.1);
  }
  group = figure_group(t->figure, path("%zu floats, gradients", t->dim),
                       "keys/s", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < STEPS; i++) {
      int step = (i + round) % STEPS;
      group_add(group, steps[step], round, bagged_measure(t, bagged_step, step),
                NULL);
    }
  }
  group_ratio(group, steps[1], steps[0], AT_LEAST, 0);
}

static void bagged_work_sql(void *arg) {
  struct bagged *t = arg;
  struct group *group = figure_group(
      t->figure, path("%zu floats, through SQL", t->dim), "keys/s", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < QUERIES; i++) {
      int query = (i + round) % QUERIES;
      group_add(group, queries[query].name, round,
                bagged_measure(t, bagged_query, query), NULL);
    }
  }
  for (int i = 2; i < QUERIES; i++) {
    group_ratio(group, queries[i].name, "emb_get", AT_LEAST, 1 / 1.1);
  }
}

static void bagged_load(struct bagged *t) {
  for (size_t from = 0; from < t->keys; from += BATCH) {
    int64_t keys[BATCH];
    size_t n = t->keys - from < BATCH ? t->keys - from : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i) + 1;
      vector_fill(t->rows + i * t->dim, t->dim, keys[i], 1);
    }
    bagged_check(t, emb_put(t->session, keys, n, t->rows, NULL));
  }
  /* Zero gradients, so that rows do not change. */
  memset(t->rows, 0, KEYS * t->dim * sizeof *t->rows);
}

static uint64_t bagged_memory(const struct bagged *t) {
  return t->keys * (t->dim * 8 + 64) + (UINT64_C(512) << 20);
}

static void bagged_open(struct bagged *t) {
  emb_err err;
  emb_config config = {.dim = (uint32_t)t->dim,
                       .flags = EMB_OPEN_TEMPORARY,
                       .optimizer = "sgd",
                       .memory_bytes = bagged_memory(t)};
  if (emb_open(t->options->data, &config, &t->store, &err) ||
      emb_session_open(t->store, &t->session, &err)) {
    die("emb: %s", err.text);
  }
}

static void bagged_close(struct bagged *t) {
  emb_err err;
  emb_session_close(t->session);
  if (emb_close(t->store, &err)) {
    die("emb: %s", err.text);
  }
}

/* Fills the SQL table with the same rows as the store's. */
static void bagged_open_sql(struct bagged *t) {
  sqlite3_stmt *put;
  t->db = sql_open(":memory:", t->options->extension);
  sql_run(t->db,
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d], memory=%lld)",
          (int)t->dim, (long long)bagged_memory(t));
  put = sql_prepare(t->db, "SELECT emb_put('items', ?, ?)");
  for (size_t from = 0; from < t->keys; from += BATCH) {
    int64_t keys[BATCH];
    size_t n = t->keys - from < BATCH ? t->keys - from : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i) + 1;
    }
    bagged_check(t, emb_get(t->session, keys, n, t->rows, NULL, NULL));
    sqlite3_bind_blob64(put, 1, keys, n * sizeof *keys, SQLITE_STATIC);
    sqlite3_bind_blob64(put, 2, t->rows, n * t->dim * sizeof *t->rows,
                        SQLITE_STATIC);
    sql_do(put);
  }
  sqlite3_finalize(put);
  for (int i = 0; i < QUERIES; i++) {
    t->statement[i] = sql_prepare(t->db, queries[i].sql);
  }
}

static void bagged_width(struct bagged *t, size_t dim, int with_sql) {
  t->dim = dim;
  t->at = 0;
  t->rows = need_huge(KEYS * dim * sizeof *t->rows);
  t->pooled = need_huge(KEYS * dim * sizeof *t->pooled);
  bagged_open(t);
  bagged_load(t);
  run_pinned(bagged_work, t);
  if (with_sql) {
    bagged_open_sql(t);
    run_pinned(bagged_work_sql, t);
    for (int i = 0; i < QUERIES; i++) {
      sqlite3_finalize(t->statement[i]);
    }
    sql_close(t->db);
  }
  bagged_close(t);
  drop_huge(t->rows, KEYS * dim * sizeof *t->rows);
  drop_huge(t->pooled, KEYS * dim * sizeof *t->pooled);
}

void bench_bag(const struct options *options) {
  struct bagged *t = need(1, sizeof *t);
  t->options = options;
  t->keys = options->keys ? options->keys : options->quick ? 200000 : 2000000;
  t->seconds = options->seconds > 0 ? options->seconds
               : options->quick     ? 0.1
                                    : 0.5;
  t->figure = figure_new(options, "bag", "Pooled lookups, in memory");
  figure_note(t->figure,
              "%zu keys; batches of %d in bags of 0 to %d, one thread", t->keys,
              KEYS, LONGEST);
  make_directory(options->data);
  bagged_offsets(t);
  trace_uniform(&t->trace, 1 << 20, t->keys);
  bagged_width(t, 16, 0);
  bagged_width(t, 64, 1);
  bagged_width(t, 256, 0);
  trace_free(&t->trace);
  figure_done(t->figure);
  free(t);
}
