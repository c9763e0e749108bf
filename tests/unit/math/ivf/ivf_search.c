/* SPDX-License-Identifier: MIT
**
** ivf_search.c -- tests of engine/math/ivf: which of the nearest a search
** finds, for each metric and code, compared with all distances; and the memory
** of an index.
*/
#include "chance_help.h"
#include "test.h"

#include "engine/emb.h"
#include "engine/math/ivf/ivf.h"

#include <math.h>

enum { K = 10 };

struct data {
  uint32_t dim, n, metric, shells;
  float *rows;
};

/* Rows around this many centres, which are farther apart than the rows of one
** cluster. */
static void clustered(struct data *data, uint32_t clusters) {
  uint32_t dim = data->dim;
  float *centres = calloc((size_t)clusters * dim, sizeof *centres);
  data->rows = calloc((size_t)data->n * dim, sizeof *data->rows);
  for (size_t i = 0; i < (size_t)clusters * dim; i++) {
    centres[i] = chance_normal();
  }
  for (size_t i = 0; i < data->n; i++) {
    size_t c = test_random() % clusters;
    for (size_t d = 0; d < dim; d++) {
      data->rows[i * dim + d] = centres[c * dim + d] + 0.4f * chance_normal();
    }
  }
  free(centres);
}

static void build(struct ivf *ivf, const struct data *data, uint32_t bits,
                  uint32_t lists) {
  struct ivf_training t;
  struct ivf_writer w;
  const struct ivf_shape shape = {data->dim, bits,         data->metric,
                                  lists,     data->shells, data->n};
  size_t bytes = (size_t)data->n * data->dim * sizeof(float);
  float *rows = malloc(bytes), *sample = malloc(bytes);
  memcpy(rows, data->rows, bytes);
  CHECK(ivf_init(ivf, &env_posix, &shape));
  for (size_t i = 0; i < data->n; i++) {
    CHECK(ivf_prepare(ivf, rows + i * data->dim));
  }
  memcpy(sample, rows, bytes);
  CHECK(ivf_train(&t, ivf, sample, data->n < 20000 ? data->n : 20000));
  while (!ivf_train_step(&t)) {
  }
  CHECK_EQ_INT(ivf_train_end(&t, ivf), 0);
  CHECK(ivf_writer_init(&w, ivf));
  for (size_t at = 0; at < data->n; at += IVF_ROWS) {
    int64_t keys[IVF_ROWS];
    size_t n = data->n - at < IVF_ROWS ? data->n - at : IVF_ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(at + i);
    }
    CHECK_EQ_INT(ivf_set(&w, keys, rows + at * data->dim, n), 0);
  }
  ivf_writer_free(&w);
  free(rows);
  free(sample);
}

/* The k nearest of these keys, or of all rows. */
static size_t nearest_of(const struct data *data, const float *query,
                         const struct ivf_candidate *among, size_t n,
                         int64_t *to) {
  double best[K];
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t key = among ? among[i].key : (int64_t)i;
    double d;
    CHECK(emb_distance((int)data->metric, query,
                       data->rows + (size_t)key * data->dim, data->dim, &d));
    size_t at = found < K ? found++ : K;
    for (; at > 0 && best[at - 1] > d; at--) {
      if (at < K) {
        best[at] = best[at - 1];
        to[at] = to[at - 1];
      }
    }
    if (at < K) {
      best[at] = d;
      to[at] = key;
    }
  }
  return found;
}

static double recall(struct ivf *ivf, const struct data *data, uint32_t probes,
                     uint32_t most) {
  struct ivf_search search;
  uint32_t hits = 0, queries = 50;
  CHECK(ivf_search_init(&search, ivf));
  for (uint32_t q = 0; q < queries; q++) {
    float query[1024];
    int64_t want[K], got[K];
    size_t row = test_random() % data->n;
    for (uint32_t d = 0; d < data->dim; d++) {
      query[d] = data->rows[row * data->dim + d] + 0.2f * chance_normal();
    }
    struct ivf_asked asked = {.query = query, .probes = probes, .most = most};
    CHECK_EQ_INT(ivf_search(&search, &asked), 0);
    nearest_of(data, query, NULL, data->n, want);
    size_t n = nearest_of(data, query, search.found, search.n, got);
    for (size_t i = 0; i < K; i++) {
      for (size_t j = 0; j < n; j++) {
        hits += want[i] == got[j];
      }
    }
  }
  ivf_search_free(&search);
  return (double)hits / (queries * K);
}

