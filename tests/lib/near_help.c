/* SPDX-License-Identifier: MIT
**
** near_help.c -- see near_help.h.
*/
#include "near_help.h"

#include <math.h>
#include <unistd.h>

enum { CENTRES = 40 };

static uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9E3779B97F4A7C15) + b;
  x = (x ^ (x >> 31)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 29)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 32);
}

static float part_of(uint64_t a, uint64_t b) {
  return (float)(mixed(a, b) % 2001) / 1000 - 1;
}

void near_vector(float *to, int64_t key, unsigned version) {
  uint64_t centre = mixed((uint64_t)key, version) % CENTRES;
  for (uint64_t i = 0; i < NEAR_DIM; i++)
    to[i] = 4 * part_of(centre + 1000, i) +
            part_of((uint64_t)key * 64 + version, i + 100) / 2;
}

int near_row_is(const float *vector, int64_t key, unsigned version) {
  float want[NEAR_DIM];
  near_vector(want, key, version);
  return memcmp(vector, want, sizeof want) == 0;
}

int near_open(const char *dir, const char *index, uint32_t flags,
              emb_store **store, emb_session **s) {
  const emb_config config = {.dim = NEAR_DIM,
                             .flags = EMB_OPEN_CREATE | (EMB_OPEN_STEP ^ flags),
                             .memory_bytes = 1,
                             .optimizer = "sgd(lr=1)",
                             .index = index};
  return help_open(dir, &config, store, s);
}

int near_put(emb_session *s, struct near *model, int64_t from, int64_t end,
             unsigned version) {
  static float vectors[NEAR_KEYS * NEAR_DIM];
  static int64_t keys[NEAR_KEYS];
  for (int64_t key = from; key < end; key++) {
    keys[key - from] = key;
    near_vector(vectors + (key - from) * NEAR_DIM, key, version);
    model->version[key] = version;
  }
  size_t n = (size_t)(end - from);
  return OK(s, emb_in_transaction(s) ? emb_txn_put(s, keys, n, vectors)
                                     : emb_put(s, keys, n, vectors, NULL));
}

int near_delete(emb_session *s, struct near *model, int64_t from, int64_t end) {
  static int64_t keys[NEAR_KEYS];
  for (int64_t key = from; key < end; key++) {
    keys[key - from] = key;
    model->version[key] = 0;
  }
  size_t n = (size_t)(end - from);
  return OK(s, emb_in_transaction(s) ? emb_txn_delete(s, keys, n, NULL)
                                     : emb_delete(s, keys, n, NULL));
}

int near_settle(emb_store *store) {
  const char *state = "";
  for (unsigned i = 0; i < 60000; i++) {
    int more;
    state = help_stat_text(store, "nearest_index");
    if (strcmp(state, "ready") == 0 &&
        help_stat(store, "nearest_recent") == 0 &&
        help_stat(store, "nearest_behind") == 0)
      return 1;
    if (emb_step(store, &more) != EMB_OK)
      break;
    if (i > 20000)
      usleep(1000);
  }
  return test_check(0, __FILE__, __LINE__, "the index is %s", state);
}

/* ---- answers ------------------------------------------------------------- */

static double distance_of(const float *a, int64_t key, unsigned version) {
  float b[NEAR_DIM];
  double sum = 0;
  near_vector(b, key, version);
  for (int i = 0; i < NEAR_DIM; i++)
    sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sqrt(sum);
}

static int by_distance(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static size_t all_distances(const struct near *model, const float *query,
                            double *to) {
  size_t n = 0;
  for (int64_t key = 0; key < NEAR_KEYS; key++)
    if (model->version[key])
      to[n++] = distance_of(query, key, model->version[key]);
  qsort(to, n, sizeof *to, by_distance);
  return n;
}

static size_t check_one(emb_session *s, const struct near *model,
                        const float *query, size_t *wanted) {
  static double all[NEAR_KEYS];
  int64_t keys[NEAR_K];
  double distances[NEAR_K];
  size_t count = 0, came = 0, n = all_distances(model, query, all);
  n = n < NEAR_K ? n : NEAR_K;
  *wanted += n;
  if (!OK(s, emb_nearest(
                 s, query, 1, NEAR_K, &(emb_nearest_how){.probes = NEAR_LISTS},
                 &(emb_neighbours){keys, distances, &count, NULL, NULL})) ||
      !CHECK_EQ_INT(count, n))
    return 0;
  for (size_t i = 0; i < count; i++) {
    int there = keys[i] >= 0 && keys[i] < NEAR_KEYS && model->version[keys[i]];
    CHECK(there && fabs(distance_of(query, keys[i], model->version[keys[i]]) -
                        distances[i]) < 1e-9);
    CHECK(i == 0 || distances[i - 1] <= distances[i]);
    for (size_t j = 0; j < i; j++)
      CHECK(keys[i] != keys[j]);
    came += distances[i] <= all[n - 1] + 1e-9;
  }
  return came;
}

double near_recall(emb_session *s, const struct near *model, int n) {
  size_t came = 0, wanted = 0;
  for (int i = 0; i < n; i++) {
    float query[NEAR_DIM];
    near_vector(query, 1000000 + (int64_t)(test_random() % 100000), 1);
    came += check_one(s, model, query, &wanted);
  }
  return wanted ? (double)came / (double)wanted : 1;
}

void near_finds(emb_session *s, const struct near *model, int64_t from,
                int64_t end) {
  for (int64_t key = from; key < end; key++) {
    float query[NEAR_DIM];
    int64_t got = -1;
    double distance = -1;
    size_t count = 0;
    near_vector(query, key, model->version[key]);
    if (!OK(s, emb_nearest(
                   s, query, 1, 1, NULL,
                   &(emb_neighbours){&got, &distance, &count, NULL, NULL})))
      return;
    (void)test_check(count == 1 && got == key && distance == 0, __FILE__,
                     __LINE__, "the nearest to row %d is %d, at %g", (int)key,
                     (int)got, distance);
  }
}

static char reported[1000];

static void note_line(void *arg, const char *line) {
  (void)arg;
  (void)snprintf(reported, sizeof reported, "%s", line);
}

void near_verifies(emb_session *s, const char *text) {
  reported[0] = '\0';
  OK(s, emb_verify(s, note_line, NULL));
  (void)test_check(text ? strstr(reported, text) != NULL : !reported[0],
                   __FILE__, __LINE__, "verified: %s", reported);
}
