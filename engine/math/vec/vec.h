/* SPDX-License-Identifier: MIT
**
** vec.h -- arithmetic on stored vectors: float32 at the interface, float32 or
** float16 in the record.
**
** Each function has a scalar form, which is the reference, and forms for wider
** registers, chosen once per process by the processor's features.
*/
#ifndef EMB_VEC_H
#define EMB_VEC_H

#include <stddef.h>
#include <stdint.h>

struct vec_ops {
  const char *name; /* "scalar", "avx2", "avx512" */
  uint32_t width;   /* bytes of a register; 0: scalar */
  /* float16 <-> float32, round to nearest even; a finite float32 beyond
  ** 65504 becomes infinite. */
  void (*to_f16)(uint16_t *to, const float *from, size_t n);
  void (*from_f16)(float *to, const uint16_t *from, size_t n);
  /* Index of the first element that is not finite, or n. */
  size_t (*find_bad)(const float *x, size_t n);
  /* to = a + b */
  void (*add)(float *to, const float *a, const float *b, size_t n);
};

extern const struct vec_ops vec_scalar;
/* Returns the i-th form that this processor can run, in increasing width, form
** 0 being the scalar one; NULL at the end. */
const struct vec_ops *vec__form(int i);
/* The widest form that this processor can run. */
const struct vec_ops *vec_best(void);

#endif
