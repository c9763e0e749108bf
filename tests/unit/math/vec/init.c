/* SPDX-License-Identifier: MIT
**
** init.c -- tests of engine/math/vec/init.c: golden values, distributions, and
** that a value depends only on seed, key and index.
**
** The statistical tests have limits that a correct generator exceeds once in
** about 10^6 runs: SEED repeats a run.
*/
#include "test.h"

#include "engine/math/vec/init.h"

#include <math.h>

static struct init parsed(const char *text) {
  struct init init;
  emb_err err = {0};
  if (init_parse(&init, text, &err))
    test_check(0, __FILE__, __LINE__, "%s: %s", text, err.text);
  return init;
}

/* Computed from the definition outside this program, the quantile by Python's
** statistics.NormalDist. */
TEST(golden_values) {
  static const struct {
    const char *text;
    uint64_t seed;
    int64_t key;
    double x[5];
  } golden[] = {
      {"zeros", 1, 1, {0, 0, 0, 0, 0}},
      {"constant(value=-1.5)", 1, 1, {-1.5, -1.5, -1.5, -1.5, -1.5}},
      {"uniform",
       0,
       0,
       {0.0356491246, -0.0348907433, 0.0288064641, 0.0164246567, 0.0388243618}},
      {"normal",
       0,
       0,
       {0.0532343596, -0.0515879389, 0.0399862005, 0.0212040414, 0.0608620199}},
      {"truncated_normal",
       0,
       0,
       {0.0497785738, -0.0483108213, 0.0377636869, 0.0201836368, 0.0564564833}},
      {"uniform",
       42,
       -7,
       {0.0452106909, 0.0196082959, 0.0365831759, -0.0353366929,
        -0.00508352489}},
      {"normal",
       42,
       -7,
       {0.0832817382, 0.0256583804, 0.0553450791, -0.0525491779,
        -0.00638859412}},
      {"truncated_normal",
       42,
       -7,
       {0.07436641, 0.0243909723, 0.0516474929, -0.0491687694,
        -0.00609643179}}};
  for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
    struct init init = parsed(golden[k].text);
    for (uint32_t dim = 1; dim <= 5; dim++) {
      float x[6] = {9, 9, 9, 9, 9, 9};
      init_fill(&init, golden[k].seed, golden[k].key, dim, x);
      for (uint32_t i = 0; i < dim; i++)
        test_check(fabs((double)x[i] - golden[k].x[i]) < 1e-8, __FILE__,
                   __LINE__, "%s: %u of %u: %.9g", golden[k].text, i, dim,
                   (double)x[i]);
      CHECK(x[dim] == 9);
    }
  }
}

/* ---- distributions ------------------------------------------------------- */

enum { KEYS = 4000, DIM = 33, COUNT = KEYS * DIM };
static float sample[COUNT];

static void fill_sample(const struct init *init) {
  int64_t first = (int64_t)test_random();
  uint64_t seed = test_random();
  for (int i = 0; i < KEYS; i++)
    init_fill(init, seed, (int64_t)((uint64_t)first + (uint64_t)i), DIM,
              sample + i * DIM);
}

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

static double phi(double x) { return erfc(-x / sqrt(2)) / 2; }

static double distribution(const struct init *init, double x) {
  double z = (x - init->mean) / init->std;
  if (init->kind == INIT_UNIFORM)
    return (x - init->low) / (init->high - init->low);
  return init->kind == INIT_NORMAL ? phi(z)
                                   : (phi(z) - phi(-2)) / (phi(2) - phi(-2));
}

static void check_moments(const char *text, double mean, double variance,
                          double fourth) {
  double sum = 0, squares = 0;
  for (int i = 0; i < COUNT; i++)
    sum += (double)sample[i];
  for (int i = 0; i < COUNT; i++)
    squares += ((double)sample[i] - mean) * ((double)sample[i] - mean);
  double off = (sum / COUNT - mean) / sqrt(variance / COUNT);
  double wide = (squares / COUNT - variance) /
                sqrt((fourth - variance * variance) / COUNT);
  test_check(fabs(off) < 5 && fabs(wide) < 5, __FILE__, __LINE__,
             "%s: mean off by %.1f sigma, variance by %.1f", text, off, wide);
}

/* Kolmogorov and Smirnov: 2.7 / sqrt(n) has a chance of 10^-6. */
static void check_distribution(const char *text, const struct init *init) {
  double worst = 0;
  qsort(sample, COUNT, sizeof *sample, compare);
  for (int i = 0; i < COUNT; i++) {
    double p = distribution(init, (double)sample[i]);
    worst = fmax(worst, fmax(fabs(p - (double)i / COUNT),
                             fabs(p - (double)(i + 1) / COUNT)));
  }
  test_check(worst < 2.7 / sqrt(COUNT), __FILE__, __LINE__, "%s: D = %g", text,
             worst);
}

/* Correlation of each element with the one at this distance in the sample:
** the next element, or the same element of a key nearby. */
static void check_correlation(const char *text, double mean, double variance) {
  static const int distances[] = {1, 2, 3, DIM, 2 * DIM, 256 * DIM};
  for (int k = 0; k < 6; k++) {
    double sum = 0;
    int n = COUNT - distances[k];
    for (int i = 0; i < n; i++)
      sum += ((double)sample[i] - mean) *
             ((double)sample[i + distances[k]] - mean);
    double sigmas = sum / variance / sqrt(n);
    test_check(fabs(sigmas) < 5, __FILE__, __LINE__,
               "%s: at distance %d: %.1f sigma", text, distances[k], sigmas);
  }
}

