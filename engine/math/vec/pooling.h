/* SPDX-License-Identifier: MIT
**
** pooling.h -- sums of rows, with weights or without, for pooled lookups.
**
** Each element is summed by itself, in the order of the rows, in float32 and
** without fused operations: so all forms give the same bits, and so do calls
** that give some of the rows each.
*/
#ifndef EMB_VEC_POOLING_H
#define EMB_VEC_POOLING_H

#include <stddef.h>

/* Rows one after the other.  No pointer need be aligned. */
struct pooling_rows {
  const float *first;
  const float *weights; /* n, or NULL: each counts once */
  size_t n, dim;
  int begins; /* what was in the sum does not count */
};

struct pooling_form {
  const char *name; /* "scalar", "avx2", "avx512" */
  /* sum += the rows, each times its weight. */
  void (*add)(float *sum, const struct pooling_rows *rows);
  /* to = sum / by, n elements.  0: some of them are not finite. */
  int (*finish)(float *to, const float *sum, float by, size_t n);
};

/* Form i, in the order of vec__form; NULL at the end. */
const struct pooling_form *pooling__form(int i);
/* The widest of them. */
const struct pooling_form *pooling_best(void);

#endif
