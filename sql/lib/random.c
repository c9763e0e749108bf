/* SPDX-License-Identifier: MIT
**
** random.c -- random numbers; see random.h.
*/
#include "random.h"

uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

double random_unit(uint64_t *state) {
  return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* The sum of twelve uniform numbers: no function of libm, so the same on every
** machine. */
float random_normal(uint64_t *state) {
  uint32_t sum = 0;
  for (int i = 0; i < 3; i++) {
    for (uint64_t bits = random_next(state); bits; bits >>= 16) {
      sum += bits & 0xffff;
    }
  }
  return (float)(((double)sum + 6) * 0x1p-16 - 6);
}

/* The upper half of a product: some numbers are a little likelier, which does
** not matter for lists as short as those here. */
size_t random_below(uint64_t *state, size_t count) {
  return (size_t)((random_next(state) >> 32) * (uint64_t)count >> 32);
}

void random_shuffle(uint64_t *state, uint32_t *list, size_t count) {
  for (size_t i = count; i > 1; i--) {
    size_t at = random_below(state, i);
    uint32_t other = list[at];
    list[at] = list[i - 1];
    list[i - 1] = other;
  }
}
