/* SPDX-License-Identifier: MIT
**
** random.h -- random numbers that are the same everywhere.
*/
#ifndef LIB_RANDOM_H
#define LIB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The next of a stream of random numbers (splitmix64). */
uint64_t random_next(uint64_t *state);

/* In [0, 1). */
double random_unit(uint64_t *state);

/* Normal, of mean 0 and deviation 1. */
float random_normal(uint64_t *state);

/* In 0 .. count-1. */
size_t random_below(uint64_t *state, size_t count);

/* Shuffles a list. */
void random_shuffle(uint64_t *state, uint32_t *list, size_t count);

#endif
