/* SPDX-License-Identifier: MIT
**
** median.h -- the median of measurements, which is robust against disturbances.
*/
#ifndef LIB_MEDIAN_H
#define LIB_MEDIAN_H

#include <stddef.h>

/* Sorts the numbers and returns the middle one. */
double median(double *numbers, size_t count);

#endif
