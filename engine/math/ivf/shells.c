/* SPDX-License-Identifier: MIT
**
** shells.c -- see shells.h.
*/
#include "shells.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the sample that a shell needs. */
#define FITTED_ROWS 4

int ivf__shells_init(struct shells *shells, struct env *env, uint32_t centres,
                     uint32_t count) {
  emb_assert(count >= 1 && count <= SHELLS_MAX);
  *shells = (struct shells){.centres = centres, .count = count};
  size_t bounds = (shells_bounds(shells) + 1) * sizeof *shells->bounds;
  size_t radii = shells_radii(shells) * sizeof *shells->radii;
  shells->bounds = env->allocate(env, bounds);
  shells->radii = env->allocate(env, radii);
  if (!shells->bounds || !shells->radii) {
    ivf__shells_free(shells, env);
    return 0;
  }
  memset(shells->bounds, 0, bounds);
  memset(shells->radii, 0, radii);
  return 1;
}

void ivf__shells_free(struct shells *shells, struct env *env) {
  env->release(env, shells->bounds);
  env->release(env, shells->radii);
  *shells = (struct shells){0};
}

int ivf__shells_sample_init(struct shells_sample *sample, struct env *env,
                            size_t room) {
  *sample = (struct shells_sample){.room = room};
  sample->squares = env->allocate(env, (room + 1) * sizeof *sample->squares);
  sample->centre = env->allocate(env, (room + 1) * sizeof *sample->centre);
  if (!sample->squares || !sample->centre) {
    ivf__shells_sample_free(sample, env);
    return 0;
  }
  return 1;
}

void ivf__shells_sample_free(struct shells_sample *sample, struct env *env) {
  env->release(env, sample->squares);
  env->release(env, sample->centre);
  *sample = (struct shells_sample){0};
}

float ivf__residual_square(const float *vector, const float *centre,
                           uint32_t dim) {
  float sum = 0;
  for (uint32_t i = 0; i < dim; i++) {
    float difference = vector[i] - centre[i];
    sum += difference * difference;
  }
  return sum;
}

static int compare_squares(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Divides sorted squares into parts of the same size. */
static void fit_centre(const struct shells *shells, uint32_t centre,
                       const float *squares, size_t n) {
  float *bounds = shells->bounds + (size_t)centre * (shells->count - 1);
  float *radii = shells->radii + (size_t)centre * shells->count;
  for (uint32_t i = 0; i < shells->count; i++) {
    size_t from = n * i / shells->count, to = n * (i + 1) / shells->count;
    double sum = 0;
    for (size_t j = from; j < to; j++) {
      sum += (double)squares[j];
    }
    radii[i] = to > from ? (float)sqrt(sum / (double)(to - from)) : 0;
    if (i + 1 < shells->count) {
      bounds[i] = to > 0 ? squares[to - 1] : 0;
    }
  }
}

int ivf__shells_fit(struct shells *shells, struct env *env,
                    struct shells_sample *sample) {
  size_t *ends = env->allocate(env, (shells->centres + 1) * sizeof *ends);
  float *by_centre = env->allocate(env, (sample->n + 1) * sizeof *by_centre);
  if (!ends || !by_centre) {
    env->release(env, ends);
    env->release(env, by_centre);
    return 0;
  }
  memset(ends, 0, (shells->centres + 1) * sizeof *ends);
  for (size_t i = 0; i < sample->n; i++) {
    ends[sample->centre[i] + 1]++;
  }
  for (uint32_t c = 0; c < shells->centres; c++) {
    ends[c + 1] += ends[c];
  }
  /* ends[c]: where the squares of c begin, and then where they end */
  for (size_t i = 0; i < sample->n; i++) {
    by_centre[ends[sample->centre[i]]++] = sample->squares[i];
  }
  qsort(sample->squares, sample->n, sizeof(float), compare_squares);
  for (uint32_t c = 0; c < shells->centres; c++) {
    size_t from = c ? ends[c - 1] : 0, n = ends[c] - from;
    qsort(by_centre + from, n, sizeof(float), compare_squares);
    if (n >= (size_t)shells->count * FITTED_ROWS) {
      fit_centre(shells, c, by_centre + from, n);
    } else {
      fit_centre(shells, c, sample->squares, sample->n);
    }
  }
  env->release(env, ends);
  env->release(env, by_centre);
  return 1;
}
