/* SPDX-License-Identifier: MIT
**
** sort.h -- sorts an array of any length, and may be told to stop meanwhile;
** sorts pairs of numbers.
*/
#ifndef EMB_SORT_H
#define EMB_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts n elements of `size` bytes as qsort does, in place.  Calls stop(arg)
** now and then, unless stop is NULL; if that returns nonzero, sort_until
** returns 1, and the elements are left in some order.  Otherwise returns 0. */
int sort_until(void *at, size_t n, size_t size,
               int (*compare)(const void *, const void *), int (*stop)(void *),
               void *arg);

/* Sorts n pairs by their first numbers, of which only the lowest `bits` bits
** differ.  Fastest if these are spread evenly, as hashes are; in any case the
** time grows with n alone, and nothing is allocated. */
void sort_pairs(uint64_t (*pairs)[2], size_t n, unsigned bits);

#endif
