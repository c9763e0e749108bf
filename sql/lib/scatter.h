/* SPDX-License-Identifier: MIT
**
** scatter.h -- points with names as SVG, one picture below the other.
*/
#ifndef LIB_SCATTER_H
#define LIB_SCATTER_H

#include <stddef.h>
#include <stdio.h>

struct scatter {
  const char *title, *x_title;
  size_t count;
  const struct scatter_point {
    const char *name;
    double x, y; /* x above 0: the scale is logarithmic; NAN: no such point */
  } * point;
};

void scatter_write(FILE *out, const struct scatter *scatters, size_t count);

#endif
