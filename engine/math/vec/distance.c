/* SPDX-License-Identifier: MIT
**
** distance.c -- emb_distance, in double precision; see emb.h.
**
** Uses several lanes, which the compiler may vectorize.  The order of additions
** is fixed, because the result must be the same on every machine.
*/
#include "distance.h"

#include <math.h>
#include <string.h>

#include "engine/emb.h"

#define LANES 8

static float vector_element(const float *vector, uint32_t i) {
  float x;
  memcpy(&x, vector + i, sizeof x);
  return x;
}

static double lanes_sum(const double lane[LANES]) {
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
         ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static double dot_product(const float *a, const float *b, uint32_t dim) {
  double lane[LANES] = {0};
  uint32_t i = 0;
  for (; i + LANES <= dim; i += LANES) {
    for (uint32_t j = 0; j < LANES; j++) {
      lane[j] +=
          (double)vector_element(a, i + j) * (double)vector_element(b, i + j);
    }
  }
  for (; i < dim; i++) {
    lane[0] += (double)vector_element(a, i) * (double)vector_element(b, i);
  }
  return lanes_sum(lane);
}

static double euclidean_distance(const float *a, const float *b, uint32_t dim) {
  double lane[LANES] = {0};
  uint32_t i = 0;
  for (; i + LANES <= dim; i += LANES) {
    for (uint32_t j = 0; j < LANES; j++) {
      double d =
          (double)vector_element(a, i + j) - (double)vector_element(b, i + j);
      lane[j] += d * d;
    }
  }
  for (; i < dim; i++) {
    double d = (double)vector_element(a, i) - (double)vector_element(b, i);
    lane[0] += d * d;
  }
  return sqrt(lanes_sum(lane));
}

int emb_distance(int metric, const float *a, const float *b, uint32_t dim,
                 double *distance) {
  if (metric == EMB_L2) {
    *distance = euclidean_distance(a, b, dim);
    return 1;
  }
  double ab = dot_product(a, b, dim);
  if (metric == EMB_DOT) {
    *distance = -ab;
    return 1;
  }
  /* A sum of squares is below 1e83, so that the product of two fits. */
  double norms = sqrt(dot_product(a, a, dim) * dot_product(b, b, dim));
  if (norms == 0) {
    return 0;
  }
  *distance = fmin(fmax(1 - ab / norms, 0), 2); /* rounding may leave 0..2 */
  return 1;
}
