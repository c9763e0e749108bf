/* SPDX-License-Identifier: MIT
**
** bank_average.c -- the text of gradients=, and averages without outliers
** against the formulas of engine/table/bank/average.c, written again here.
*/
#include "test.h"

#include "engine/table/bank/bank.h"

#include <math.h>

/* ---- texts --------------------------------------------------------------- */

static void takes(const char *text, uint32_t max, uint64_t expire_us,
                  uint32_t outlier, double limit) {
  struct bank_rule rule;
  emb_err err;
  int rc = bank__parse(&rule, text, &err);
  if (test_check(rc == EMB_OK, __FILE__, __LINE__, "%s: %s", text,
                 rc ? err.text : "")) {
    CHECK(rule.is_on);
    CHECK_EQ_INT(rule.max, max);
    CHECK_EQ_INT(rule.expire_us, expire_us);
    CHECK_EQ_INT(rule.outlier, outlier);
    CHECK(!outlier || (rule.limit <= limit && rule.limit >= limit));
  }
}

TEST(texts) {
  struct bank_rule rule;
  CHECK_EQ_INT(bank__parse(&rule, NULL, NULL), EMB_OK);
  CHECK(!rule.is_on);
  CHECK_EQ_INT(bank__parse(&rule, " none ", NULL), EMB_OK);
  CHECK(!rule.is_on);
  takes("average", 16, 500000, OUTLIER_NONE, 0);
  takes("average()", 16, 500000, OUTLIER_NONE, 0);
  takes(" average ( ) ", 16, 500000, OUTLIER_NONE, 0);
  takes("average(max=1)", 1, 500000, OUTLIER_NONE, 0);
  takes("average(max=65536,expire=1ms)", 65536, 1000, OUTLIER_NONE, 0);
  takes("average(outlier=none, expire=24h)", 16, UINT64_C(86400000000),
        OUTLIER_NONE, 0);
  takes("average( expire = 2 s , max = 3 , outlier = norm )", 3, 2000000,
        OUTLIER_NORM, 3.5);
  takes("average(expire=3min,outlier=norm(2))", 16, 180000000, OUTLIER_NORM, 2);
  takes("average(outlier=mad)", 16, 500000, OUTLIER_MAD, 3.5);
  takes("average(outlier=mad( 1e1 ))", 16, 500000, OUTLIER_MAD, 10);
  takes("average(outlier=cosine)", 16, 500000, OUTLIER_COSINE, -0.2);
  takes("average(outlier=cosine(-1))", 16, 500000, OUTLIER_COSINE, -1);
  takes("average(outlier=cosine(1))", 16, 500000, OUTLIER_COSINE, 1);
  takes("average(outlier=trim)", 16, 500000, OUTLIER_TRIM, 0.1);
  takes("average(outlier=trim(0.49))", 16, 500000, OUTLIER_TRIM, 0.49);
}

