/* SPDX-License-Identifier: MIT
**
** robust.c -- how much averaging gradients helps if some of them are wrong.
**
**     robust EXTENSION [ROUNDS]
**
** in the current directory, with a database robust.db.  run.sh runs it; its
** output is in sql/manual/knowledge-bank.md.
**
** WRITERS writers learn the same rows.  In each round, all of them start from
** the same rows, draw their own examples for each row, and send the gradient of
** the squared error, in a random order.  One gradient in ten is a hundred times
** too large.  The output is the distance of the final rows from the true ones
** (mean square of an element), if the writers
**
**   last wins       put the row that they compute from the row they have read
**   sum             send gradients to a table that applies each
**   mean, ...       send gradients to a table that averages them, by each rule
**
** The connections take turns in one thread, and the random numbers come from
** a seed, so the output is the same each time.
*/
#include "../../lib/database.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 16, KEYS = 20, DIM = 8, METHODS = 7, RATES = 3 };

static const float rates[RATES] = {0.05f, 0.2f, 0.5f};

#define EXAMPLES 16 /* in a gradient */
#define WRONG 10    /* one in this many */
#define TIMES 100   /* too large by this factor */
#define NOISE 0.05  /* of the examples' values */

static const struct method {
  const char *name, *gradients; /* NULL: no averaging */
  int puts;
} methods[METHODS] = {{"last wins", NULL, 1},
                      {"sum", NULL, 0},
                      {"mean", "none", 0},
                      {"norm(2)", "norm(2)", 0},
                      {"mad(3.5)", "mad(3.5)", 0},
                      {"cosine(0.1)", "cosine(0.1)", 0},
                      {"trim(0.25)", "trim(0.25)", 0}};

static const char *extension;
static long rounds = 300;
static uint64_t random_state;
static float truth[KEYS][DIM];

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(void) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* An approximately normal random number. */
static double normal(void) {
  double sum = 0;
  for (int i = 0; i < 12; i++)
    sum += (double)(draw() >> 11) / 9007199254740992.0;
  return sum - 6;
}

/* The gradient of the squared error of some examples.  Each example is a
** direction and the value to predict along it. */
static void gradient_of(const float *row, const float *is, int is_wrong,
                        float *to) {
  double sum[DIM] = {0};
  for (int i = 0; i < EXAMPLES; i++) {
    double x[DIM], length = 0, error = NOISE * normal();
    for (int k = 0; k < DIM; k++) {
      x[k] = normal();
      length += x[k] * x[k];
    }
    length = sqrt(length);
    for (int k = 0; k < DIM; k++)
      error += x[k] / length * ((double)row[k] - (double)is[k]);
    for (int k = 0; k < DIM; k++)
      sum[k] += error * x[k] / length / EXAMPLES;
  }
  for (int k = 0; k < DIM; k++)
    to[k] = (float)((is_wrong ? TIMES : 1) * sum[k]);
}

static void read_rows(sqlite3_stmt *get, const int64_t *keys, float *rows) {
  sqlite3_bind_blob(get, 1, keys, KEYS * sizeof *keys, SQLITE_STATIC);
  if (!statement_step(get) ||
      sqlite3_column_bytes(get, 0) != (int)(KEYS * DIM * sizeof *rows))
    die("no vectors");
  memcpy(rows, sqlite3_column_blob(get, 0), KEYS * DIM * sizeof *rows);
  statement_end(get);
}

/* 0: a row is no longer finite. */
static int write_rows(sqlite3_stmt *write, const int64_t *keys,
                      const float *rows) {
  for (int i = 0; i < KEYS * DIM; i++)
    if (!isfinite(rows[i]))
      return 0;
  sqlite3_bind_blob(write, 1, keys, KEYS * sizeof *keys, SQLITE_STATIC);
  sqlite3_bind_blob(write, 2, rows, KEYS * DIM * sizeof *rows, SQLITE_STATIC);
  int rc = sqlite3_step(write);
  if (rc != SQLITE_ROW && rc != SQLITE_CONSTRAINT)
    die("%s", sqlite3_errmsg(sqlite3_db_handle(write)));
  sqlite3_reset(write);
  return rc == SQLITE_ROW;
}

