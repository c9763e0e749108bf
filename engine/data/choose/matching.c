/* SPDX-License-Identifier: MIT
**
** matching.c -- GradMatch: chooses rows of gradients whose weighted sum is near
** the mean of all.
**
** Killamsetty et al., "GRAD-MATCH" (2021), with the details of its public code:
** orthogonal matching pursuit.  The row with the greatest product with the
** residual is chosen; then the weights x of all chosen rows A solve
** (A A' + lambda) x = A mean, and the residual is mean - A' x.  With one row,
** lambda is not used.  The final weights are those >= 0 that solve this with
** the least squared error; a single row has weight 1.
**
** Degenerate inputs are harmless: rows that depend on others get weight 0 if
** lambda is 0.  MEMORY: 24 bytes for each pair of chosen rows.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

#include <math.h>
#include <string.h>

struct matching {
  double *mean, *residual; /* dim */
  double *lower;           /* factor of A A' + lambda, a triangle */
  double *right;           /* A mean, */
  double *half;            /* solved by the factor, */
  double *x;               /* and by its transpose */
};

/* Appends chosen row i: its products with the other chosen rows, and its row of
** the factor. */
static void matching_append(struct choose *c, struct matching *m, size_t i) {
  double *row = choose_triangle(m->lower, i);
  const double *wide = choose__wide(c, c->chosen[i].row);
  uint32_t dim = c->points->dim;
  for (size_t k = 0; k <= i; k++) {
    c->ops->dot(&row[k], choose__row(c, c->chosen[k].row), 1, dim, wide);
  }
  c->ops->dot(&m->right[i], choose__row(c, c->chosen[i].row), 1, dim, m->mean);
  row[i] += c->how.lambda;
  choose__factor(m->lower, i);
  m->half[i] = m->right[i];
  for (size_t k = 0; k < i; k++) {
    m->half[i] -= row[k] * m->half[k];
  }
  m->half[i] /= row[i];
}

static void matching_solve(struct matching *m, size_t n) {
  memcpy(m->x, m->half, n * sizeof *m->x);
  for (size_t i = n; i-- > 0;) {
    const double *row = choose_triangle(m->lower, i);
    m->x[i] /= row[i];
    for (size_t k = 0; k < i; k++) {
      m->x[k] -= row[k] * m->x[i];
    }
  }
}

static int matching_update(struct choose *c, void *method, size_t chosen) {
  struct matching *m = method;
  const emb_points *points = c->points;
  size_t n = c->picked;
  (void)chosen;
  matching_append(c, m, n - 1);
  if (n == 1) { /* without lambda: not right / (|A|^2 + lambda) */
    double square;
    c->ops->dot(&square, choose__row(c, c->chosen[0].row), 1, points->dim,
                choose__wide(c, c->chosen[0].row));
    m->x[0] = square > 0 ? m->right[0] / square : 0;
  } else {
    matching_solve(m, n);
  }
  memcpy(m->residual, m->mean, points->dim * sizeof *m->residual);
  for (size_t i = 0; i < n; i++) {
    const float *row = choose__row(c, c->chosen[i].row);
    for (uint32_t k = 0; k < points->dim; k++) {
      m->residual[k] -= m->x[i] * (double)row[k];
    }
  }
  c->ops->dot(c->gain, points->vectors, points->n, points->dim, m->residual);
  return EMB_OK;
}

/* Computes the weights of all chosen rows. */
static int matching_weigh(struct choose *c, struct matching *m) {
  size_t n = c->picked;
  uint32_t dim = c->points->dim;
  if (n == 1) {
    return EMB_OK;
  }
  double *matrix = choose__memory(c, n * n, sizeof *matrix);
  if (matrix == NULL) {
    return EMB_NOMEM;
  }
  int rc = EMB_OK;
  for (size_t i = 0; rc == EMB_OK && i < n; i++) {
    const double *wide = choose__wide(c, c->chosen[i].row);
    for (size_t k = 0; k < n; k++) {
      c->ops->dot(&matrix[i * n + k], choose__row(c, c->chosen[k].row), 1, dim,
                  wide);
    }
    matrix[i * n + i] += c->how.lambda;
    c->ops->dot(&m->right[i], choose__row(c, c->chosen[i].row), 1, dim,
                m->mean);
    rc = choose__interrupted(c);
  }
  rc = rc ? rc : choose__nonnegative(c, matrix, m->right, n, m->x);
  for (size_t i = 0; rc == EMB_OK && i < n; i++) {
    c->chosen[i].weight = m->x[i];
  }
  env_posix.release(&env_posix, matrix);
  return rc;
}

static void matching_mean(struct choose *c, struct matching *m) {
  const emb_points *points = c->points;
  for (size_t i = 0; i < points->n; i++) {
    const float *row = choose__row(c, i);
    for (uint32_t k = 0; k < points->dim; k++) {
      m->mean[k] += (double)row[k];
    }
  }
  for (uint32_t k = 0; k < points->dim; k++) {
    m->mean[k] /= (double)points->n;
  }
}

int choose__matching(struct choose *c) {
  struct matching m = {0};
  const emb_points *points = c->points;
  int rc = EMB_NOMEM;
  m.mean = choose__memory(c, points->dim, sizeof *m.mean);
  m.residual = choose__memory(c, points->dim, sizeof *m.residual);
  m.lower = choose__memory(c, c->k * (c->k + 1) / 2, sizeof *m.lower);
  m.right = choose__memory(c, c->k, sizeof *m.right);
  m.half = choose__memory(c, c->k, sizeof *m.half);
  m.x = choose__memory(c, c->k, sizeof *m.x);
  if (m.mean && m.residual && m.lower && m.right && m.half && m.x) {
    matching_mean(c, &m);
    c->ops->dot(c->gain, points->vectors, points->n, points->dim, m.mean);
    rc = choose__greedy_exact(c, matching_update, &m);
  }
  if (rc == EMB_OK) {
    rc = matching_weigh(c, &m);
  }
  void *const memory[] = {m.mean, m.residual, m.lower, m.right, m.half, m.x};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    env_posix.release(&env_posix, memory[i]);
  }
  return rc;
}
