/* SPDX-License-Identifier: MIT
**
** tune_valid.c -- each assertion about tuned numbers fires.
*/
#include "death.h"

#include "engine/base/process/tune.h"

TEST(broken_numbers) {
  static struct tune tune;
  tune_init(&tune, 8, 64, 1, 4);
  for (int i = 0; i < 2; i++)
    tune_batch(&tune, 1000, 1, 0);
  CHECK(tune_valid(&tune));
  CHECK_FIRES(atomic_store(&tune.depth, 65); tune_valid(&tune));
  CHECK_FIRES(atomic_store(&tune.depth, 7); tune_batch(&tune, 1, 1, 0));
  CHECK_FIRES(atomic_store(&tune.workers, 5); tune_valid(&tune));
  CHECK_FIRES(tune.streak = TUNE_STREAK; tune_valid(&tune));
  CHECK_FIRES(tune.streak = -TUNE_STREAK; tune_valid(&tune));
  CHECK_ALL_FIRED("engine/base/process/tune_valid.c");
}
