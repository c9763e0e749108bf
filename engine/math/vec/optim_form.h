/* SPDX-License-Identifier: MIT
**
** optim_form.h -- the interface between optim.c, which works on rows, and the
** forms of the arithmetic, which work on elements.
*/
#ifndef EMB_VEC_OPTIM_FORM_H
#define EMB_VEC_OPTIM_FORM_H

#include "optim.h"

/* Maximum state: single floats, and arrays of dim elements. */
enum { OPTIM_HEADS = 2, OPTIM_ARRAYS = 3 };

/* Some elements of a row. */
struct optim_part {
  const struct optim_factors *factors;
  size_t n;
  float *w, *state[OPTIM_ARRAYS];
  const float *g, *read; /* read: NULL without compensation */
  /* The old values are saved here, so that a step can be undone. */
  float *old_w, *old_state[OPTIM_ARRAYS];
};

enum optim_sum {
  OPTIM_SUM_RAW,   /* gradients before clip_norm */
  OPTIM_SUM_FINAL, /* gradients as the optimizer sees them */
  OPTIM_SUM_GROUP, /* z of group_ftrl after the step */
};

struct optim__form {
  const char *name;
  /* One step of all elements; 1: some value is not finite.  Variant 1 of
  ** momentum is nesterov; variant 1 of rmsprop has momentum. */
  int (*apply)(uint32_t kind, int variant, const struct optim_part *part);
  /* Returns the sum of the squares; changes nothing. */
  double (*sum)(enum optim_sum what, const struct optim_part *part);
};

/* Form i, in the order of vec__form; NULL at the end. */
const struct optim__form *optim__form(int i);

#endif