TEST(texts_that_are_wrong) {
  static const char *const wrong[][2] = {
      {"", "unknown gradients: ; expected none or average"},
      {"mean", "unknown gradients: mean; expected none or average"},
      {"averages", "unknown gradients: averages; expected none or average; did "
                   "you mean average?"},
      {"nonesuch", "unknown gradients: nonesuch; expected none or average"},
      {"average x", "average: more text at the end: x"},
      {"average(max=2)x", "average: more text at the end: x"},
      {"average(most=2)", "average: unknown parameter: most; expected max, "
                          "expire or outlier"},
      {"average(max 2)", "average: expected = after max, got \"2\""},
      {"average(,)", "average: expected a parameter, got \",\""},
      {"average(max=0)",
       "average: max must be a whole number between 1 and 65536, got 0"},
      {"average(max=65537)",
       "average: max must be a whole number between 1 and 65536, got 65537"},
      {"average(max=-1)",
       "average: max must be a whole number between 1 and 65536, got -1"},
      {"average(max=1.5)",
       "average: max must be a whole number between 1 and 65536, got 1.5"},
      {"average(max=2, max=3)", "average: max is given twice"},
      {"average(max=2 expire=1s)",
       "average: expected , or ), got \"expire=1s\""},
      {"average(max=2", "average: expected , or ), got \"\""},
      {"average(expire=0ms)",
       "average: expire must be between 0.001 s and 86400 s, got 0ms"},
      {"average(expire=25h)",
       "average: expire must be between 0.001 s and 86400 s, got 25h"},
      {"average(expire=500)",
       "average: expire is not a time with a unit like 500ms or 2s: \"500\""},
      {"average(expire=2 days)",
       "average: expire must be between 0.001 s and 86400 s, got 2 days"},
      {"average(expire=2 moons, max=3)", "average: expire is not a time with a "
                                         "unit like 500ms or 2s: \"2 moons\""},
      {"average(outlier=max)", "unknown outlier: max; expected none, norm, "
                               "mad, cosine or trim; did you mean mad?"},
      {"average(1, 2s, best)",
       "unknown outlier: best; expected none, norm, mad, cosine or trim"},
      {"average(max=1, mad)",
       "average: a value after one with a name needs a name too, got \"mad\""},
      {"average(outlier=norm(0))",
       "norm: z must be above 0 and below 1e9, got 0"},
      {"average(outlier=norm(,))", "norm: expected a parameter, got \",\""},
      {"average(outlier=mad(-1))",
       "mad: z must be above 0 and below 1e9, got -1"},
      {"average(outlier=cosine(1.1))",
       "cosine: c must be between -1 and 1, got 1.1"},
      {"average(outlier=cosine(1, 1))",
       "cosine: more values than parameters, got \"1\""},
      {"average(outlier=trim(0.5))",
       "trim: p must be above 0 and below 0.5, got 0.5"},
      {"average(outlier=trim(x%))", "trim: unknown parameter: x; expected p"},
      {"average(outlier=trim(p=x%))",
       "trim: p is not a share like 0.25 or 25%: \"x%\""},
      {"average(outlier=trim(0.1)", "average: expected , or ), got \"\""},
      {"average(outlier=trim(0.1 0.2))", "trim: expected , or ), got \"0.2\""},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    emb_err err = {0, ""};
    CHECK_EQ_INT(emb_check_gradients(wrong[i][0], &err), EMB_RANGE);
    CHECK_STR(err.text, wrong[i][1]);
  }
}

/* ---- averages ------------------------------------------------------------ */

enum { ROWS = 40, DIM = 9 };

struct sample {
  float rows[ROWS][DIM];
  uint32_t n;
};

static double uniform(void) {
  return (double)(test_random() >> 11) / 9007199254740992.0 * 2 - 1;
}

