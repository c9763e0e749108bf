/* SPDX-License-Identifier: MIT
**
** nearest_large.c -- a neighbour index of a table that is much larger than its
** memory; many queries in one call; and rows that drift away from the centres.
** LONG=4 makes the table 30 times its memory.
*/
#include "near_help.h"

#include <math.h>

enum { DIM = 250, LARGE = 30000, K = 10, ASKED = 300 };

static void large_vector(float *to, int64_t key) {
  float of[NEAR_DIM];
  near_vector(of, key, 1);
  for (int i = 0; i < DIM; i++)
    to[i] = of[i % NEAR_DIM] * (float)(1 + i / NEAR_DIM) / 4;
}

static double square(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < DIM; i++)
    sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sum;
}

/* How many of the table's rows are nearer than this. */
static unsigned nearer_than(const float *query, int64_t rows, double distance) {
  unsigned n = 0;
  for (int64_t key = 0; key < rows; key++) {
    float vector[DIM];
    large_vector(vector, key);
    n += sqrt(square(query, vector)) < distance - 1e-9;
  }
  return n;
}

TEST(larger_than_memory) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .memory_bytes = 1,
                       .index = "ivf()"};
  emb_store *store;
  emb_session *s;
  int64_t rows = SANITIZED ? LARGE / 5 : (int64_t)help_amount(LARGE);
  rows = rows > LARGE / 8 ? rows : LARGE / 8; /* with fewer there is no index */
  static float vectors[100 * DIM];
  int64_t keys[100];
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  for (int64_t at = 0; at < rows; at += 100) {
    for (int64_t i = 0; i < 100; i++) {
      keys[i] = at + i;
      large_vector(vectors + i * DIM, keys[i]);
    }
    OK(s, emb_put(s, keys, 100, vectors, NULL));
  }
  OK(s, emb_checkpoint(s));
  if (!near_settle(store))
    return;
  printf("%.1f times its memory\n",
         (double)(rows * DIM * 4) / (double)help_stat(store, "memory_bytes"));
  enum { QUERIES = 20 };
  int64_t reads = help_stat(store, "get_disk"), right = 0;
  for (int64_t i = 0; i < QUERIES; i++) {
    int64_t got[K];
    double distances[K];
    size_t count = 0;
    large_vector(vectors, 1000000 + i);
    OK(s, emb_nearest(s, vectors, 1, K, NULL,
                      &(emb_neighbours){got, distances, &count, NULL, NULL}));
    CHECK_EQ_INT(count, K);
    for (size_t j = 0; j < count; j++)
      right += nearer_than(vectors, rows, distances[j]) < K;
  }
  CHECK_EQ_INT(help_stat(store, "nearest_queries"), QUERIES);
  CHECK(right >= QUERIES * K * 95 / 100);
  CHECK(help_stat(store, "get_disk") - reads <= 60 * QUERIES);
  near_verifies(s, NULL);
  help_close(store, s);
}

/* ---- many ---------------------------------------------------------------- */

static struct near model;

/* One call with several threads gives the same as separate calls. */
static void same_in_one_call(emb_session *s, emb_nearest_how how) {
  static float queries[ASKED * NEAR_DIM];
  static int64_t keys[ASKED * K], one[K];
  static double distances[ASKED * K], of_one[K];
  static size_t counts[ASKED];
  size_t count;
  for (int64_t i = 0; i < ASKED; i++)
    near_vector(queries + i * NEAR_DIM, 700000 + i, 1);
  how.threads = 3;
  OK(s, emb_nearest(s, queries, ASKED, K, &how,
                    &(emb_neighbours){keys, distances, counts, NULL, NULL}));
  for (size_t i = 0; i < ASKED; i++) {
    OK(s, emb_nearest(s, queries + i * NEAR_DIM, 1, K, &how,
                      &(emb_neighbours){one, of_one, &count, NULL, NULL}));
    CHECK_EQ_INT(counts[i], count);
    CHECK(memcmp(keys + i * K, one, count * sizeof *one) == 0);
    CHECK(memcmp(distances + i * K, of_one, count * sizeof *of_one) == 0);
  }
}

static void many(const char *index) {
  emb_store *store;
  emb_session *s;
  memset(&model, 0, sizeof model);
  if (!near_open(help_path("s"), index, EMB_OPEN_STEP, &store, &s) ||
      !near_put(s, &model, 0, NEAR_KEYS, 1) || !near_settle(store))
    return;
  same_in_one_call(s, (emb_nearest_how){.probes = 10});
  same_in_one_call(s, (emb_nearest_how){.probes = 40});
  same_in_one_call(
      s, (emb_nearest_how){
             .flags = EMB_NEAREST_RANGE, .lo = 100, .hi = 2500, .probes = 10});
  CHECK(help_stat(store, "nearest_queries") >= 6 * ASKED);
  CHECK(near_recall(s, &model, 20) >= 0.95);
  help_close(store, s);
}

TEST(many_queries) { many("ivf()"); }
TEST(many_queries_without_codes) { many("ivf(code=none)"); }

/* ---- drift --------------------------------------------------------------- */

/* All rows move away from all centres, bit by bit: new centres are made. */
TEST(drifts) {
  emb_store *store;
  emb_session *s;
  static int64_t keys[NEAR_KEYS];
  static float steps[NEAR_KEYS * NEAR_DIM], old[NEAR_DIM], to[NEAR_DIM];
  memset(&model, 0, sizeof model);
  if (!near_open(help_path("s"), "ivf()", 0, &store, &s) ||
      !near_put(s, &model, 0, NEAR_KEYS, 1) || !near_settle(store))
    return;
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 1);
  for (int round = 0; round < 40 && help_stat(store, "nearest_made") < 2;
       round++) {
    for (int64_t key = 0; key < NEAR_KEYS; key++) {
      keys[key] = key;
      near_vector(old, key, 1);
      near_vector(to, key + 5000, 3); /* in separate clusters */
      for (int i = 0; i < NEAR_DIM; i++)
        steps[key * NEAR_DIM + i] = -(old[i] + 2 * to[i]) / 10;
    }
    OK(s, emb_apply_gradients(s, keys, NEAR_KEYS, steps, NULL, NULL));
    near_settle(store);
    for (int i = 0, more = 1; i < 1000 && more; i++)
      CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  }
  CHECK_EQ_INT(help_stat(store, "nearest_made"), 2);
  near_verifies(s, NULL);
  help_close(store, s);
}
