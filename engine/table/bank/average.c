/* SPDX-License-Identifier: MIT
**
** average.c -- the average of the gradients g_1 .. g_n of a key, each a row of
** dim floats, without outliers.
**
** Everything is computed in double.  Sums are in the order of arrival (and, in
** a row, in the order of its elements), and are rounded to float32 once: the
** same gradients in the same order give the same bytes on every machine.  With
** r_i = |g_i|, the Euclidean norm:
**
**   norm(z)    g_i is an outlier if |r_i - m| > z s, where m is the mean of
**              r_1 .. r_n and s = sqrt(sum (r_i - m)^2 / n).  None of n numbers
**              is more than sqrt(n - 1) deviations off, so with z = 3.5 it
**              takes n = 14 to find one.
**   mad(z)     g_i is an outlier if 0.6745 |r_i - M| > z D, where M is the
**              median of the r_i and D the median of |r_i - M| (Iglewicz and
**              Hoaglin, 1993, who recommend z = 3.5).  The median of an even
**              number of values is the mean of the two in the middle.  D is 0
**              if more than half of the norms are equal: then every norm that
**              differs is an outlier.
**   cosine(c)  g_i is an outlier if g_i . G < c |g_i| |G|, where G is the mean
**              of all g_i.  If g_i or G is zero, there is no angle, and g_i is
**              no outlier.
**   trim(p)    drops no whole gradient, but for each element the floor(p n)
**              smallest and as many largest values; the others are averaged,
**              added up in ascending order.  Counts 2 floor(p n) outliers.
**
** If all gradients are outliers, all are averaged; this can happen with cosine
** and a c above 0.
*/
#include <math.h>
#include <string.h>

#include "bank.h"

#define MAD_SCALE 0.6745

size_t bank__scratch(uint32_t n, uint32_t dim) {
  return (size_t)dim + 3 * (size_t)n;
}

/* How the scratch memory is divided. */
struct average {
  const struct bank_set *set;
  double *sums;   /* dim */
  double *norms;  /* n */
  double *sorted; /* n */
  double *is_out; /* n, 0 or 1 */
};

static double squared_value(double x) { return x * x; }

static void average_norms(struct average *a) {
  for (uint32_t i = 0; i < a->set->n; i++) {
    double sum = 0;
    for (uint32_t k = 0; k < a->set->dim; k++) {
      sum += squared_value((double)a->set->rows[i][k]);
    }
    a->norms[i] = sqrt(sum);
  }
}

/* Insertion sort: the values are few, and often in order. */
static void average_sort(double *x, uint32_t n) {
  for (uint32_t i = 1; i < n; i++) {
    double value = x[i];
    uint32_t at = i;
    for (; at > 0 && x[at - 1] > value; at--) {
      x[at] = x[at - 1];
    }
    x[at] = value;
  }
}

/* The median of the values in a->sorted. */
static double average_median(struct average *a) {
  uint32_t n = a->set->n;
  average_sort(a->sorted, n);
  return (a->sorted[(n - 1) / 2] + a->sorted[n / 2]) / 2;
}

static void by_norm(struct average *a, double z) {
  uint32_t n = a->set->n;
  double mean = 0, variance = 0;
  average_norms(a);
  for (uint32_t i = 0; i < n; i++) {
    mean += a->norms[i];
  }
  mean /= n;
  for (uint32_t i = 0; i < n; i++) {
    variance += squared_value(a->norms[i] - mean);
  }
  double limit = z * sqrt(variance / n);
  for (uint32_t i = 0; i < n; i++) {
    a->is_out[i] = fabs(a->norms[i] - mean) > limit;
  }
}

static void by_mad(struct average *a, double z) {
  uint32_t n = a->set->n;
  average_norms(a);
  memcpy(a->sorted, a->norms, n * sizeof *a->sorted);
  double median = average_median(a);
  for (uint32_t i = 0; i < n; i++) {
    a->sorted[i] = fabs(a->norms[i] - median);
  }
  double limit = z * average_median(a);
  for (uint32_t i = 0; i < n; i++) {
    a->is_out[i] = MAD_SCALE * fabs(a->norms[i] - median) > limit;
  }
}

/* Sums up the gradients that are not outliers; returns their number. */
static uint32_t average_sum(struct average *a) {
  uint32_t n = 0;
  memset(a->sums, 0, a->set->dim * sizeof *a->sums);
  for (uint32_t i = 0; i < a->set->n; i++) {
    if (a->is_out[i] > 0 && !EMB_SEED(SEED_OUTLIER_AVERAGED)) {
      continue;
    }
    n++;
    for (uint32_t k = 0; k < a->set->dim; k++) {
      a->sums[k] += (double)a->set->rows[i][k];
    }
  }
  return n;
}

static void by_cosine(struct average *a, double c) {
  double length = 0;
  uint32_t n = average_sum(a);
  average_norms(a);
  for (uint32_t k = 0; k < a->set->dim; k++) {
    a->sums[k] /= n;
    length += squared_value(a->sums[k]);
  }
  length = sqrt(length);
  for (uint32_t i = 0; i < n; i++) {
    double product = 0;
    for (uint32_t k = 0; k < a->set->dim; k++) {
      product += (double)a->set->rows[i][k] * a->sums[k];
    }
    double size = a->norms[i] * length;
    a->is_out[i] = size > 0 && product < c * size;
  }
}

static uint32_t trimmed_values(struct average *a, double p, float *to) {
  uint32_t n = a->set->n, cut = (uint32_t)(p * n);
  for (uint32_t k = 0; k < a->set->dim; k++) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
      a->sorted[i] = (double)a->set->rows[i][k];
    }
    average_sort(a->sorted, n);
    for (uint32_t i = cut; i < n - cut; i++) {
      sum += a->sorted[i];
    }
    to[k] = (float)(sum / (n - 2 * cut));
  }
  return 2 * cut;
}

uint32_t bank__average(const struct bank_rule *rule, const struct bank_set *set,
                       double *scratch, float *to) {
  struct average a = {.set = set,
                      .sums = scratch,
                      .norms = scratch + set->dim,
                      .sorted = scratch + set->dim + set->n,
                      .is_out = scratch + set->dim + 2 * (size_t)set->n};
  emb_assert(set->n > 0);
  memset(a.is_out, 0, set->n * sizeof *a.is_out);
  switch (rule->outlier) {
  case OUTLIER_NORM:
    by_norm(&a, rule->limit);
    break;
  case OUTLIER_MAD:
    by_mad(&a, rule->limit);
    break;
  case OUTLIER_COSINE:
    by_cosine(&a, rule->limit);
    break;
  case OUTLIER_TRIM:
    return trimmed_values(&a, rule->limit, to);
  default:
    break;
  }
  uint32_t n = average_sum(&a);
  if (!n) {
    memset(a.is_out, 0, set->n * sizeof *a.is_out);
    n = average_sum(&a);
  }
  for (uint32_t k = 0; k < set->dim; k++) {
    to[k] = (float)(a.sums[k] / n);
  }
  return set->n - n;
}
