/* SPDX-License-Identifier: MIT
**
** points.c -- see points.h.
*/
#include "points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../engine/emb.h"
#include "harness.h"
#include "keys.h"

enum { CLUSTER_ROWS = 250, CLUSTERS_MAX = 4000, CLUSTERS_MIN = 16 };
static const double UNEVEN = 0.7, NARROWEST = 0.3, WIDEST = 0.8;

struct mixture {
  size_t clusters, dim;
  float *centres, *widths, *scales;
  double *until; /* cumulative share of the clusters */
};

/* Nearly normal with variance 1: the sum of four 16-bit numbers. */
static float normal(uint64_t *state) {
  uint64_t x = random_next(state);
  uint64_t sum =
      (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
  return ((float)sum - 131070.0f) / 37837.0f;
}

static double fraction(uint64_t *state) {
  return (double)(random_next(state) >> 11) * 0x1p-53;
}

static void mixture_make(struct mixture *m, size_t n, size_t dim,
                         uint64_t *state) {
  m->clusters = n / CLUSTER_ROWS;
  m->clusters = m->clusters > CLUSTERS_MAX   ? CLUSTERS_MAX
                : m->clusters < CLUSTERS_MIN ? CLUSTERS_MIN
                                             : m->clusters;
  m->dim = dim;
  m->centres = need(m->clusters * dim, sizeof(float));
  m->widths = need(m->clusters, sizeof(float));
  m->scales = need(dim, sizeof(float));
  m->until = need(m->clusters, sizeof(double));
  for (size_t j = 0; j < dim; j++) {
    m->scales[j] = (float)pow(1 + (double)j / 4, -0.5);
  }
  double sum = 0;
  for (size_t i = 0; i < m->clusters; i++) {
    m->widths[i] = (float)(NARROWEST + (WIDEST - NARROWEST) * fraction(state));
    m->until[i] = sum += pow((double)i + 1, -UNEVEN);
    for (size_t j = 0; j < dim; j++) {
      m->centres[i * dim + j] = m->scales[j] * normal(state);
    }
  }
  for (size_t i = 0; i < m->clusters; i++) {
    m->until[i] /= sum;
  }
}

static void mixture_free(struct mixture *m) {
  free(m->centres);
  free(m->widths);
  free(m->scales);
  free(m->until);
}

static void draw(const struct mixture *m, uint64_t *state, float *to) {
  double x = fraction(state);
  size_t low = 0, high = m->clusters - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (m->until[middle] < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (size_t j = 0; j < m->dim; j++) {
    to[j] = m->centres[low * m->dim + j] +
            m->widths[low] * m->scales[j] * normal(state);
  }
}

void points_make(struct points *points, size_t n, size_t dim, size_t asked) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  struct mixture mixture;
  mixture_make(&mixture, n, dim, &state);
  *points = (struct points){.n = n, .dim = dim, .asked = asked};
  points->vectors = need_huge(n * dim * sizeof(float));
  points->queries = need(asked * dim, sizeof(float));
  for (size_t i = 0; i < n; i++) {
    draw(&mixture, &state, points->vectors + i * dim);
  }
  for (size_t i = 0; i < asked; i++) {
    draw(&mixture, &state, points->queries + i * dim);
  }
  mixture_free(&mixture);
}

/* ---- spread vectors ------------------------------------------------------ */

static void spread(enum points_spread how, size_t dim, uint64_t *state,
                   float *to) {
  double square = 0, factor = 1;
  for (size_t j = 0; j < dim; j++) {
    to[j] = normal(state);
    square += (double)to[j] * (double)to[j];
  }
  if (how == POINTS_SPHERE) {
    factor = 1 / sqrt(square);
  } else if (how == POINTS_HEAVY) { /* Student's t, 3 degrees of freedom */
    double chi = 0;
    for (int i = 0; i < 3; i++) {
      double x = (double)normal(state);
      chi += x * x / 3;
    }
    factor = 1 / sqrt(chi + 1e-6);
  }
  for (size_t j = 0; j < dim; j++) {
    to[j] *= (float)factor;
  }
}

void points_spread(struct points *points, enum points_spread how, size_t n,
                   size_t dim, size_t asked) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  *points = (struct points){.n = n, .dim = dim, .asked = asked};
  points->vectors = need_huge(n * dim * sizeof(float));
  points->queries = need(asked * dim, sizeof(float));
  for (size_t i = 0; i < n; i++) {
    spread(how, dim, &state, points->vectors + i * dim);
  }
  for (size_t i = 0; i < asked; i++) {
    spread(how, dim, &state, points->queries + i * dim);
  }
}

/* ---- trained vectors ----------------------------------------------------- */

