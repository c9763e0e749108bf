/* SPDX-License-Identifier: MIT
**
** quant_help.h -- the largest error of a quantised element.
*/
#ifndef EMB_TEST_QUANT_HELP_H
#define EMB_TEST_QUANT_HELP_H

#include "engine/math/vec/quant.h"

#include <math.h>

/* In a row (for QUANT_INT4: in a group) whose elements are all between low
** and high, no element differs by more than this after decoding; see the head
** of engine/math/vec/quant.c. */
static inline double quant_error_max(enum quant_type type, float low,
                                     float high) {
  double magnitude = fmax(fabs((double)low), fabs((double)high));
  double levels = type == QUANT_INT8 ? 255 : 15;
  double step = ((double)high - (double)low) / levels / 2;
  if (type == QUANT_F32) {
    return 0;
  }
  if (type == QUANT_F16) {
    return fmax(magnitude * 0x1p-11, 0x1p-25);
  }
  return fmax(step * (1 + 0x1p-40), levels * 0x1p-149) +
         fmax(magnitude * 0x1p-24, 0x1p-150);
}

#endif
