/* SPDX-License-Identifier: MIT
**
** sample_threads.c -- emb_sample alongside writers: keys that come and go, so
** that partitions of the index grow and entries are moved, vectors that
** change, and transactions that are rolled back.
**
** Keys that stay must all be equally likely, each row drawn must be whole,
** and no row that was never committed may be drawn.
*/
#include "chance_help.h"
#include "store_help.h"

#include <pthread.h>

enum {
  DIM = 16,
  STAY = 4000,     /* keys 0 .. */
  COMING = 30000,  /* keys from 1,000,000 on, that come and go */
  NEVER = 2000000, /* keys from here on are rolled back */
  ROWS = 300,
  SAMPLERS = 3,
};

static emb_store *store;
static _Atomic int stop;
static uint64_t counts[SAMPLERS][STAY];

static emb_session *open_session(void) {
  emb_session *s = NULL;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  return s;
}

static void *write_some(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_session *s = open_session();
  int64_t at = 0;
  for (int32_t i = 0; !atomic_load(&stop); i++) {
    help_put_rows(s, (int64_t)(test_random_from(&random) % (STAY / 100)) * 100,
                  1, 100, i);
    /* The keys come one after another, and go when all are there. */
    help_put_rows(s, 1000000 + at, 1, 100, i);
    at += 100;
    if (at == COMING) {
      for (; at; at--) {
        int64_t key = 1000000 + at - 1;
        OK(s, emb_delete(s, &key, 1, NULL));
      }
    }
  }
  emb_session_close(s);
  return NULL;
}

static void *roll_back(void *arg) {
  emb_session *s = open_session();
  float vectors[50 * DIM];
  int64_t keys[50];
  (void)arg;
  for (int i = 0; i < 50; i++) {
    keys[i] = NEVER + i * 31;
    help_vector(vectors + i * DIM, DIM, keys[i], 1);
  }
  while (!atomic_load(&stop)) {
    OK(s, emb_begin(s));
    OK(s, emb_txn_put(s, keys, 50, vectors));
    emb_rollback(s);
  }
  emb_session_close(s);
  return NULL;
}

static void check_rows(int64_t *keys, const float *vectors, size_t n,
                       int repeats) {
  for (size_t i = 0; i < n; i++) {
    CHECK((keys[i] >= 0 && keys[i] < STAY) ||
          (keys[i] >= 1000000 && keys[i] < 1000000 + COMING));
    CHECK(help_value(vectors + i * DIM, DIM, keys[i]) != INT32_MIN);
  }
  qsort(keys, n, sizeof *keys, help_compare_keys);
  for (size_t i = 1; i < n && !repeats; i++)
    CHECK(keys[i - 1] < keys[i]);
}

/* Some draws are by frequency; all sessions share its counts and rebuild
** them. */
static void *draw_some(void *arg) {
  static const uint32_t calls = SANITIZED ? 300 : 3000;
  int number = (int)(uintptr_t)arg;
  emb_session *s = open_session();
  float *vectors = malloc(ROWS * DIM * sizeof *vectors);
  double p[ROWS], mean[ROWS];
  int64_t keys[ROWS];
  for (uint32_t i = 0; i < calls; i++) {
    size_t n = 0;
    int often = i % 50 == 0;
    emb_sample_how how = {.distribution = often ? EMB_FREQUENCY : EMB_UNIFORM,
                          .flags = EMB_SAMPLE_SEEDED |
                                   (i % 2 ? EMB_SAMPLE_REPLACE : 0),
                          .seed = i * SAMPLERS + (uint32_t)number,
                          .power = 0.75};
    OK(s,
       emb_sample(s, ROWS, &how, &(emb_samples){keys, vectors, p, mean}, &n));
    CHECK_EQ_INT(n, ROWS);
    check_rows(keys, vectors, n, i % 2);
    for (size_t j = 0; j < n && !often; j++)
      counts[number][keys[j] % STAY] += keys[j] < STAY;
    CHECK(p[0] > 0 && p[0] <= 1 && mean[0] > 0);
  }
  free(vectors);
  emb_session_close(s);
  return NULL;
}

TEST(samples_beside_writers) {
  static double expected[STAY];
  static uint64_t all[STAY];
  uint64_t sum = 0;
  pthread_t samplers[SAMPLERS], writer, other;
  emb_session *s;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE,
                       .track = EMB_TRACK_WALL,
                       .timeout_ms = 60000};
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  for (int i = 0; i < STAY; i += 100)
    help_put_rows(s, i, 1, 100, 0);
  pthread_create(&writer, NULL, write_some, (void *)(uintptr_t)7);
  pthread_create(&other, NULL, roll_back, NULL);
  for (int i = 0; i < SAMPLERS; i++)
    pthread_create(&samplers[i], NULL, draw_some, (void *)(uintptr_t)i);
  for (int i = 0; i < SAMPLERS; i++)
    pthread_join(samplers[i], NULL);
  atomic_store(&stop, 1);
  pthread_join(writer, NULL);
  pthread_join(other, NULL);
  for (int i = 0; i < STAY; i++) {
    for (int j = 0; j < SAMPLERS; j++)
      all[i] += counts[j][i];
    sum += all[i];
  }
  for (int i = 0; i < STAY; i++)
    expected[i] = (double)sum / STAY;
  CHECK(sum > 10000);
  CHECK(chance_ratio(all, expected, STAY) < 1);
  test_count("samples", (SANITIZED ? 300 : 3000) * SAMPLERS);
  help_close(store, s);
}
