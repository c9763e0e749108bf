/* SPDX-License-Identifier: MIT
**
** models_valid.c -- proofs that the assertions of ext/data/models fire.
*/
#include "test.h"
#include "death.h"

#include "ext/data/models/models.h"

TEST(the_classes) {
  struct class_count slots[16] = {
      [3] = {.used = 1, .labels = 4, .predicted = 3, .right = 2},
      [9] = {.used = 1, .labels = 1, .predicted = 2, .right = 1}};
  struct f1 f1 = {
      .slots = slots, .n = 2, .capacity = 16, .rows = 5, .right = 3};
  struct f1 none = {0};
  CHECK(ext_f1_valid(&f1) && ext_f1_valid(&none));
  CHECK_FIRES(f1.slots = NULL; ext_f1_valid(&f1));
  CHECK_FIRES(f1.capacity = 15; ext_f1_valid(&f1));
  CHECK_FIRES(f1.n = 9; ext_f1_valid(&f1));
  CHECK_FIRES(f1.n = 1; ext_f1_valid(&f1));
  CHECK_FIRES(slots[3].right = 4; ext_f1_valid(&f1));
  CHECK_FIRES(slots[3].labels = 3; ext_f1_valid(&f1));
  CHECK_FIRES(f1.right = 4; ext_f1_valid(&f1));
  CHECK_ALL_FIRED("ext/data/models/models_valid.c");
}
