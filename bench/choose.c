/* SPDX-License-Identifier: MIT
**
** choose.c -- coresets and drift through SQL, against the same algorithms in
** numpy with OpenBLAS on one thread (choose.py): k-center, CRAIG and facility
** location on normally distributed vectors, and the maximum mean discrepancy of
** 1,000 against 1,000 of them.
**
** The vectors are BLOBs in an ordinary table in memory, and reading them is
** part of the time; numpy has them as a matrix.  A note gives how many of the
** rows chosen by numpy in float32 were also chosen here.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/emb.h"
#include "../engine/data/emb_data.h"
#include "bench.h"
#include "sql.h"

enum { DIM = 64, DRIFT_ROWS = 2000, CHOSEN_MAX = 1000 };

static const struct choice {
  const char *name, *method; /* of choose.py, and of emb_coreset; NULL: mmd */
  int is_long;               /* one round only */
} choices[] = {{"mmd", NULL, 0},
               {"k-center", "k-center", 0},
               {"craig", "craig", 1},
               {"facility", "submodular(facility_location)", 1}};

struct choosing {
  const struct options *options;
  size_t rows, chosen;
  sqlite3 *db;
  char file[4096];
  struct figure *figure;
  double emb[CHOSEN_MAX], numpy[CHOSEN_MAX]; /* the results */
};

/* A standard normal value per element, by Box and Muller. */
static float choosing_element(uint64_t i) {
  double u = emb_random(emb_random_integer(1), emb_random_integer(0),
                        emb_random_integer((int64_t)i));
  double v = emb_random(emb_random_integer(2), emb_random_integer(0),
                        emb_random_integer((int64_t)i));
  return (float)(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
}

static void choosing_load(struct choosing *t) {
  sqlite3_stmt *put = sql_prepare(t->db, "INSERT INTO p VALUES (?, ?)");
  FILE *file = fopen(t->file, "w");
  for (size_t i = 0; i < t->rows; i++) {
    float vector[DIM];
    for (size_t k = 0; k < DIM; k++) {
      vector[k] = choosing_element(i * DIM + k);
    }
    sqlite3_bind_int64(put, 1, (sqlite3_int64)i);
    sqlite3_bind_blob(put, 2, vector, sizeof vector, SQLITE_STATIC);
    sql_do(put);
    if (!file || fwrite(vector, sizeof vector, 1, file) != 1) {
      die("cannot write %s", t->file);
    }
  }
  sqlite3_finalize(put);
  if (fclose(file)) {
    die("cannot write %s", t->file);
  }
}

/* Returns seconds; the answer is in t->emb. */
static double choosing_emb(struct choosing *t, const struct choice *choice) {
  sqlite3_stmt *ask = sql_prepare(
      t->db, choice->method
                 ? "SELECT key FROM emb_chosen((SELECT emb_coreset(key, "
                   "vector, ?1, ?2) FROM p)) ORDER BY rank"
                 : "SELECT emb_drift_mmd(vector, key < ?1 / 2) FROM p "
                   "WHERE key < ?1");
  size_t n = 0;
  double start = now();
  sqlite3_bind_int64(ask, 1,
                     choice->method ? (sqlite3_int64)t->chosen : DRIFT_ROWS);
  if (choice->method) {
    sqlite3_bind_text(ask, 2, choice->method, -1, SQLITE_STATIC);
  }
  while (n < CHOSEN_MAX && sql_step(ask)) {
    t->emb[n++] = sqlite3_column_double(ask, 0);
  }
  start = now() - start;
  sqlite3_finalize(ask);
  return start;
}

static double choosing_numpy(struct choosing *t, const struct choice *choice) {
  sqlite3_int64 first = sql_number(
      t->db, "SELECT key FROM p ORDER BY emb_random(0, key) LIMIT 1");
  const char *command =
      path("/usr/bin/python3 bench/choose.py %s %s %zu %d %zu %lld",
           choice->name, t->file, choice->method ? t->rows : DRIFT_ROWS, DIM,
           t->chosen, (long long)first);
  FILE *from = popen(command, "r");
  double seconds = 0;
  if (!from || fscanf(from, "%lf", &seconds) != 1) {
    die("no answer from: %s", command);
  }
  for (size_t i = 0; i < (choice->method ? t->chosen : 1); i++) {
    if (fscanf(from, "%lf", &t->numpy[i]) != 1) {
      die("no answer from: %s", command);
    }
  }
  if (pclose(from)) {
    die("failed: %s", command);
  }
  return seconds;
}

static void choosing_note(struct choosing *t, const struct choice *choice) {
  size_t same = 0;
  if (choice->method == NULL) {
    figure_note(t->figure, "mmd: %.9g, numpy %.9g in float32", t->emb[0],
                t->numpy[0]);
    return;
  }
  for (size_t i = 0; i < t->chosen; i++) {
    for (size_t k = 0; k < t->chosen; k++) {
      same += t->emb[i] == t->numpy[k];
    }
  }
  figure_note(t->figure, "%s: %zu of %zu rows are those of numpy", choice->name,
              same, t->chosen);
}

static void choosing_work(void *arg) {
  struct choosing *t = arg;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    const struct choice *choice = &choices[i];
    struct group *group = figure_group(t->figure, choice->name, "s", NAN);
    int rounds = choice->is_long ? 1 : t->options->rounds;
    for (int round = 0; round < rounds; round++) {
      group_add(group, "emb", round, choosing_emb(t, choice), NULL);
      group_add(group, "numpy", round, choosing_numpy(t, choice), NULL);
    }
    group_ratio(group, "emb", "numpy", AT_MOST, 1.5);
    choosing_note(t, choice);
  }
}

void bench_choose(const struct options *options) {
  struct choosing t = {.options = options,
                       .rows = options->keys    ? options->keys
                               : options->quick ? 5000
                                                : 50000,
                       .chosen = options->quick ? 100 : CHOSEN_MAX};
  t.rows = t.rows < DRIFT_ROWS ? DRIFT_ROWS : t.rows;
  t.figure = figure_new(options, "choose", "Coresets and drift, against numpy");
  figure_note(t.figure,
              "%zu vectors of %d floats, %zu chosen; mmd of 1,000 against "
              "1,000; one thread",
              t.rows, DIM, t.chosen);
  make_directory(options->data);
  if (snprintf(t.file, sizeof t.file, "%s/vectors.f32", options->data) >=
      (int)sizeof t.file) {
    die("too long: %s", options->data);
  }
  t.db = sql_open(":memory:", options->extension);
  sql_run(t.db, "CREATE TABLE p(key INTEGER PRIMARY KEY, vector BLOB)");
  choosing_load(&t);
  run_pinned(choosing_work, &t);
  sql_close(t.db);
  figure_done(t.figure);
}
