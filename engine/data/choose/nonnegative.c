/* SPDX-License-Identifier: MIT
**
** nonnegative.c -- finds the x >= 0 with the least |M x - r|, M symmetric.
**
** Kim, Park, "Fast nonnegative matrix factorization: an active-set-like method
** and comparisons" (2011): block principal pivoting.  Variables are free or 0.
** A round solves for the free variables; those whose solution is below 0 become
** 0, and those at 0 that would lower the error become free, all together.  If
** the number of these wrong variables has not fallen for three rounds, only the
** last of them is changed, which terminates (Murty's rule).  When none is
** wrong, the minimum is found.  All variables are free at first, as most are at
** the end.  Rounding could make this loop endless, so the number of rounds is
** limited.
*/
#include "choose.h"

#include <math.h>
#include <string.h>

enum { PIVOT_TRIES = 3, PIVOT_MOVES = 4 };
#define PIVOT_LOOK (UINT64_C(1) << 24) /* products between interrupt checks */

struct pivot {
  struct choose *c;
  uint64_t done; /* products since the last interrupt check */
  size_t n;
  const double *matrix, *right;
  double *square; /* M M, n by n */
  double *lower;  /* factor of the free variables' part */
  double *x, *part;
  double *rest, *slope; /* r - M x, and -M times rest */
  size_t *free;         /* the free variables */
  uint8_t *fixed;       /* of each variable: it is fixed at 0 */
};

static int pivot_look(struct pivot *p, size_t rows, size_t columns) {
  p->done += (uint64_t)rows * columns;
  if (p->done < PIVOT_LOOK) {
    return EMB_OK;
  }
  p->done = 0;
  return choose__interrupted(p->c);
}

void choose__factor(double *lower, size_t i) {
  double *row = choose_triangle(lower, i), diagonal = row[i];
  for (size_t k = 0; k < i; k++) {
    const double *other = choose_triangle(lower, k);
    double sum = row[k];
    for (size_t m = 0; m < k; m++) {
      sum -= row[m] * other[m];
    }
    row[k] = sum / other[k];
    diagonal -= row[k] * row[k];
  }
  row[i] = diagonal > 1e-13 * row[i] ? sqrt(diagonal) : INFINITY;
}

/* Computes rest and slope of x. */
static void pivot_slope(struct pivot *p) {
  for (size_t i = 0; i < p->n; i++) {
    p->rest[i] = p->right[i];
    for (size_t k = 0; k < p->n; k++) {
      p->rest[i] -= p->matrix[i * p->n + k] * p->x[k];
    }
  }
  for (size_t i = 0; i < p->n; i++) {
    p->slope[i] = 0;
    for (size_t k = 0; k < p->n; k++) {
      p->slope[i] -= p->matrix[i * p->n + k] * p->rest[k];
    }
  }
}

/* Adds to the n free variables the factor's solution for `right`. */
static void pivot_move(struct pivot *p, size_t n, const double *right) {
  for (size_t i = 0; i < n; i++) {
    const double *row = choose_triangle(p->lower, i);
    p->part[i] = right[p->free[i]];
    for (size_t k = 0; k < i; k++) {
      p->part[i] -= row[k] * p->part[k];
    }
    p->part[i] /= row[i];
  }
  for (size_t i = n; i-- > 0;) {
    const double *row = choose_triangle(p->lower, i);
    p->part[i] /= row[i];
    for (size_t k = 0; k < i; k++) {
      p->part[k] -= row[k] * p->part[i];
    }
    p->x[p->free[i]] += p->part[i];
  }
}

/* Solves for the free variables, with corrections (Bjorck, "Stability analysis
** of the method of seminormal equations", 1987), and computes all slopes. */
static int pivot_solve(struct pivot *p) {
  size_t n = 0;
  int rc = EMB_OK;
  for (size_t i = 0; i < p->n; i++) {
    p->x[i] = 0;
    if (!p->fixed[i]) {
      p->free[n++] = i;
    }
  }
  for (size_t i = 0; !rc && i < n; i++) {
    double *row = choose_triangle(p->lower, i);
    for (size_t k = 0; k <= i; k++) {
      row[k] = p->square[p->free[i] * p->n + p->free[k]];
    }
    choose__factor(p->lower, i);
    rc = pivot_look(p, i, i);
  }
  for (int i = 0; !rc && i < PIVOT_MOVES; i++) {
    pivot_slope(p);
    for (size_t k = 0; k < p->n; k++) {
      p->slope[k] = -p->slope[k];
    }
    pivot_move(p, n, p->slope);
    rc = pivot_look(p, 3 * p->n, p->n);
  }
  if (!rc) {
    pivot_slope(p);
  }
  return rc;
}

