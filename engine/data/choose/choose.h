/* SPDX-License-Identifier: MIT
**
** choose.h -- what a coreset is computed with; private to the folder.
**
** A method has a gain for each row: what the row would add if it were chosen
** next.  The one with the greatest is chosen, of several the first; then the
** gains are others.  Methods differ in how gains are kept:
**
**   exact    (centres.c, cut.c, matching.c) after each choice all gains are
**            brought up to date, in double, for the price of reading all rows
**            once.
**   bounded  (facility.c) a gain costs as much as all rows together, and can
**            only fall: an old one is a bound.  greedy.c computes those anew
**            that can still be the greatest, in float32 and in batches, and
**            compares those that are about as good in double.
*/
#ifndef EMB_CHOOSE_H
#define EMB_CHOOSE_H

#include "engine/data/emb_data.h"
#include "engine/base/err.h"
#include "engine/base/env/env.h"
#include "block.h"

enum { CHOOSE_CENTRES, CHOOSE_CRAIG, CHOOSE_MATCHING, CHOOSE_SUBMODULAR };
enum { CHOOSE_FACILITY, CHOOSE_CUT, CHOOSE_DETERMINANT };
enum { CHOOSE_LAZY, CHOOSE_NAIVE, CHOOSE_STOCHASTIC };

/* What the text of a method says. */
struct choose_method {
  int kind, function, greedy;
  double lambda;  /* of graph cut and GradMatch */
  double ridge;   /* of log determinant */
  double epsilon; /* of stochastic greedy */
  int64_t seed;
  uint64_t batch; /* candidates of one product of matrices */
};
int choose__parse(const char *text, struct choose_method *how, emb_err *err);

struct choose {
  const emb_points *points;
  struct choose_method how;
  const struct choose_ops *ops;
  size_t k, picked;
  emb_chosen *chosen; /* k of them; picked are there */
  double *gain;       /* of each row; of chosen ones, what it was */
  uint8_t *taken;     /* whether it was chosen */
  double *wide;       /* a row in double, */
  double *column;     /* and a number for each row: space for the methods */
  emb_err *err;
};

/* A method of the exact kind: brings the gains up to date after a row was
** chosen. */
typedef int choose_update(struct choose *c, void *method, size_t row);

/* A method of the bounded kind. */
struct choose_bounded {
  void *method;
  /* All gains before any row is chosen. */
  int (*start)(struct choose *c, void *method);
  /* Sets the gains of n <= c->how.batch rows. */
  int (*gains)(struct choose *c, void *method, const uint32_t *rows, size_t n);
  /* The gain in double precision. */
  double (*exact)(struct choose *c, void *method, size_t row);
  choose_update *chose;
  double scale; /* a gain's part of a row is off by some scale * 2^-24 */
};

/* rows.c */
int choose__interrupted(const struct choose *c);
/* NULL and the error when there is no memory; for env_posix.release. */
void *choose__memory(struct choose *c, size_t n, size_t size);
void choose__take(struct choose *c, size_t row, double gain);
const float *choose__row(const struct choose *c, size_t row);
/* The row in double, in c->wide. */
const double *choose__wide(struct choose *c, size_t row);
/* Squared lengths of all rows in double, for env_posix.release. */
double *choose__lengths(struct choose *c);

/* greedy.c */
int choose__greedy_exact(struct choose *c, choose_update *update, void *method);
int choose__greedy_bounded(struct choose *c, struct choose_bounded *bounded);

/* draw.c: of the rows that are not chosen, those that stochastic greedy looks
** at in this round. */
struct choose_draw {
  size_t n;       /* how many at most */
  uint32_t *rows; /* in ascending order */
  uint64_t *words;
  double *numbers;
};
int choose__draw_open(struct choose *c, struct choose_draw *draw);
size_t choose__draw(struct choose *c, struct choose_draw *draw);
void choose__draw_close(struct choose_draw *draw);

/* The methods. */
int choose__centres(struct choose *c);
int choose__facility(struct choose *c);
int choose__cut(struct choose *c);
int choose__determinant(struct choose *c);
int choose__matching(struct choose *c);

/* nonnegative.c: x >= 0 with the least |matrix * x - right|, where matrix is
** symmetric and n by n. */
int choose__nonnegative(struct choose *c, const double *matrix,
                        const double *right, size_t n, double *x);
/* The row i of the lower triangle of a matrix, whose rows lie one after the
** other. */
static inline double *choose_triangle(double *lower, size_t i) {
  return lower + i * (i + 1) / 2;
}
/* Appends a row to a factor by Cholesky: row i has what the matrix has, i + 1
** numbers.  One that depends on those before it is left out: its element of the
** diagonal is infinite, and what is solved with it has 0 there. */
void choose__factor(double *lower, size_t i);

#endif