/* With all lists, only the codes choose. */
TEST(codes_find_the_nearest) {
  static const struct {
    uint32_t bits, most;
    double least;
  } of[] = {{0, 1, 0.9999},
            {8, 20, 0.99},
            {4, 30, 0.97},
            {2, 60, 0.95},
            {1, 150, 0.9}};
  for (uint32_t metric = EMB_L2; metric <= EMB_DOT; metric++) {
    struct data data = {.dim = 60, .n = 6000, .metric = metric};
    clustered(&data, 40);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
      struct ivf ivf;
      build(&ivf, &data, of[i].bits, 40);
      double got = recall(&ivf, &data, 40, of[i].most);
      if (!CHECK(got >= of[i].least)) {
        printf("metric %u, %u bits: recall %.4f\n", metric, of[i].bits, got);
      }
      ivf_free(&ivf);
    }
    free(data.rows);
  }
}

/* With some lists, the centres choose. */
TEST(lists_find_the_nearest) {
  for (uint32_t metric = EMB_L2; metric <= EMB_DOT; metric++) {
    struct data data = {.dim = 64, .n = 20000, .metric = metric};
    struct ivf ivf;
    clustered(&data, 100);
    build(&ivf, &data, 8, 140);
    double few = recall(&ivf, &data, 1, 30), some = recall(&ivf, &data, 16, 30);
    if (!CHECK(some >= (metric == EMB_DOT ? 0.9 : 0.97)) || !CHECK(few > 0.2)) {
      printf("metric %u: recall %.4f, of one list %.4f\n", metric, some, few);
    }
    ivf_free(&ivf);
    free(data.rows);
  }
}

/* Keys that are filtered out leave their places to others. */
static int is_odd(void *arg, int64_t key) {
  (*(int *)arg)++;
  return key & 1;
}

TEST(conditions_come_first) {
  struct data data = {.dim = 16, .n = 3000, .metric = EMB_L2};
  struct ivf ivf;
  struct ivf_search search;
  int asked_for = 0;
  clustered(&data, 10);
  build(&ivf, &data, 8, 10);
  CHECK(ivf_search_init(&search, &ivf));
  struct ivf_asked asked = {.query = data.rows,
                            .probes = 10,
                            .most = 50,
                            .admits = is_odd,
                            .arg = &asked_for};
  CHECK_EQ_INT(ivf_search(&search, &asked), 0);
  CHECK_EQ_INT(search.n, 50);
  for (size_t i = 0; i < search.n; i++) {
    CHECK(search.found[i].key & 1);
  }
  CHECK(asked_for > 0);
  ivf_search_free(&search);
  ivf_free(&ivf);
  free(data.rows);
}

TEST(bytes_of_a_key) {
  static const uint32_t bits[] = {0, 8, 4, 2, 1};
  struct data data = {.dim = 64, .n = 300000, .metric = EMB_L2};
  if (SANITIZED)
    SKIP("a sanitizer finds nothing in sizes");
  clustered(&data, 300);
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    struct ivf ivf;
    build(&ivf, &data, bits[i], 250);
    double beside =
        (double)ivf_bytes(&ivf) / data.n - (double)bits[i] * data.dim / 8;
    if (!CHECK(beside <= 16)) {
      printf("%u bits: %.2f bytes beside the code\n", bits[i], beside);
    }
    CHECK(ivf_bytes(&ivf) <=
          ivf_bytes_of(&(struct ivf_shape){64, bits[i], EMB_L2, 250, 1, data.n},
                       data.n));
    ivf_free(&ivf);
  }
  free(data.rows);
}
