/* SPDX-License-Identifier: MIT
**
** chance_help.c -- see chance_help.h.
*/
#include "chance_help.h"

#include <math.h>

#include "test.h"

static double limit_of(double freedom) {
  const double z = 5.9978; /* of the normal distribution, 1 - 1e-9 */
  double a = 2 / (9 * freedom), root = 1 - a + z * sqrt(a);
  return freedom * root * root * root;
}

double chance_ratio(const uint64_t *counts, const double *expected, size_t n) {
  double sum = 0, count = 0, should = 0;
  size_t cells = 0;
  for (size_t i = 0; i < n; i++) {
    count += (double)counts[i];
    should += expected[i];
    if (should >= 10 || i + 1 == n) {
      if (should > 0) {
        sum += (count - should) * (count - should) / should;
        cells++;
      } else if (count > 0)
        return INFINITY;
      count = should = 0;
    }
  }
  return cells > 1 ? sum / limit_of((double)cells - 1) : 0;
}

float chance_normal(void) {
  double u = ((double)(test_random() >> 11) + 1) * 0x1p-53;
  double v = (double)(test_random() >> 11) * 0x1p-53;
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}
