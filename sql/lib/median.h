/* SPDX-License-Identifier: MIT
**
** median.h -- what is typical of measurements that others disturb.
*/
#ifndef LIB_MEDIAN_H
#define LIB_MEDIAN_H

#include <stddef.h>

/* Sorts the numbers; the one in the middle. */
double median(double *numbers, size_t count);

#endif
