/* SPDX-License-Identifier: MIT
**
** random.h -- random numbers that are the same everywhere.
*/
#ifndef LIB_RANDOM_H
#define LIB_RANDOM_H

#include <stdint.h>

/* The next of a stream of random numbers (splitmix64). */
uint64_t random_next(uint64_t *state);

/* In [0, 1). */
double random_unit(uint64_t *state);

#endif