static void check_statistics(const char *text, double mean, double variance,
                             double fourth) {
  struct init init = parsed(text);
  fill_sample(&init);
  check_moments(text, mean, variance, fourth);
  check_correlation(text, mean, variance);
  check_distribution(text, &init);
}

TEST(uniform_is_uniform) {
  check_statistics("uniform(low=-1, high=3)", 1, 16.0 / 12, 256.0 / 80);
  CHECK(sample[0] >= -1 && sample[COUNT - 1] <= 3);
}

TEST(normal_is_normal) {
  check_statistics("normal(mean=2, std=0.5)", 2, 0.25, 3 * 0.0625);
}

TEST(truncated_normal_is_cut_at_two_sigma) {
  /* of the standard normal within 2: by integration by parts */
  double inside = phi(2) - phi(-2), edge = exp(-2) / sqrt(8 * atan(1.0));
  double variance = 1 - 4 * edge / inside;
  double fourth = 3 * variance - 16 * edge / inside;
  check_statistics("truncated_normal(mean=-1, std=2)", -1, 4 * variance,
                   16 * fourth);
  CHECK((double)sample[0] >= -5 && (double)sample[COUNT - 1] <= 3);
}

/* A standard normal quantile against erfc, over its full range. */
TEST(normal_follows_its_quantile) {
  struct init normal = parsed("normal(std=1)"), uniform = parsed("uniform("
                                                                 "low=0, "
                                                                 "high=1)");
  for (int i = 0; i < 20000; i++) {
    float x[8], u[8];
    init_fill(&normal, 1, i, 8, x);
    init_fill(&uniform, 1, i, 8, u);
    for (int j = 0; j < 8; j++) /* u has 24 bits */
      CHECK(fabs(phi((double)x[j]) - (double)u[j]) < 2e-7);
  }
}

/* ---- inputs that matter -------------------------------------------------- */

TEST(seed_key_and_index_matter_and_nothing_else) {
  static const char *const texts[] = {"uniform", "normal", "truncated_normal"};
  for (int k = 0; k < 3; k++) {
    struct init init = parsed(texts[k]);
    float a[100], b[100];
    char room[404];
    for (int i = 0; i < 500; i++) {
      uint64_t seed = test_random();
      int64_t key = (int64_t)test_random();
      uint32_t dim = 1 + (uint32_t)(test_random() % 100);
      init_fill(&init, seed, key, 100, a);
      init_fill(&init, seed, key, dim, (float *)(void *)(room + 1));
      CHECK(memcmp(a, room + 1, 4 * dim) == 0);
      init_fill(&init, seed ^ (UINT64_C(1) << (i % 64)), key, 100, b);
      CHECK(memcmp(a, b, sizeof a) != 0);
      init_fill(&init, seed,
                (int64_t)((uint64_t)key ^ (UINT64_C(1) << (i % 64))), 100, b);
      CHECK(memcmp(a, b, sizeof a) != 0);
    }
  }
}

TEST(extreme_parameters_stay_finite) {
  static const char *const texts[] = {"uniform(low=-1e37, high=1e37)",
                                      "normal(mean=1e37, std=1e37)",
                                      "truncated_normal(mean=-1e37, std=1e37)",
                                      "uniform(low=1, high=1)",
                                      "normal(std=0)",
                                      "constant(value=1e37)"};
  for (int k = 0; k < 6; k++) {
    struct init init = parsed(texts[k]);
    for (int64_t key = 0; key < 2000; key++) {
      float x[64];
      init_fill(&init, 5, key, 64, x);
      for (int i = 0; i < 64; i++)
        CHECK(isfinite(x[i]));
      CHECK(k != 3 || x[key % 64] == 1);
      CHECK(k != 4 || x[key % 64] == 0);
    }
  }
}

/* ---- text ---------------------------------------------------------------- */

TEST(text_is_printed_and_reads_back) {
  static const char *const texts[][2] = {
      {"zeros", "zeros()"},
      {"zeros()", "zeros()"},
      {"constant", "constant(value=0)"},
      {"constant(value=-2.50)", "constant(value=-2.5)"},
      {"uniform", "uniform(low=-0.05, high=0.05)"},
      {"uniform(high=1e-5,low=-1e-5)", "uniform(low=-1e-5, high=1e-5)"},
      {"normal(std=1)", "normal(mean=0, std=1)"},
      {"truncated_normal(mean=3)", "truncated_normal(mean=3, std=0.05)"}};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
    struct init init = parsed(texts[k][0]), again;
    char out[INIT_TEXT_MAX];
    CHECK_EQ_INT(init_print(&init, out, sizeof out), strlen(texts[k][1]));
    CHECK_STR(out, texts[k][1]);
    again = parsed(out);
    CHECK(memcmp(&init, &again, sizeof init) == 0);
    CHECK_EQ_INT(init_print(&init, out, strlen(texts[k][1])), 0);
  }
}

TEST(errors_name_what_is_wrong) {
  static const char *const wrong[][2] = {
      {"ones", "unknown initializer: ones; expected zeros, constant, uniform, "
               "normal or "
               "truncated_normal"},
      {"zeros(value=1)", "zeros: unknown parameter: value"},
      {"uniform(low=1)", "uniform: low is greater than high"},
      {"uniform(low=1e38)", "uniform: low must be between -1e37 and 1e37, got "
                            "1e38"},
      {"normal(std=-1)", "normal: std must be between 0 and 1e37, got -1"},
      {"normal(std=1", "normal: expected , or ), got \"\""}};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    struct init init;
    emb_err err = {0};
    CHECK_EQ_INT(init_parse(&init, wrong[k][0], &err), EMB_RANGE);
    CHECK_STR(err.text, wrong[k][1]);
  }
}
