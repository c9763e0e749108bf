/* SPDX-License-Identifier: MIT
**
** pick.c -- every form of pick against its definition.
*/
#include "test.h"

#include "engine/math/vec/pick.h"

#include <math.h>

enum { MOST = 100 };

static float some_float(void) {
  static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e38f};
  uint64_t r = test_random();
  return r % 8 == 0 ? odd[r / 8 % 6] : (float)((int)(r / 8 % 21) - 10) / 4;
}

TEST(forms_agree) {
  for (unsigned round = 0; round < 20000; round++) {
    float results[MOST], least[MOST];
    size_t n = test_random() % MOST, expected = 0;
    float factor = some_float(), add = some_float();
    uint32_t want[MOST], got[MOST];
    for (size_t i = 0; i < n; i++) {
      results[i] = some_float();
      least[i] = some_float();
      if (results[i] * factor < least[i] + add)
        continue;
      want[expected++] = (uint32_t)i;
    }
    for (int form = 0; pick__form(form); form++) {
      size_t picked = pick__form(form)(got, results, least, n, factor, add);
      if (!CHECK_EQ_INT(picked, expected))
        return;
      CHECK(memcmp(got, want, picked * sizeof *got) == 0);
    }
  }
}
