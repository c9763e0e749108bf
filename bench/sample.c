/* SPDX-License-Identifier: MIT
**
** sample.c -- random negatives: samples of 1,024 rows with their vectors,
** against a Get of as many keys drawn by the caller, through SQL and with
** everything in memory; then the same after nine of ten rows were deleted.
**
** The keys of the Gets come from a list of existing rows made beforehand.  The
** ratio is therefore the cost of drawing in the table against free drawing.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "keys.h"
#include "sql.h"

enum { DIM = 64, KEPT = 10, WORKS = 7 };

static const struct work {
  const char *name, *sql;
} works[WORKS] = {
    {"emb_get", "SELECT emb_get('items', ?1)"},
    {"sample", "SELECT vectors, keys FROM emb_sample_batch('items', 1024)"},
    {"sample, replacing", "SELECT vectors, keys FROM emb_sample_batch('items', "
                          "1024, 'uniform', 'unique=no')"},
    {"sample_keys, emb_get",
     "SELECT emb_get('items', emb_sample_keys('items', 1024))"},
    {"sample, counts too",
     "SELECT vectors, keys, expected_counts FROM emb_sample_batch('items', "
     "1024)"},
    {"log-uniform", "SELECT vectors, keys FROM emb_sample_batch('items', 1024, "
                    "'log-uniform', 'range=%zu')"},
    {"frequency(0.75)", "SELECT vectors, keys FROM emb_sample_batch('items', "
                        "1024, 'frequency(0.75)')"},
};

struct sampled {
  const struct options *options;
  size_t keys;
  double seconds;
  sqlite3 *db;
  sqlite3_stmt *statement[WORKS];
  struct trace trace;
  size_t at; /* of the trace */
  struct figure *figure;
};

/* The keys of the Gets: multiples of `step`, from 0. */
static void sampled_trace(struct sampled *t, size_t step) {
  trace_free(&t->trace);
  trace_uniform(&t->trace, 1 << 20, t->keys / step);
  for (size_t i = 0; i < t->trace.count; i++) {
    t->trace.keys[i] = (t->trace.keys[i] - 1) * (int64_t)step;
  }
}

/* Does one batch; occasionally checks some of its vectors. */
static void sampled_call(struct sampled *t, int work, size_t call) {
  sqlite3_stmt *statement = t->statement[work];
  const int64_t *keys = t->trace.keys + t->at;
  sqlite3_reset(statement);
  if (work == 0) {
    sqlite3_bind_blob64(statement, 1, keys, BATCH * sizeof *keys,
                        SQLITE_STATIC);
    t->at = (t->at + BATCH) % t->trace.count;
  }
  if (!sql_step(statement) ||
      sqlite3_column_bytes(statement, 0) != BATCH * DIM * (int)sizeof(float)) {
    die("%s gave no vectors", works[work].name);
  }
  if (call % 8 == 0 && (work == 0 || sqlite3_column_count(statement) > 1)) {
    const float *vectors = sqlite3_column_blob(statement, 0);
    keys = work ? sqlite3_column_blob(statement, 1) : keys;
    for (size_t i = 0; i < BATCH; i += BATCH / 16) {
      vector_check(vectors + i * DIM, DIM, keys[i], works[work].name);
    }
  }
}

/* Rows per second. */
static double sampled_measure(struct sampled *t, int work) {
  size_t done = 0;
  double start, end, time;
  for (size_t i = 0; i < 64; i++) {
    sampled_call(t, work, i);
  }
  start = now();
  end = start + t->seconds;
  do {
    for (size_t i = 0; i < 16; i++) {
      sampled_call(t, work, i);
      done += BATCH;
    }
    time = now();
  } while (time < end);
  return (double)done / (time - start);
}

static void sampled_compare(struct sampled *t, const char *name, int works_of) {
  struct group *group = figure_group(t->figure, name, "rows/s", NAN);
  for (int round = 0; round < t->options->rounds; round++) {
    for (int i = 0; i < works_of; i++) {
      int work = (i + round) % works_of;
      group_add(group, works[work].name, round, sampled_measure(t, work), NULL);
    }
  }
  group_ratio(group, "sample", "emb_get", AT_LEAST, 0.8);
  group_ratio(group, "sample, replacing", "emb_get", AT_LEAST, 0.8);
  for (int i = 3; i < works_of; i++) {
    group_ratio(group, works[i].name, "emb_get", AT_LEAST, 0);
  }
}

static void sampled_work(void *arg) {
  struct sampled *t = arg;
  sampled_trace(t, 1);
  sampled_compare(t, "all rows", WORKS);
  sql_run(t->db, "DELETE FROM items WHERE key %% %d != 0", KEPT);
  settle();
  sampled_trace(t, KEPT);
  /* Nine of ten ranks are no longer keys, which is a different case. */
  sampled_compare(t, "nine of ten rows deleted", 5);
}

void bench_sample(const struct options *options) {
  struct sampled t = {.options = options,
                      .keys = options->keys    ? options->keys
                              : options->quick ? 200000
                                               : 2000000,
                      .seconds = options->seconds > 0 ? options->seconds
                                 : options->quick     ? 0.1
                                                      : 1};
  t.figure = figure_new(options, "sample", "Negatives at random, in memory");
  figure_note(t.figure, "%zu keys, 64 floats, batches of 1,024, one thread",
              t.keys);
  make_directory(options->data);
  t.db = sql_open(path("%s/emb.db", options->data), options->extension);
  sql_run(t.db,
          "PRAGMA journal_mode = WAL;"
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d], track=wall,"
          " memory=%lld)",
          DIM, (long long)(t.keys * 320 + (UINT64_C(512) << 20)));
  sql_fill(t.db, DIM, 0, t.keys);
  for (int i = 0; i < WORKS; i++) {
    char sql[256];
    (void)snprintf(sql, sizeof sql, works[i].sql, t.keys);
    t.statement[i] = sql_prepare(t.db, sql);
  }
  run_pinned(sampled_work, &t);
  for (int i = 0; i < WORKS; i++) {
    sqlite3_finalize(t.statement[i]);
  }
  trace_free(&t.trace);
  sql_close(t.db);
  figure_done(t.figure);
}
