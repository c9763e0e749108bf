/* SPDX-License-Identifier: MIT
**
** median.c -- the median of measurements; see median.h.
*/
#include "median.h"

#include <stdlib.h>

static int compare_numbers(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

double median(double *numbers, size_t count) {
  qsort(numbers, count, sizeof(*numbers), compare_numbers);
  return numbers[count / 2];
}
