/* SPDX-License-Identifier: MIT
**
** chart.h -- line charts as SVG.
*/
#ifndef LIB_CHART_H
#define LIB_CHART_H

#include <stddef.h>
#include <stdio.h>

enum { SERIES_MAX = 8 };

struct chart {
  const char *title, *x_title;
  const char *const *x; /* `points` labels, at equal distances */
  size_t points;
  int from_zero; /* the lowest line of the grid is 0 */
  size_t count;  /* of series */
  struct {
    const char *name;
    const double *y; /* `points`; NAN: none */
  } series[SERIES_MAX];
};

/* Charts one below the other. */
void chart_write(FILE *out, const struct chart *charts, size_t count);

#endif
