/* SPDX-License-Identifier: MIT
**
** heat.h -- matrices of numbers as SVG, one below the other.
*/
#ifndef LIB_HEAT_H
#define LIB_HEAT_H

#include <stddef.h>
#include <stdio.h>

struct heat {
  const char *title, *row_title, *column_title;
  const char *const *row, *const *column; /* their labels */
  size_t rows, columns;
  const double *value; /* rows * columns; NAN: none */
  double low, high;    /* from pale to dark; values beyond are clamped */
};

void heat_write(FILE *out, const struct heat *heats, size_t count);

#endif
