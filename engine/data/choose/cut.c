/* SPDX-License-Identifier: MIT
**
** cut.c -- graph cut and log determinant: choose rows unlike each other.
**
** LIKENESS  s(a, b) = (1 + cosine) / 2 for both, as in facility.c.
** CUT       gain(j) = lambda * sum over all i of s(i, j)
**                     - 2 * sum over the chosen i of s(i, j)
** DETERMINANT  gain(j) = log det(S + ridge) with j minus the same without j,
**           where S is the matrix of the chosen rows' likenesses.  Here s is a
**           product of vectors of dim + 1 elements (the row, scaled to length
**           sqrt(1/2), and sqrt(1/2)), so the gain is log(ridge + variance(j)),
**           the variance of a Gaussian process with a linear kernel and noise
**           `ridge`, measured at the chosen rows (Rasmussen, Williams, 2006,
**           2.1.2).  The state is therefore a covariance of dim + 1 by dim + 1,
**           and a number for each row; no matrix of all chosen rows.  Modyn's
**           code chooses the row with the greatest s S^-1 s, which is the least
**           new.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

#include <math.h>
#include <string.h>

#define ROOT_HALF 0.70710678118654752440

/* ---- graph cut ----------------------------------------------------------- */

static double cut_cosine(double product, double a, double b) {
  return a * b > 0 ? product / (a * b) : 0;
}

static int cut_update(struct choose *c, void *method, size_t row) {
  const double *lengths = method;
  const emb_points *points = c->points;
  c->ops->dot(c->column, points->vectors, points->n, points->dim,
              choose__wide(c, row));
  for (size_t i = 0; i < points->n; i++) {
    c->gain[i] -= 1 + cut_cosine(c->column[i], lengths[i], lengths[row]);
  }
  return EMB_OK;
}

/* The vectors' lengths.  Free with env_posix.release. */
static double *cut_lengths(struct choose *c) {
  double *lengths = choose__lengths(c);
  for (size_t i = 0; lengths && i < c->points->n; i++) {
    lengths[i] = sqrt(lengths[i]);
  }
  return lengths;
}

int choose__cut(struct choose *c) {
  const emb_points *points = c->points;
  double *lengths = cut_lengths(c);
  if (lengths == NULL) {
    return EMB_NOMEM;
  }
  memset(c->wide, 0, points->dim * sizeof *c->wide);
  for (size_t i = 0; i < points->n; i++) {
    const float *row = choose__row(c, i);
    for (uint32_t k = 0; k < points->dim && lengths[i] > 0; k++) {
      c->wide[k] += (double)row[k] / lengths[i];
    }
  }
  c->ops->dot(c->column, points->vectors, points->n, points->dim, c->wide);
  for (size_t i = 0; i < points->n; i++) {
    double cosines = cut_cosine(c->column[i], lengths[i], 1);
    c->gain[i] = c->how.lambda * ((double)points->n + cosines) / 2;
  }
  int rc = choose__greedy_exact(c, cut_update, lengths);
  env_posix.release(&env_posix, lengths);
  return rc;
}

/* ---- log determinant ----------------------------------------------------- */

struct determinant {
  double *lengths;
  double *covariance; /* size by size */
  double *row, *move; /* size: a row as above; the covariance times the row */
  size_t size;        /* dim + 1 */
};

/* Adds a measurement at a row: covariance -= move * move'.  Each variance falls
** by its part. */
static int determinant_update(struct choose *c, void *method, size_t row) {
  struct determinant *d = method;
  const emb_points *points = c->points;
  const float *from = choose__row(c, row);
  double length = d->lengths[row], noise = c->how.ridge, last;
  for (size_t k = 0; k < points->dim; k++) {
    d->row[k] = length > 0 ? (double)from[k] / length * ROOT_HALF : 0;
  }
  d->row[points->dim] = ROOT_HALF;
  for (size_t i = 0; i < d->size; i++) {
    const double *line = d->covariance + i * d->size;
    d->move[i] = 0;
    for (size_t k = 0; k < d->size; k++) {
      d->move[i] += line[k] * d->row[k];
    }
    noise += d->move[i] * d->row[i];
  }
  for (size_t i = 0; i < d->size; i++) {
    d->move[i] /= sqrt(noise);
  }
  for (size_t i = 0; i < d->size; i++) {
    for (size_t k = 0; k < d->size; k++) {
      d->covariance[i * d->size + k] -= d->move[i] * d->move[k];
    }
  }
  last = d->move[points->dim] * ROOT_HALF;
  c->ops->dot(c->column, points->vectors, points->n, points->dim, d->move);
  for (size_t i = 0; i < points->n; i++) {
    double part = cut_cosine(c->column[i], d->lengths[i], 1) * ROOT_HALF + last;
    c->gain[i] = fmax(c->gain[i] - part * part, 0);
  }
  return EMB_OK;
}

int choose__determinant(struct choose *c) {
  struct determinant d = {.size = (size_t)c->points->dim + 1};
  int rc = EMB_NOMEM;
  d.lengths = cut_lengths(c);
  d.covariance = choose__memory(c, d.size * d.size, sizeof *d.covariance);
  d.row = choose__memory(c, d.size, sizeof *d.row);
  d.move = choose__memory(c, d.size, sizeof *d.move);
  if (d.lengths && d.covariance && d.row && d.move) {
    for (size_t i = 0; i < d.size; i++) {
      d.covariance[i * d.size + i] = 1;
    }
    for (size_t i = 0; i < c->points->n; i++) {
      c->gain[i] = d.lengths[i] > 0 ? 1 : 0.5;
    }
    rc = choose__greedy_exact(c, determinant_update, &d);
  }
  for (size_t i = 0; i < c->picked; i++) {
    c->chosen[i].gain = log(c->how.ridge + c->chosen[i].gain);
  }
  env_posix.release(&env_posix, d.lengths);
  env_posix.release(&env_posix, d.covariance);
  env_posix.release(&env_posix, d.row);
  env_posix.release(&env_posix, d.move);
  return rc;
}
