/* SPDX-License-Identifier: MIT
**
** block.h -- the kernels of the methods: a block of pairs of vectors at a time,
** and one vector against all rows.
**
** BLOCK     The products of `n` rows with `columns` others, as computed by
**           vec/distance.h: tile[i * width + c], where width is columns rounded
**           up.  They are turned into squared distances in place, and into sums
**           of these.  Blocks of BLOCK_ROWS by at most BLOCK_COLUMNS stay in
**           the cache, so a matrix of all pairs never exists.
** EXACT     A squared distance computed from a product, |x|^2 + |y|^2 - 2xy,
**           loses its digits when the two vectors are close: distances that are
**           small against |x|^2 + |y|^2 are computed again, by differences.
**           Sums over rows are float32 within a block and double beyond it.
**           Ties between candidates are decided by `dot` and `l2`, in double.
** FORMS     As in vec/vec.h: scalar, the reference; AVX2; and AVX-512.
*/
#ifndef EMB_CHOOSE_BLOCK_H
#define EMB_CHOOSE_BLOCK_H

#include "engine/math/vec/distance.h"

enum { BLOCK_ROWS = 96, BLOCK_COLUMNS = 256 };

struct choose_block {
  float *tile;           /* products or squared distances */
  size_t n;              /* rows, at most BLOCK_ROWS */
  size_t columns, width; /* width is a multiple of the widest registers */
  uint32_t dim;
  const float *rows, *others;           /* n and `columns` vectors */
  const float *squares, *other_squares; /* their squared lengths */
  float pad;          /* the squared distance of columns beyond `columns` */
  const float *worth; /* of each row: its value so far */
};

struct choose_ops {
  const char *name; /* "scalar", "avx2", "avx512" */
  /* Products to squared distances, none below 0. */
  void (*squared)(struct choose_block *block);
  /* to[c] += sum over the rows of max(0, product - worth) */
  void (*gain)(double *to, const struct choose_block *block);
  /* to[c] += sum over the rows of max(0, worth - distance), of squared ones */
  void (*nearer)(double *to, const struct choose_block *block);
  /* to[c] += sum over the rows of the distance; row[i] += sum over the columns,
  ** unless it is NULL */
  void (*far)(double *to, double *row, const struct choose_block *block);
  /* Sum over all pairs of exp(-gamma * squared distance). */
  double (*kernel)(const struct choose_block *block, double gamma);
  /* to[i] = sum over the elements of row i * query, and of their squared
  ** difference, in double. */
  void (*dot)(double *to, const float *rows, size_t n, uint32_t dim,
              const double *query);
  void (*l2)(double *to, const float *rows, size_t n, uint32_t dim,
             const double *query);
};

/* Only in self-checking builds [choose_valid.c]. */
int choose__block_valid(const struct choose_block *block);

/* Form i of those this processor can run; 0 is scalar, and each is wider than
** the one before.  NULL at the end. */
const struct choose_ops *choose__form(int i);
/* The widest of them. */
const struct choose_ops *choose__best(void);

#endif
