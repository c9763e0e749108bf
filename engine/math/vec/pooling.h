/* SPDX-License-Identifier: MIT
**
** pooling.h -- sums of rows, with or without weights, for pooled lookups.
**
** Each element is summed separately, in the order of the rows, in float32 and
** without fused operations.  So all forms give the same bits, and so does a sum
** split over several calls.
*/
#ifndef EMB_VEC_POOLING_H
#define EMB_VEC_POOLING_H

#include <stddef.h>

#include "engine/base/debug.h"

/* Contiguous rows.  No pointer need be aligned. */
struct pooling_rows {
  const float *first;
  const float *weights; /* n, or NULL: all 1 */
  size_t n, dim;
  int begins; /* ignores the previous content of the sum */
};

struct pooling_form {
  const char *name; /* "scalar", "avx2", "avx512" */
  /* sum += the rows, each times its weight. */
  void (*add)(float *sum, const struct pooling_rows *rows);
  /* to = sum / by, n elements.  0: some results are not finite. */
  int (*finish)(float *to, const float *sum, float by, size_t n);
};

/* May these rows be added to this sum?  Only in self-checking builds
** (vec_valid.c). */
int pooling_rows_valid(const float *sum, const struct pooling_rows *rows);
/* Returns form i, in the order of vec__form; NULL at the end. */
const struct pooling_form *pooling__form(int i);
/* The widest form that this processor can run. */
const struct pooling_form *pooling_best(void);

#endif
