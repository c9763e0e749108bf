/* SPDX-License-Identifier: MIT
**
** nearest_columns.c -- searches with a condition on an auxiliary column,
** through SQL and by the index, against the same searches without one.
**
** CONDITIONS  A column of random numbers, of which one in two or one in a
**             hundred fits; and a column that admits a cluster: the hundredth
**             of all rows that is near one of the vectors, so that most queries
**             are far from it.
** RECALL      Against mode = 'exact' with the same condition.
** FIRST       The first search selects the rows that fit; later ones use the
**             set it cached.  A note gives the time of the first.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "nearest.h"
#include "sql.h"

enum { COLUMN_ROWS = 8192, COLUMN_CONDITIONS = 4, EXACT_ASKED = 128 };

static const struct {
  const char *name, *where;
} conditions[COLUMN_CONDITIONS] = {
    {"none", ""},
    {"one in 2", " AND half = 1"},
    {"one in 100", " AND hundredth = 7"},
    {"one in 100, together", " AND near = 1"},
};

struct by_column {
  sqlite3 *db;
  sqlite3_stmt *find[COLUMN_CONDITIONS], *exact[COLUMN_CONDITIONS];
  double recall[COLUMN_CONDITIONS];
};

/* Radius around a vector that contains a hundredth of the rows, from a
** sample. */
static double near_radius(const struct points *points) {
  enum { SAMPLE = 10000 };
  size_t n = points->n < SAMPLE ? points->n : SAMPLE;
  double least = 0;
  double *all = need(n, sizeof(*all));
  for (size_t i = 0; i < n; i++) {
    all[i] = points_distance(
        points->vectors, points->vectors + (points->n / n * i) * points->dim,
        points->dim);
  }
  for (size_t i = 0; i <= n / 100; i++) {
    size_t best = 0;
    for (size_t j = 1; j < n; j++) {
      best = all[j] < all[best] ? j : best;
    }
    least = all[best];
    all[best] = 1e300;
  }
  free(all);
  return least;
}

static void fill_columns(sqlite3 *db, const struct points *points) {
  sqlite3_stmt *insert =
      sql_prepare(db, "INSERT INTO items(key, vector, half, hundredth, near)"
                      " VALUES(?, ?, ?, ?, ?)");
  double radius = near_radius(points);
  uint64_t state = 1;
  sql_run(db, "BEGIN");
  for (size_t i = 0; i < points->n; i++) {
    const float *vector = points->vectors + i * points->dim;
    state = state * 6364136223846793005u + 1442695040888963407u;
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)i + 1);
    sqlite3_bind_blob(insert, 2, vector, (int)(points->dim * sizeof(float)),
                      SQLITE_STATIC);
    sqlite3_bind_int(insert, 3, (int)(state >> 40 & 1));
    sqlite3_bind_int(insert, 4, (int)((state >> 41) % 100));
    sqlite3_bind_int(insert, 5,
                     points_distance(points->vectors, vector, points->dim) <=
                         radius);
    sql_do(insert);
    if (i % COLUMN_ROWS == COLUMN_ROWS - 1) {
      sql_run(db, "COMMIT");
      sql_run(db, "BEGIN");
    }
  }
  sql_run(db, "COMMIT");
  sqlite3_finalize(insert);
}

static void await_index(sqlite3 *db) {
  for (int i = 0; i < 60000; i++) {
    if (sql_number(db, "SELECT sum(name = 'nearest_index' AND value = 'ready'"
                       " OR name IN ('nearest_recent', 'nearest_behind') AND"
                       " value = 0) = 3 FROM emb_stats('items')")) {
      return;
    }
    nap(0.01);
  }
  die("the index is not ready");
}

