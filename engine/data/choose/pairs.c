/* SPDX-License-Identifier: MIT
**
** pairs.c -- see pairs.h.
*/
#include "pairs.h"

#include <math.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/base/env/env.h"

int choose__pairs_open(struct choose_pairs *pairs, size_t n, uint32_t dim) {
  struct env *env = &env_posix;
  pairs->n = n;
  pairs->dim = dim;
  pairs->unit = 1;
  pairs->ops = choose__best();
  pairs->distance = distance_best();
  size_t panel = distance_panel_floats(pairs->distance, BLOCK_COLUMNS, dim);
  if (n > SIZE_MAX / 8 / dim) {
    return EMB_NOMEM;
  }
  pairs->rows = env->allocate(env, n * dim * sizeof(float));
  pairs->squares = env->allocate(env, n * sizeof(float));
  pairs->panels = env->allocate(env, panel * sizeof(float));
  pairs->tile =
      env->allocate(env, (size_t)BLOCK_ROWS * BLOCK_COLUMNS * sizeof(float));
  pairs->other_squares = env->allocate(env, BLOCK_COLUMNS * sizeof(float));
  return pairs->rows && pairs->squares && pairs->panels && pairs->tile &&
                 pairs->other_squares
             ? EMB_OK
             : EMB_NOMEM;
}

void choose__pairs_close(struct choose_pairs *pairs) {
  struct env *env = &env_posix;
  env->release(env, pairs->rows);
  env->release(env, pairs->squares);
  env->release(env, pairs->panels);
  env->release(env, pairs->tile);
  env->release(env, pairs->other_squares);
  *pairs = (struct choose_pairs){0};
}

static void pairs_square(struct choose_pairs *pairs) {
  for (size_t i = 0; i < pairs->n; i++) {
    const float *row = pairs->rows + i * pairs->dim;
    double sum = 0;
    for (uint32_t k = 0; k < pairs->dim; k++) {
      sum += (double)row[k] * (double)row[k];
    }
    pairs->squares[i] = (float)sum;
  }
}

/* The mean of element k over all rows; computed a column at a time, so that no
** memory is needed for the means. */
static double pairs_mean(const struct choose_pairs *pairs, const float *vectors,
                         uint32_t k) {
  double sum = 0;
  for (size_t i = 0; i < pairs->n; i++) {
    sum += (double)vectors[i * pairs->dim + k];
  }
  return sum / (double)pairs->n;
}

void choose__pairs_centre(struct choose_pairs *pairs, const float *vectors) {
  size_t n = pairs->n, dim = pairs->dim;
  double longest = 0;
  /* A difference may overflow float32; half of it does not. */
  for (uint32_t k = 0; k < dim; k++) {
    double mean = pairs_mean(pairs, vectors, k);
    for (size_t i = 0; i < n; i++) {
      pairs->rows[i * dim + k] =
          (float)(((double)vectors[i * dim + k] - mean) / 2);
    }
  }
  for (size_t i = 0; i < n; i++) {
    const float *row = pairs->rows + i * dim;
    double sum = 0;
    for (uint32_t k = 0; k < dim; k++) {
      sum += (double)row[k] * (double)row[k];
    }
    longest = fmax(longest, sqrt(sum));
  }
  pairs->unit = longest > 0 ? 2 * longest : 1;
  for (size_t i = 0; longest > 0 && i < n * dim; i++) {
    pairs->rows[i] = (float)((double)pairs->rows[i] / longest);
  }
  pairs_square(pairs);
}

void choose__pairs_normalise(struct choose_pairs *pairs, const float *vectors) {
  size_t dim = pairs->dim;
  for (size_t i = 0; i < pairs->n; i++) {
    const float *from = vectors + i * dim;
    float *to = pairs->rows + i * dim;
    double sum = 0;
    for (uint32_t k = 0; k < dim; k++) {
      sum += (double)from[k] * (double)from[k];
    }
    double factor = sum > 0 ? 1 / sqrt(sum) : 0;
    for (uint32_t k = 0; k < dim; k++) {
      to[k] = (float)((double)from[k] * factor);
    }
  }
  pairs_square(pairs);
}

void choose__pairs_columns(struct choose_pairs *pairs, const float *others,
                           const float *squares, size_t n) {
  struct choose_block *block = &pairs->block;
  emb_assert(n > 0 && n <= BLOCK_COLUMNS);
  *block = (struct choose_block){.tile = pairs->tile,
                                 .columns = n,
                                 .width = distance_width(pairs->distance, n),
                                 .dim = pairs->dim,
                                 .others = others,
                                 .other_squares = pairs->other_squares};
  pairs->distance->pack(pairs->panels, others, n, pairs->dim);
  memset(pairs->other_squares, 0, BLOCK_COLUMNS * sizeof(float));
  if (squares) {
    memcpy(pairs->other_squares, squares, n * sizeof(float));
  }
}

struct choose_block *choose__pairs_block(struct choose_pairs *pairs,
                                         size_t first, size_t n) {
  struct choose_block *block = &pairs->block;
  struct distance_rows rows = {.first = pairs->rows + first * pairs->dim,
                               .stride = pairs->dim * sizeof(float),
                               .n = n};
  emb_assert(first < pairs->n && n <= pairs->n - first);
  block->n = n;
  block->rows = rows.first;
  block->squares = pairs->squares + first;
  emb_check(choose__block_valid(block));
  pairs->distance->tile[EMB_F32](pairs->tile, NULL, pairs->panels, block->width,
                                 &rows, pairs->dim);
  return block;
}
