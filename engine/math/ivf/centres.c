/* SPDX-License-Identifier: MIT
**
** centres.c -- see centres.h.
*/
#include "centres.h"

#include <float.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/emb.h"

enum { NEARER_CENTRES = 64 };

int ivf__centres_init(struct centres *centres, struct env *env, uint32_t dim,
                      uint32_t count) {
  *centres = (struct centres){.dim = dim, .count = count};
  centres->rows = env->allocate(env, (size_t)count * dim * sizeof(float));
  centres->squares = env->allocate(env, count * sizeof(float));
  return centres->rows && centres->squares;
}

void ivf__centres_free(struct centres *centres, struct env *env) {
  env->release(env, centres->rows);
  env->release(env, centres->squares);
}

static float square_of(const float *row, uint32_t dim) {
  double sum = 0;
  for (uint32_t i = 0; i < dim; i++) {
    sum += (double)row[i] * (double)row[i];
  }
  return (float)sum;
}

void ivf__centres_measure(struct centres *centres) {
  for (uint32_t i = 0; i < centres->count; i++) {
    centres->squares[i] = square_of(centres_row(centres, i), centres->dim);
  }
}

/* ---- the nearest --------------------------------------------------------- */

int ivf__nearer_init(struct nearer *nearer, struct env *env, uint32_t dim) {
  nearer->distance = distance_best();
  nearer->ops = ivf__ops_best();
  size_t width = distance_width(nearer->distance, NEARER_ROWS);
  size_t floats = distance_panel_floats(nearer->distance, NEARER_ROWS, dim);
  nearer->panels = env->allocate(env, floats * sizeof(float));
  nearer->products = env->allocate(env, width * NEARER_CENTRES * sizeof(float));
  nearer->best = env->allocate(env, NEARER_ROWS * sizeof(float));
  return nearer->panels && nearer->products && nearer->best;
}

void ivf__nearer_free(struct nearer *nearer, struct env *env) {
  env->release(env, nearer->panels);
  env->release(env, nearer->products);
  env->release(env, nearer->best);
  *nearer = (struct nearer){0};
}

/* The rows are the queries of the tile, packed once; all centres are streamed
** past them. */
void ivf__nearest(struct nearer *nearer, const struct centres *centres,
                  const float *rows, size_t n, uint32_t *list) {
  const struct distance_ops *distance = nearer->distance;
  size_t width = distance_width(distance, n), dim = centres->dim;
  emb_assert(n <= NEARER_ROWS);
  distance->pack(nearer->panels, rows, n, dim);
  for (size_t i = 0; i < n; i++) {
    nearer->best[i] = FLT_MAX;
    list[i] = 0;
  }
  for (uint32_t at = 0; at < centres->count; at += NEARER_CENTRES) {
    uint32_t some = centres->count - at;
    some = some < NEARER_CENTRES ? some : NEARER_CENTRES;
    const struct distance_rows part = {.first = centres_row(centres, at),
                                       .stride = dim * sizeof(float),
                                       .n = some};
    distance->tile[EMB_F32](nearer->products, NULL, nearer->panels, width,
                            &part, dim);
    for (uint32_t i = 0; i < some; i++) {
      nearer->ops->minimum(nearer->best, list, nearer->products + i * width, n,
                           centres->squares[at + i] / 2, at + i);
    }
  }
}

/* ---- training ------------------------------------------------------------ */

int ivf__training_init(struct training *t, struct env *env,
                       struct centres *centres, float *sample, size_t n) {
  uint32_t dim = centres->dim, count = centres->count;
  emb_assert(n >= count);
  *t = (struct training){
      .env = env, .centres = centres, .sample = sample, .n = n};
  t->sums = env->allocate(env, (size_t)count * dim * sizeof *t->sums);
  t->counts = env->allocate(env, count * sizeof *t->counts);
  if (!t->sums || !t->counts) {
    ivf__training_free(t);
    return 0;
  }
  /* Rows in equal steps through the sample, whose order has no meaning. */
  for (uint32_t i = 0; i < count; i++) {
    memcpy(centres->rows + (size_t)i * dim,
           sample + (size_t)(i * (uint64_t)n / count) * dim,
           dim * sizeof(float));
  }
  ivf__centres_measure(centres);
  t->before = DBL_MAX;
  emb_check(ivf__training_valid(t));
  return 1;
}

void ivf__training_free(struct training *t) {
  if (t->env) {
    t->env->release(t->env, t->sums);
    t->env->release(t->env, t->counts);
  }
  t->sums = NULL;
  t->counts = NULL;
}

/* Gives an empty centre half of the rows of the largest one. */
static void seed_empty(struct training *t, uint32_t empty) {
  struct centres *c = t->centres;
  uint32_t most = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    most = t->counts[i] > t->counts[most] ? i : most;
  }
  /* There are at least as many rows as centres, and one has none. */
  emb_assert(t->counts[most] > 1);
  float *to = c->rows + (size_t)empty * c->dim;
  float *from = c->rows + (size_t)most * c->dim;
  for (uint32_t d = 0; d < c->dim; d++) {
    float step = d % 2 ? 1.0f / 1024 : -1.0f / 1024;
    to[d] = from[d] * (1 + step);
    from[d] *= 1 - step;
  }
  t->counts[empty] = t->counts[most] / 2;
  t->counts[most] -= t->counts[empty];
}

static void end_round(struct training *t) {
  struct centres *c = t->centres;
  for (uint32_t i = 0; i < c->count; i++) {
    for (uint32_t d = 0; t->counts[i] && d < c->dim; d++) {
      c->rows[(size_t)i * c->dim + d] =
          (float)(t->sums[(size_t)i * c->dim + d] / t->counts[i]);
    }
  }
  for (uint32_t i = 0; i < c->count; i++) {
    if (!t->counts[i]) {
      seed_empty(t, i);
    }
  }
  ivf__centres_measure(c);
  memset(t->sums, 0, (size_t)c->count * c->dim * sizeof *t->sums);
  memset(t->counts, 0, c->count * sizeof *t->counts);
}

int ivf__training_step(struct training *t, struct nearer *nearer) {
  struct centres *c = t->centres;
  uint32_t list[NEARER_ROWS];
  emb_assert(t->round < IVF_ROUNDS && t->at < t->n); /* it is not complete */
  size_t n = t->n - t->at < NEARER_ROWS ? t->n - t->at : NEARER_ROWS;
  const float *rows = t->sample + t->at * c->dim;
  ivf__nearest(nearer, c, rows, n, list);
  for (size_t i = 0; i < n; i++) {
    const float *row = rows + i * c->dim;
    double *sum = t->sums + (size_t)list[i] * c->dim;
    for (uint32_t d = 0; d < c->dim; d++) {
      sum[d] += (double)row[d];
    }
    t->counts[list[i]]++;
    t->error += 2 * (double)nearer->best[i] + (double)square_of(row, c->dim);
  }
  t->at += n;
  emb_check(ivf__training_valid(t));
  if (t->at < t->n) {
    return 0;
  }
  end_round(t);
  t->round++;
  int done = t->round == IVF_ROUNDS || t->error > t->before * 0.99;
  t->before = t->error;
  t->error = 0;
  t->at = 0;
  return done;
}