static double distance(const float *rows) {
  double sum = 0;
  for (int i = 0; i < KEYS * DIM; i++) {
    double off = (double)rows[i] - (double)truth[i / DIM][i % DIM];
    sum += off * off;
  }
  return sum / (KEYS * DIM);
}

/* One round of all writers, in a random order; 0: it has diverged. */
static int train_round(const struct method *method, float rate,
                       sqlite3_stmt *get, sqlite3_stmt **writes,
                       const int64_t *keys, float *rows) {
  float sent[KEYS * DIM];
  int order[WRITERS];
  read_rows(get, keys, rows);
  for (int i = 0; i < WRITERS; i++) {
    int at = (int)(draw() % (unsigned)(i + 1));
    order[i] = order[at];
    order[at] = i;
  }
  for (int i = 0; i < WRITERS; i++) {
    for (int k = 0; k < KEYS; k++)
      gradient_of(rows + k * DIM, truth[k], draw() % WRONG == 0,
                  sent + k * DIM);
    for (int k = 0; method->puts && k < KEYS * DIM; k++)
      sent[k] = rows[k] - rate * sent[k];
    if (!write_rows(writes[order[i]], keys, sent))
      return 0;
  }
  return 1;
}

static double train(const struct method *method, float rate) {
  sqlite3 *dbs[WRITERS];
  sqlite3_stmt *writes[WRITERS];
  int64_t keys[KEYS];
  float rows[KEYS * DIM];
  int good = 1;
  random_state = 42;
  for (int i = 0; i < WRITERS; i++)
    dbs[i] = database_open("robust.db", extension);
  database_run(
      dbs[0],
      "CREATE VIRTUAL TABLE t USING emb(vector FLOAT[%d], "
      "optimizer='sgd(lr=%g)', gradients='%s%s%s')",
      DIM, (double)rate,
      method->gradients ? "average(max=16, expire=1h, outlier=" : "none",
      method->gradients ? method->gradients : "", method->gradients ? ")" : "");
  char *write = sqlite3_mprintf("SELECT emb_%s('t', ?, ?)",
                                method->puts ? "put" : "apply");
  for (int i = 0; i < WRITERS; i++)
    writes[i] = statement_new(dbs[i], write);
  sqlite3_stmt *get = statement_new(dbs[0], "SELECT emb_get('t', ?)");
  for (int k = 0; k < KEYS; k++) {
    keys[k] = k + 1;
    for (int d = 0; d < DIM; d++)
      truth[k][d] = (float)normal();
  }
  for (long round = 0; good && round < rounds; round++)
    good = train_round(method, rate, get, writes, keys, rows);
  if (good)
    read_rows(get, keys, rows);
  double off = good ? distance(rows) : INFINITY;
  sqlite3_finalize(get);
  for (int i = 0; i < WRITERS; i++) {
    sqlite3_finalize(writes[i]);
    if (i)
      database_close(dbs[i]);
  }
  database_run(dbs[0], "DROP TABLE t");
  database_close(dbs[0]);
  sqlite3_free(write);
  return off;
}

int main(int argc, char **argv) {
  extension = argc > 1 ? argv[1] : "build/emb";
  if (argc > 2)
    rounds = strtol(argv[2], NULL, 10);
  printf("%-12s", "lr");
  for (int r = 0; r < RATES; r++)
    printf(" %12g", (double)rates[r]);
  for (int i = 0; i < METHODS; i++) {
    printf("\n%-12s", methods[i].name);
    for (int r = 0; r < RATES; r++) {
      double off = train(&methods[i], rates[r]);
      if (off < 1e6)
        printf(" %12.6f", off);
      else
        printf(" %12s", "diverges");
    }
  }
  printf("\n");
  return 0;
}