static void open_columns(struct hunt *hunt, struct by_column *by) {
  struct finder_options options = hunt_options(hunt, "columns");
  const struct points *points = &hunt->points;
  by->db = sql_open(path("%s/emb.db", options.directory), options.extension);
  sql_run(by->db,
          "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[%d], memory=%lld,"
          " index='ivf(lists=%d)', +half INTEGER INDEXED,"
          " +hundredth INTEGER INDEXED, +near INTEGER INDEXED)",
          (int)points->dim,
          (long long)(points->n * (points->dim * sizeof(float) + 64) +
                      ((uint64_t)256 << 20)),
          (int)hunt->lists);
  fill_columns(by->db, points);
  sql_run(by->db, "INSERT INTO items(items) VALUES('checkpoint')");
  await_index(by->db);
  for (int i = 0; i < COLUMN_CONDITIONS; i++) {
    by->find[i] = sql_prepare(
        by->db, path("SELECT key, distance FROM items WHERE vector MATCH ?"
                     " AND k = ?%s",
                     conditions[i].where));
    by->exact[i] = sql_prepare(
        by->db, path("SELECT key, distance FROM items WHERE vector MATCH ?"
                     " AND k = ?%s AND mode = 'exact'",
                     conditions[i].where));
  }
}

static void close_columns(struct by_column *by) {
  for (int i = 0; i < COLUMN_CONDITIONS; i++) {
    sqlite3_finalize(by->find[i]);
    sqlite3_finalize(by->exact[i]);
  }
  sql_close(by->db);
}

static void measure_recall(const struct hunt *hunt, struct by_column *by) {
  const struct points *points = &hunt->points;
  size_t n = points->asked < EXACT_ASKED ? points->asked : EXACT_ASKED;
  int64_t *truth = need(n * NEIGHBOURS, sizeof(*truth));
  int64_t *keys = need(n * NEIGHBOURS, sizeof(*keys));
  double *distances = need(n * NEIGHBOURS, sizeof(*distances));
  for (int i = 0; i < COLUMN_CONDITIONS; i++) {
    double start = now();
    sql_neighbours(by->find[i], points->dim, points->queries, 1, NEIGHBOURS,
                   keys, distances);
    double first = now() - start;
    sql_neighbours(by->exact[i], points->dim, points->queries, n, NEIGHBOURS,
                   truth, distances);
    sql_neighbours(by->find[i], points->dim, points->queries, n, NEIGHBOURS,
                   keys, distances);
    by->recall[i] =
        points_recall(points, points->queries, n, NEIGHBOURS, truth, keys);
    figure_note(hunt->figure,
                "%s, %s: recall %.3f; the first search took %.2f ms",
                hunt->what, conditions[i].name, by->recall[i], first * 1e3);
  }
  free(truth);
  free(keys);
  free(distances);
}

/* Measures processor time, with one query of each kind in turn, so that other
** load on the machine affects all alike. */
static void one_round(const struct hunt *hunt, struct by_column *by,
                      struct group *group, int round) {
  const struct points *points = &hunt->points;
  double took[COLUMN_CONDITIONS] = {0}, start = now();
  int64_t keys[NEIGHBOURS];
  double distances[NEIGHBOURS];
  size_t n = 0;
  do {
    for (int j = 0; j < COLUMN_CONDITIONS; j++) {
      int i = (j + (int)n) % COLUMN_CONDITIONS;
      double before = cpu_of_thread();
      sql_neighbours(by->find[i], points->dim,
                     points->queries + n % points->asked * points->dim, 1,
                     NEIGHBOURS, keys, distances);
      took[i] += cpu_of_thread() - before;
    }
    n++;
  } while (now() - start < hunt->seconds || n < points->asked);
  for (int i = 0; i < COLUMN_CONDITIONS; i++) {
    group_add(group, conditions[i].name, round, took[i] / (double)n * 1e6,
              NULL);
  }
}

void hunt_columns(struct hunt *hunt) {
  struct by_column by = {0};
  struct group *group = figure_group(
      hunt->figure, "indexed, a condition on a column, SQL, 1 thread",
      "us of processor time a query", NAN);
  open_columns(hunt, &by);
  measure_recall(hunt, &by);
  for (int round = 0; round < hunt->options->rounds; round++) {
    settle();
    one_round(hunt, &by, group, round);
  }
  for (int i = 1; i < COLUMN_CONDITIONS; i++) {
    group_ratio(group, conditions[i].name, "none", AT_MOST, 1.2);
  }
  close_columns(&by);
}
