/* SPDX-License-Identifier: MIT
**
** choose.h -- the parts a coreset is computed with; private to the folder.
**
** A method has a gain for each row: what the row would add if it were chosen
** next.  The row with the greatest gain is chosen, the first one in a tie; then
** the gains change.  Methods differ in how they maintain gains:
**
**   exact    (centres.c, cut.c, matching.c) after each choice all gains are
**            updated, in double, at the cost of reading all rows once.
**   bounded  (facility.c) one gain costs as much as reading all rows, and gains
**            only fall, so an old gain is a bound.  greedy.c recomputes, in
**            float32 and in batches, only gains that can still be the greatest,
**            and compares gains close to the best in double.
*/
#ifndef EMB_CHOOSE_H
#define EMB_CHOOSE_H

#include "engine/data/emb_data.h"
#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "engine/base/env/env.h"
#include "block.h"

enum { CHOOSE_CENTRES, CHOOSE_CRAIG, CHOOSE_MATCHING, CHOOSE_SUBMODULAR };
enum { CHOOSE_FACILITY, CHOOSE_CUT, CHOOSE_DETERMINANT };
enum { CHOOSE_LAZY, CHOOSE_NAIVE, CHOOSE_STOCHASTIC };

/* A parsed method. */
struct choose_method {
  int kind, function, greedy;
  double lambda;  /* of graph cut and GradMatch */
  double ridge;   /* of log determinant */
  double epsilon; /* of stochastic greedy */
  int64_t seed;
  uint64_t batch; /* candidates in one matrix product */
};
int choose__parse(const char *text, struct choose_method *how, emb_err *err);
/* Only in self-checking builds [choose_valid.c]. */
int choose__method_valid(const struct choose_method *how);

struct choose {
  const emb_points *points;
  struct choose_method how;
  const struct choose_ops *ops;
  size_t k, picked;
  emb_chosen *chosen; /* room for k; `picked` are filled in */
  double *gain;       /* of each row; of a chosen row, its gain when chosen */
  uint8_t *taken;     /* of each row: it was chosen */
  double *wide;       /* a row in double, */
  double *column;     /* and a number for each row: scratch for the methods */
  emb_err *err;
};

/* Only in self-checking builds [choose_valid.c]. */
int choose__valid(const struct choose *c);

/* A method of the exact kind: updates the gains after a row was chosen. */
typedef int choose_update(struct choose *c, void *method, size_t row);

/* A method of the bounded kind. */
struct choose_bounded {
  void *method;
  /* Sets all gains before any row is chosen. */
  int (*start)(struct choose *c, void *method);
  /* Sets the gains of n <= c->how.batch rows. */
  int (*gains)(struct choose *c, void *method, const uint32_t *rows, size_t n);
  /* The gain in double precision. */
  double (*exact)(struct choose *c, void *method, size_t row);
  choose_update *chose;
  double scale; /* a row's part in a gain is off by about scale * 2^-24 */
};

/* rows.c */
int choose__interrupted(const struct choose *c);
/* NULL, with the error set, if out of memory.  Free with env_posix.release. */
void *choose__memory(struct choose *c, size_t n, size_t size);
void choose__take(struct choose *c, size_t row, double gain);
const float *choose__row(const struct choose *c, size_t row);
/* The row in double, in c->wide. */
const double *choose__wide(struct choose *c, size_t row);
/* Squared lengths of all rows in double.  Free with env_posix.release. */
double *choose__lengths(struct choose *c);

/* greedy.c */
int choose__greedy_exact(struct choose *c, choose_update *update, void *method);
int choose__greedy_bounded(struct choose *c, struct choose_bounded *bounded);

/* draw.c: the unchosen rows that stochastic greedy considers in this round. */
struct choose_draw {
  size_t n;       /* at most this number of rows */
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
/* Row i of the lower triangle of a matrix, whose rows are stored one after the
** other. */
static inline double *choose_triangle(double *lower, size_t i) {
  return lower + i * (i + 1) / 2;
}
/* Appends a row to a Cholesky factor; row i holds the row of the matrix, i + 1
** numbers.  A row that depends on those before it is left out: its diagonal
** element is set to infinity, so solutions have 0 there. */
void choose__factor(double *lower, size_t i);

#endif