static size_t read_rows(emb_session *session, size_t max, size_t dim,
                        float *to) {
  emb_scan *scan;
  int64_t *keys = need(max, sizeof(*keys));
  size_t n = 1, count = 0;
  int rc = emb_scan_open(session, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan);
  while (!rc && n && count < max) {
    rc = emb_scan_next(scan, max - count, keys, to + count * dim, NULL, &n);
    count += rc ? 0 : n;
  }
  if (rc) {
    die("emb_scan: %s", emb_errmsg(session));
  }
  emb_scan_close(scan);
  free(keys);
  return count;
}

/* Every n-th row becomes a query. */
static void take_queries(struct points *points, size_t asked) {
  size_t dim = points->dim, each = points->n / asked, kept = 0;
  for (size_t i = 0; i < points->n; i++) {
    float *row = points->vectors + i * dim;
    if (i % each == 0 && points->asked < asked) {
      memcpy(points->queries + points->asked++ * dim, row, dim * sizeof(float));
    } else {
      memmove(points->vectors + kept++ * dim, row, dim * sizeof(float));
    }
  }
  points->n = kept;
}

int points_read(struct points *points, const char *directory, size_t asked) {
  emb_config config = {.flags = EMB_OPEN_READONLY | EMB_OPEN_ALONE};
  emb_store *store;
  emb_session *session;
  emb_err err;
  if (access(directory, F_OK) || emb_open(directory, &config, &store, &err)) {
    return 0;
  }
  if (emb_session_open(store, &session, &err)) {
    die("emb_session_open: %s", err.text);
  }
  size_t rows = (size_t)emb_count(session), dim = emb_dim(store);
  *points = (struct points){.dim = dim};
  points->vectors = need_huge(rows * dim * sizeof(float));
  points->queries = need(asked * dim, sizeof(float));
  points->n = read_rows(session, rows, dim, points->vectors);
  emb_session_close(session);
  if (emb_close(store, &err)) {
    die("emb_close: %s", err.text);
  }
  if (points->n < 2 * asked) {
    points_free(points);
    return 0;
  }
  take_queries(points, asked);
  return 1;
}

void points_free(struct points *points) {
  drop_huge(points->vectors, points->n * points->dim * sizeof(float));
  free(points->queries);
}

/* ---- answers ------------------------------------------------------------- */

double points_distance(const float *a, const float *b, size_t dim) {
  double sum = 0;
  for (size_t j = 0; j < dim; j++) {
    double difference = (double)a[j] - (double)b[j];
    sum += difference * difference;
  }
  return sqrt(sum);
}

/* Infinite if there is no such row. */
static double distance_of(const struct points *points, const float *query,
                          int64_t key) {
  return key < 1 || (size_t)key > points->n
             ? INFINITY
             : points_distance(
                   query, points->vectors + ((size_t)key - 1) * points->dim,
                   points->dim);
}

double points_recall(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *truth,
                     const int64_t *found) {
  size_t good = 0;
  for (size_t i = 0; i < n; i++) {
    const float *query = queries + i * points->dim;
    double limit = distance_of(points, query, truth[i * k + k - 1]);
    for (size_t j = 0; j < k; j++) {
      good +=
          distance_of(points, query, found[i * k + j]) <= limit * (1 + 1e-6);
    }
  }
  return (double)good / (double)(n * k);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

size_t points_verify(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *oracle,
                     const int64_t *keys, const double *distances,
                     const char *name) {
  double *theirs = need(k, sizeof(double));
  size_t farther = 0;
  for (size_t i = 0; i < n; i++) {
    const float *query = queries + i * points->dim;
    for (size_t j = 0; j < k; j++) {
      theirs[j] = distance_of(points, query, oracle[i * k + j]);
    }
    qsort(theirs, k, sizeof(double), compare);
    for (size_t j = 0; j < k; j++) {
      size_t at = i * k + j;
      double real = distance_of(points, query, keys[at]);
      if (!(fabs(distances[at] - real) <= 1e-9 * (1 + real))) {
        die("%s: query %zu, rank %zu: key %lld is at %.17g, not %.17g", name, i,
            j, (long long)keys[at], real, distances[at]);
      }
      if (real > theirs[j] * (1 + 1e-12)) {
        die("%s: query %zu, rank %zu: key %lld at %.17g, but there is one at"
            " %.17g",
            name, i, j, (long long)keys[at], real, theirs[j]);
      }
      for (size_t other = 0; other < j; other++) {
        if (keys[i * k + other] == keys[at]) {
          die("%s: query %zu: key %lld twice", name, i, (long long)keys[at]);
        }
      }
      farther += theirs[j] > real * (1 + 1e-12);
    }
  }
  free(theirs);
  return farther;
}
