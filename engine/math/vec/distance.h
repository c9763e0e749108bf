/* SPDX-License-Identifier: MIT
**
** distance.h -- how near vectors are to each other: many rows, as they are
** stored, against one query or several.
**
** The functions compute in float32, for finding what may be among the nearest;
** what then counts is emb_distance, in double.  distance_error says by how much
** the two may differ, so that nothing is missed.
**
** Each has a scalar form, which is the reference, and forms for wider registers
** chosen by what the processor has, as in vec.h.
*/
#ifndef EMB_VEC_DISTANCE_H
#define EMB_VEC_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

/* Vectors of dim elements, `stride` bytes from one to the next, which need not
** be aligned; of float32 or float16, as the function's place in its array says
** (EMB_F32, EMB_F16). */
struct distance_rows {
  const void *first;
  size_t stride;
  size_t n;
};

struct distance_ops {
  const char *name; /* "scalar", "avx2", "avx512" */
  /* to[i] = sum of (query - row i)^2 */
  void (*l2[2])(float *to, const float *query, const struct distance_rows *rows,
                size_t dim);
  /* to[i] = sum of query * row i; squares[i] = sum of (row i)^2, unless it is
  ** NULL. */
  void (*dot[2])(float *to, float *squares, const float *query,
                 const struct distance_rows *rows, size_t dim);
  /* Several queries at once, in panels: distance_panel_floats(ops, n, dim)
  ** floats, which panel fills.  to[i * width + q] = product of row i and query
  ** q, where width is n rounded up to whole panels. */
  size_t panel; /* queries in one */
  void (*pack)(float *panels, const float *queries, size_t n, size_t dim);
  void (*tile[2])(float *to, float *squares, const float *panels, size_t width,
                  const struct distance_rows *rows, size_t dim);
};

/* Form i that this processor can run, 0 the scalar one, each wider than the one
** before; NULL at the end. */
const struct distance_ops *distance__form(int i);
/* The widest of them. */
const struct distance_ops *distance_best(void);

static inline size_t distance_width(const struct distance_ops *ops, size_t n) {
  return (n + ops->panel - 1) / ops->panel * ops->panel;
}
static inline size_t distance_panel_floats(const struct distance_ops *ops,
                                           size_t n, size_t dim) {
  return distance_width(ops, n) * dim;
}

/* e such that, in whichever form, l2 and squares are within e times the exact
** sum, and dot and tile within e * |query| * |row| of the exact product; plus
** DISTANCE_UNDERFLOW, for what is too small for all digits of float32.  Exact,
** or as emb_distance computes it (with l2 squared): e has room for both.  A
** result that does not fit into float32, or did not on the way, is infinite or
** NaN.  dim is at most 65536, and elements are finite. */
double distance_error(size_t dim);
#define DISTANCE_UNDERFLOW 0x1p-132

#endif
