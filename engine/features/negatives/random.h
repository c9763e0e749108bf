/* SPDX-License-Identifier: MIT
**
** random.h -- the random numbers of one call, from its seed: a mixed counter
** (as in splitmix64), so that they are the same on every machine.
*/
#ifndef EMB_NEGATIVES_RANDOM_H
#define EMB_NEGATIVES_RANDOM_H

#include "engine/base/hash.h"

static inline uint64_t sample_random(uint64_t *state) {
  *state += UINT64_C(0x9E3779B97F4A7C15);
  return hash_mix(*state);
}

/* Returns a number below n, which must not be 0, each with exactly the same
** probability (Lemire, Fast Random Integer Generation in an Interval, 2019). */
static inline uint64_t sample_below(uint64_t *state, uint64_t n) {
  unsigned __int128 product = (unsigned __int128)sample_random(state) * n;
  if ((uint64_t)product < n) {
    uint64_t least = (0 - n) % n;
    while ((uint64_t)product < least) {
      product = (unsigned __int128)sample_random(state) * n;
    }
  }
  return (uint64_t)(product >> 64);
}

/* Returns a number from 0 (included) to 1 (excluded). */
static inline double sample_unit(uint64_t *state) {
  return (double)(sample_random(state) >> 11) * 0x1p-53;
}

#endif