/* If all variables are free, the problem is M x = r: solving with M itself
** keeps all digits, with M M half of them.  *is_plain: no x is below 0. */
static int pivot_plain(struct pivot *p, int *is_plain) {
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < p->n; i++) {
    p->free[i] = i;
    memcpy(choose_triangle(p->lower, i), p->matrix + i * p->n,
           (i + 1) * sizeof *p->lower);
    choose__factor(p->lower, i);
    rc = pivot_look(p, i, i);
  }
  for (int move = 0; !rc && move < PIVOT_MOVES; move++) {
    pivot_slope(p);
    pivot_move(p, p->n, p->rest);
    rc = pivot_look(p, 3 * p->n, p->n);
  }
  size_t i = 0;
  while (i < p->n && p->x[i] >= 0) {
    i++;
  }
  *is_plain = i == p->n;
  return rc;
}

/* A slope that is below 0 only by rounding is not wrong. */
static int pivot_is_wrong(const struct pivot *p, size_t i) {
  double all = 0;
  for (size_t k = 0; p->fixed[i] && k < p->n; k++) {
    all += fabs(p->matrix[i * p->n + k] * p->rest[k]);
  }
  return p->fixed[i] ? p->slope[i] < -1e-12 * all : p->x[i] < 0;
}

static int pivot_run(struct pivot *p) {
  size_t fewest = p->n + 1, tries = PIVOT_TRIES, rounds = 3 * p->n + 100;
  int rc = EMB_OK;
  while ((rc = choose__interrupted(p->c)) == EMB_OK) {
    size_t wrong = 0, last = 0;
    rc = pivot_solve(p);
    if (rc) {
      break;
    }
    for (size_t i = 0; i < p->n; i++) {
      if (pivot_is_wrong(p, i)) {
        wrong++;
        last = i;
      }
    }
    if (wrong == 0 || rounds-- == 0) {
      break;
    }
    int all = wrong < fewest || tries > 0;
    tries = wrong < fewest ? PIVOT_TRIES : tries - (tries > 0);
    fewest = wrong < fewest ? wrong : fewest;
    for (size_t i = all ? 0 : last; i <= last; i++) {
      p->fixed[i] ^= (uint8_t)pivot_is_wrong(p, i);
    }
  }
  for (size_t i = 0; i < p->n; i++) {
    p->x[i] = fmax(p->x[i], 0);
  }
  return rc;
}

static int pivot_start(struct pivot *p) {
  size_t n = p->n;
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < n; i++) {
    double *to = p->square + i * n;
    for (size_t m = 0; m < n; m++) {
      const double *row = p->matrix + m * n;
      for (size_t k = 0; k < n; k++) {
        to[k] += p->matrix[i * n + m] * row[k];
      }
    }
    rc = pivot_look(p, n, n);
  }
  return rc;
}

int choose__nonnegative(struct choose *c, const double *matrix,
                        const double *right, size_t n, double *x) {
  struct pivot p = {.c = c, .n = n, .matrix = matrix, .right = right, .x = x};
  int rc = EMB_NOMEM, is_plain = 0;
  p.square = choose__memory(c, n * n, sizeof *p.square);
  p.lower = choose__memory(c, n * (n + 1) / 2, sizeof *p.lower);
  p.part = choose__memory(c, n, sizeof *p.part);
  p.rest = choose__memory(c, n, sizeof *p.rest);
  p.slope = choose__memory(c, n, sizeof *p.slope);
  p.free = choose__memory(c, n, sizeof *p.free);
  p.fixed = choose__memory(c, n, sizeof *p.fixed);
  if (p.square && p.lower && p.part && p.rest && p.slope && p.free && p.fixed) {
    memset(x, 0, n * sizeof *x);
    rc = pivot_plain(&p, &is_plain);
    if (!rc && !is_plain) {
      rc = pivot_start(&p);
      rc = rc ? rc : pivot_run(&p);
    }
  }
  void *const memory[] = {p.square, p.lower, p.part, p.rest,
                          p.slope,  p.free,  p.fixed};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
    env_posix.release(&env_posix, memory[i]);
  }
  return rc;
}