/* Some rows are much longer, some point the opposite way, some are zero. */
static void draw(struct sample *s, uint32_t n) {
  s->n = n;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t what = test_random() % 12;
    double scale = what == 0 ? 100 : what == 1 ? -1 : what == 2 ? 0 : 1;
    for (int k = 0; k < DIM; k++) {
      s->rows[i][k] = (float)(scale * (1 + 0.3 * uniform()));
    }
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double model_median(const double *x, uint32_t n) {
  double sorted[ROWS];
  memcpy(sorted, x, n * sizeof *x);
  qsort(sorted, n, sizeof *sorted, by_value);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double model_product(const float *a, const double *b) {
  double sum = 0;
  for (int k = 0; k < DIM; k++)
    sum += (double)a[k] * b[k];
  return sum;
}

static double model_norm(const float *row) {
  double wide[DIM];
  for (int k = 0; k < DIM; k++)
    wide[k] = (double)row[k];
  return sqrt(model_product(row, wide));
}

/* Finds the outliers by the formulas. */
static void model_out(const struct sample *s, uint32_t outlier, double limit,
                      int *out) {
  double r[ROWS], d[ROWS], mean[DIM] = {0};
  double m = 0, v = 0, length = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    r[i] = model_norm(s->rows[i]);
    m += r[i];
    for (int k = 0; k < DIM; k++)
      mean[k] += (double)s->rows[i][k];
  }
  m /= s->n;
  for (int k = 0; k < DIM; k++) {
    mean[k] /= s->n;
    length += mean[k] * mean[k];
  }
  length = sqrt(length);
  for (uint32_t i = 0; i < s->n; i++)
    v += (r[i] - m) * (r[i] - m);
  double deviation = sqrt(v / s->n), median = model_median(r, s->n);
  for (uint32_t i = 0; i < s->n; i++)
    d[i] = fabs(r[i] - median);
  double mad = model_median(d, s->n);
  for (uint32_t i = 0; i < s->n; i++) {
    double size = r[i] * length;
    out[i] = outlier == OUTLIER_NORM  ? fabs(r[i] - m) > limit * deviation
             : outlier == OUTLIER_MAD ? 0.6745 * d[i] > limit * mad
             : outlier == OUTLIER_COSINE
                 ? size > 0 && model_product(s->rows[i], mean) < limit * size
                 : 0;
  }
}

static uint32_t model_average(const struct sample *s, uint32_t outlier,
                              double limit, float *to) {
  int out[ROWS];
  uint32_t kept = 0;
  if (outlier == OUTLIER_TRIM) {
    uint32_t cut = (uint32_t)floor(limit * s->n);
    for (int k = 0; k < DIM; k++) {
      double x[ROWS], sum = 0;
      for (uint32_t i = 0; i < s->n; i++)
        x[i] = (double)s->rows[i][k];
      qsort(x, s->n, sizeof *x, by_value);
      for (uint32_t i = cut; i < s->n - cut; i++)
        sum += x[i];
      to[k] = (float)(sum / (s->n - 2 * cut));
    }
    return 2 * cut;
  }
  model_out(s, outlier, limit, out);
  for (uint32_t i = 0; i < s->n; i++)
    kept += !out[i];
  for (int k = 0; k < DIM; k++) {
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
      sum += kept && out[i] ? 0 : (double)s->rows[i][k];
    to[k] = (float)(sum / (kept ? kept : s->n));
  }
  return kept ? s->n - kept : 0;
}

static uint32_t averages(const struct sample *s, uint32_t outlier, double limit,
                         float *to) {
  const struct bank_rule rule = {
      .is_on = 1, .outlier = outlier, .limit = limit};
  const float *rows[ROWS];
  for (uint32_t i = 0; i < s->n; i++)
    rows[i] = s->rows[i];
  double *scratch = malloc(bank__scratch(s->n, DIM) * sizeof *scratch);
  const struct bank_set set = {rows, s->n, DIM};
  uint32_t out = bank__average(&rule, &set, scratch, to);
  free(scratch);
  return out;
}

TEST(averages_are_those_of_the_formulas) {
  static const struct {
    uint32_t outlier;
    double limits[3];
  } rules[] = {{OUTLIER_NONE, {0, 0, 0}},
               {OUTLIER_NORM, {1, 2, 3.5}},
               {OUTLIER_MAD, {1, 3.5, 10}},
               {OUTLIER_COSINE, {-0.2, 0.3, 0.999}},
               {OUTLIER_TRIM, {0.05, 0.1, 0.4}}};
  uint64_t found[5] = {0};
  for (unsigned round = 0; round < 3000; round++) {
    struct sample s;
    draw(&s, 1 + (uint32_t)(test_random() % ROWS));
    for (int r = 0; r < 5; r++) {
      float want[DIM], got[DIM];
      double limit = rules[r].limits[test_random() % 3];
      uint32_t out = model_average(&s, rules[r].outlier, limit, want);
      CHECK_EQ_INT(averages(&s, rules[r].outlier, limit, got), out);
      CHECK(memcmp(got, want, sizeof got) == 0);
      found[r] += out;
    }
  }
  CHECK(found[OUTLIER_NONE] == 0);
  for (int r = 1; r < 5; r++)
    CHECK(found[r] > 100);
}

/* One of n is a hundred times too long; norm(3.5) sees it from 14 on. */
static uint32_t finds_one(uint32_t n, uint32_t outlier, double limit) {
  struct sample s = {.n = n};
  float average[DIM];
  for (uint32_t i = 0; i < n; i++)
    for (int k = 0; k < DIM; k++)
      s.rows[i][k] = (i == n / 2 ? 100.0f : 1.0f) + 0.001f * (float)i;
  uint32_t out = averages(&s, outlier, limit, average);
  if (out)
    CHECK(average[0] < 1.1f);
  return out;
}

TEST(one_that_is_a_hundred_times_too_long) {
  CHECK_EQ_INT(finds_one(13, OUTLIER_NORM, 3.5), 0);
  CHECK_EQ_INT(finds_one(14, OUTLIER_NORM, 3.5), 1);
  CHECK_EQ_INT(finds_one(2, OUTLIER_MAD, 3.5), 0);
  CHECK_EQ_INT(finds_one(3, OUTLIER_MAD, 3.5), 1);
  CHECK_EQ_INT(finds_one(16, OUTLIER_MAD, 3.5), 1);
}

TEST(when_all_are_outliers_all_are_averaged) {
  struct sample s = {.n = 2};
  float average[DIM];
  s.rows[0][0] = 1; /* at 45 degrees to their mean */
  s.rows[1][1] = 1;
  CHECK_EQ_INT(averages(&s, OUTLIER_COSINE, 0.9, average), 0);
  CHECK(average[0] <= 0.5f && average[0] >= 0.5f);
}
