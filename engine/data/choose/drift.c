/* SPDX-License-Identifier: MIT
**
** drift.c -- how far two samples of numbers are from having one distribution:
** Kolmogorov-Smirnov, Cramer-von Mises, Hellinger; see emb_data.h.
*/
#include "engine/emb.h"
#include "engine/data/emb_data.h"

#include <math.h>

/* A walk over both sorted samples: for each distinct number in ascending order,
** how many numbers of each sample are not greater. */
struct drift_walk {
  const double *x, *y;
  size_t n, m, i, j;
};

static int drift_next(struct drift_walk *w) {
  if (w->i == w->n && w->j == w->m) {
    return 0;
  }
  double least = w->j == w->m || (w->i < w->n && w->x[w->i] < w->y[w->j])
                     ? w->x[w->i]
                     : w->y[w->j];
  while (w->i < w->n && w->x[w->i] == least) {
    w->i++;
  }
  while (w->j < w->m && w->y[w->j] == least) {
    w->j++;
  }
  return 1;
}

double emb_drift_ks(const double *x, size_t n, const double *y, size_t m) {
  struct drift_walk w = {.x = x, .y = y, .n = n, .m = m};
  double most = 0;
  while (drift_next(&w)) {
    double apart = (double)w.i / (double)n - (double)w.j / (double)m;
    most = fmax(most, fabs(apart));
  }
  return most;
}

/* Anderson, "On the distribution of the two-sample Cramer-von Mises criterion"
** (1962), equation 9, with mid-ranks for equal numbers. */
double emb_drift_cvm(const double *x, size_t n, const double *y, size_t m) {
  struct drift_walk w = {.x = x, .y = y, .n = n, .m = m};
  double a = (double)n, b = (double)m, sum = 0;
  for (size_t i = 0, j = 0; drift_next(&w); i = w.i, j = w.j) {
    double rank = ((double)(i + j) + (double)(w.i + w.j) + 1) / 2;
    for (size_t k = i; k < w.i; k++) {
      double d = rank - (double)(k + 1);
      sum += a * d * d;
    }
    for (size_t k = j; k < w.j; k++) {
      double d = rank - (double)(k + 1);
      sum += b * d * d;
    }
  }
  return sum / (a * b * (a + b)) - (4 * a * b - 1) / (6 * (a + b));
}

/* Equal bins from least to most. */
struct drift_parts {
  double least, most;
  size_t n;
};

/* The bin of x: bin i if x is at least edge i and less than the next edge; the
** last bin includes its end.  Corrects a neighbouring bin found by rounding. */
static size_t drift_part(const struct drift_parts *parts, double x) {
  double step = (parts->most - parts->least) / (double)parts->n;
  double last = (double)parts->n - 1;
  size_t i = (size_t)fmin((x - parts->least) / step, last);
  if (x < parts->least + (double)i * step) {
    return i - (i > 0);
  }
  return i + (i + 1 < parts->n && x >= parts->least + (double)(i + 1) * step);
}

/* Counts the n sorted numbers from *at on that are in bin `part`; none may be
** in a lower bin. */
static double drift_in(const struct drift_parts *parts, size_t part,
                       const double *x, size_t n, size_t *at) {
  size_t first = *at;
  while (*at < n && drift_part(parts, x[*at]) == part) {
    ++*at;
  }
  return (double)(*at - first);
}

double emb_drift_hellinger(double *x, size_t n, double *y, size_t m,
                           size_t parts) {
  struct drift_walk w = {.x = x, .y = y, .n = n, .m = m};
  double both = (double)n * (double)m, same = 0;
  struct drift_parts of = {
      .least = fmin(x[0], y[0]) / 2,
      .most = fmax(x[n - 1], y[m - 1]) / 2,
      .n = parts ? parts : (size_t)ceil(log2((double)n + (double)m) + 1)};
  if (!(of.least < of.most)) {
    return 0;
  }
  for (size_t k = 0; k < n; k++) { /* a difference of halves cannot overflow */
    x[k] /= 2;
  }
  for (size_t k = 0; k < m; k++) {
    y[k] /= 2;
  }
  while (w.i < n && w.j < m) {
    size_t p = drift_part(&of, x[w.i]), q = drift_part(&of, y[w.j]);
    double a = drift_in(&of, p < q ? p : q, x, n, &w.i);
    double b = drift_in(&of, p < q ? p : q, y, m, &w.j);
    same += sqrt(a / both * b);
  }
  return sqrt(fmax(1 - same, 0));
}
