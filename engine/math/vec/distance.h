/* SPDX-License-Identifier: MIT
**
** distance.h -- distances between vectors: many rows, in their stored format,
** against one query or several.
**
** The functions compute in float32, to find candidates for the nearest rows;
** emb_distance, in double, then decides.  distance_error bounds the difference
** between the two, so that no row is missed.
**
** Each function has a scalar form, which is the reference, and forms for wider
** registers, chosen by the processor's features, as in vec.h.
*/
#ifndef EMB_VEC_DISTANCE_H
#define EMB_VEC_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/debug.h"

/* Vectors of dim elements, `stride` bytes apart; they need not be aligned.
** float32 or float16, by the function's index in its array (EMB_F32,
** EMB_F16).  The last fields are for l2 and dot, which read the rows in
** order. */
struct distance_rows {
  const void *first;
  size_t stride;
  size_t n;
  size_t ahead;    /* memory this many bytes after each row is prefetched; 0:
                      none is */
  uint64_t *words; /* NULL, or n: of each row the word `back` bytes before it,
                      at a multiple of 8, which is read first (acquire) */
  size_t back;
};

/* Are these rows of dim elements of `element` bytes?  Only in self-checking
** builds (vec_valid.c). */
int distance_rows_valid(const struct distance_rows *rows, size_t element,
                        size_t dim);

struct distance_ops {
  const char *name; /* "scalar", "avx2", "avx512" */
  /* to[i] = sum of (query - row i)^2 */
  void (*l2[2])(float *to, const float *query, const struct distance_rows *rows,
                size_t dim);
  /* to[i] = sum of query * row i; squares[i] = sum of (row i)^2, unless squares
  ** is NULL. */
  void (*dot[2])(float *to, float *squares, const float *query,
                 const struct distance_rows *rows, size_t dim);
  /* Several queries at once, in panels: distance_panel_floats(ops, n, dim)
  ** floats, which pack fills.  to[i * width + q] = product of row i and query
  ** q, where width is n rounded up to whole panels. */
  size_t panel; /* queries per panel */
  void (*pack)(float *panels, const float *queries, size_t n, size_t dim);
  void (*tile[2])(float *to, float *squares, const float *panels, size_t width,
                  const struct distance_rows *rows, size_t dim);
};

/* Returns the i-th form that this processor can run, in increasing width, form
** 0 being the scalar one; NULL at the end. */
const struct distance_ops *distance__form(int i);
/* The widest form that this processor can run. */
const struct distance_ops *distance_best(void);

static inline size_t distance_width(const struct distance_ops *ops, size_t n) {
  return (n + ops->panel - 1) / ops->panel * ops->panel;
}
static inline size_t distance_panel_floats(const struct distance_ops *ops,
                                           size_t n, size_t dim) {
  return distance_width(ops, n) * dim;
}

/* Returns e such that, in every form, l2 and squares are within e times the
** exact sum, and dot and tile within e * |query| * |row| of the exact product;
** plus DISTANCE_UNDERFLOW, for values too small for all digits of float32.  e
** also covers the rounding of emb_distance (with l2 squared) in place of the
** exact value.  A result that overflows float32, even in between, is infinite
** or NaN.  dim is at most 65536, and elements are finite. */
double distance_error(size_t dim);
#define DISTANCE_UNDERFLOW 0x1p-132

#endif
