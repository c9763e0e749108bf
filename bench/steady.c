/* SPDX-License-Identifier: MIT
**
** steady.c -- a table in memory under a Get and a Put by turns, for two
** minutes: how much slower than the fastest is the slowest second?
**
** The table is a file, so that it takes checkpoints: by itself, and three on
** demand.  Between these, half as many rows as there are are written: after a
** checkpoint, rows that were written in place are written to the tail once.
** Batches of 1,024 keys, uniform, through SQL, one thread.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "keys.h"
#include "sql.h"

enum { DIM = 64, DEMANDS = 3 };

struct steady {
  const struct options *options;
  size_t keys;
  int seconds;
  sqlite3 *db;
  struct trace trace;
  int demands;  /* checkpoints on demand so far */
  size_t turns; /* since the last of them */
  struct group *group;
  const char *name; /* of this part */
  double memory;    /* of the vectors' bytes */
};

/* Gets a batch and puts it back. */
static void steady_turn(sqlite3_stmt *get, sqlite3_stmt *put,
                        const int64_t *keys) {
  sqlite3_bind_blob64(get, 1, keys, BATCH * sizeof *keys, SQLITE_STATIC);
  if (!sql_step(get) ||
      sqlite3_column_bytes(get, 0) != BATCH * DIM * (int)sizeof(float)) {
    die("emb_get gave no vectors");
  }
  sqlite3_bind_blob64(put, 1, keys, BATCH * sizeof *keys, SQLITE_STATIC);
  sqlite3_bind_value(put, 2, sqlite3_column_value(get, 0));
  sql_do(put);
  sqlite3_reset(get);
}

/* A checkpoint on demand, if it is time for one: the first after a tenth of the
** seconds, the others after as many turns as write half of the rows. */
static void steady_demand(struct steady *t, double passed) {
  if (t->demands == 0
          ? passed < t->seconds * 0.1
          : t->demands == DEMANDS || t->turns < t->keys / BATCH / 2) {
    return;
  }
  sql_run(t->db, "INSERT INTO items(items) VALUES ('checkpoint')");
  t->demands++;
  t->turns = 0;
}

/* The slowest second against the fastest, not the median: a table that gets
** slow for good must show. */
static void steady_part(void *arg) {
  struct steady *t = arg;
  sqlite3_stmt *get = sql_prepare(t->db, "SELECT emb_get('items', ?1)");
  sqlite3_stmt *put = sql_prepare(t->db, "SELECT emb_put('items', ?1, ?2)");
  double slowest = HUGE_VAL, fastest = 0, start = now();
  size_t at = 0;
  for (int i = 0; i < t->seconds; i++) {
    size_t turns = 0;
    double from = now(), time = from;
    for (; time < from + 1; time = now(), turns++, t->turns++) {
      steady_demand(t, time - start);
      steady_turn(get, put, t->trace.keys + at);
      at = (at + BATCH) % t->trace.count;
    }
    double rows = (double)turns * BATCH / (time - from);
    group_add(t->group, t->name, i, rows, NULL);
    slowest = fmin(slowest, rows);
    fastest = fmax(fastest, rows);
  }
  sqlite3_finalize(get);
  sqlite3_finalize(put);
  char below[64], above[64];
  (void)snprintf(above, sizeof above, "%s, slowest second", t->name);
  (void)snprintf(below, sizeof below, "%s, fastest second", t->name);
  group_add(t->group, above, 0, slowest, NULL);
  group_add(t->group, below, 0, fastest, NULL);
  group_ratio(t->group, above, below, AT_LEAST, 0.5);
}

static void steady_with(struct steady *t) {
  t->demands = 0;
  make_directory(t->options->data);
  t->db = sql_open(path("%s/emb.db", t->options->data), t->options->extension);
  sql_run(t->db,
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d],"
          " memory=%lld)",
          DIM,
          (long long)((double)(t->keys * DIM * sizeof(float)) * t->memory));
  sql_fill(t->db, DIM, 1, t->keys);
  run_pinned(steady_part, t);
  sql_close(t->db);
  remove_tree(t->options->data);
}

void bench_steady(const struct options *options) {
  struct steady t = {.options = options,
                     .keys = options->keys    ? options->keys
                             : options->quick ? 100000
                                              : 1000000,
                     .seconds = options->seconds > 0 ? (int)options->seconds
                                : options->quick     ? 5
                                                     : 120};
  t.seconds = t.seconds < 1 ? 1 : t.seconds;
  if (t.seconds > FIGURE_ROUNDS) {
    die("--seconds: at most %d", FIGURE_ROUNDS);
  }
  struct figure *figure =
      figure_new(options, "steady", "Get and Put by turns, second by second");
  figure_note(figure,
              "%zu keys, 64 floats, batches of 1,024, %d seconds, one thread",
              t.keys, t.seconds);
  trace_uniform(&t.trace, 1 << 22, t.keys);
  t.group = figure_group(figure, "a table in memory", "rows/s", NAN);
  t.name = "memory for four times the rows";
  t.memory = 4;
  steady_with(&t);
  t.name = "memory for twice the rows";
  t.memory = 2;
  steady_with(&t);
  trace_free(&t.trace);
  figure_done(figure);
}
