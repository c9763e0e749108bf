/* SPDX-License-Identifier: MIT
**
** bag_valid.c -- each assertion about the rows of each key of a batch of bags
** fires.
*/
#include "death.h"

#include "engine/base/env/env.h"
#include "engine/table/bag/bag.h"

/* Keys 7, 8, 7: two keys, the first with rows 0 and 2. */
TEST(the_rows_of_each_key) {
  const int64_t batch[3] = {7, 8, 7};
  int64_t keys[3] = {7, 8};
  uint32_t times[3] = {2, 1}, ends[3] = {2, 3}, rows[3] = {0, 2, 1};
  uint32_t number[3] = {0, 1};
  struct bag_sums sums = {.n = 3,
                          .distinct = 2,
                          .keys = keys,
                          .times = times,
                          .ends = ends,
                          .rows = rows,
                          .number = number};
  if (!CHECK(group_rows(&sums.groups, &env_posix,
                        &(struct group_batch){.keys = batch, .n = 3},
                        GROUP_FIRST)) ||
      !CHECK(bag_sums_valid(&sums)))
    return;
  CHECK_FIRES(sums.distinct = 4; bag_sums_valid(&sums));
  CHECK_FIRES(times[0] = 0; bag_sums_valid(&sums));
  CHECK_FIRES(ends[0]++; bag_sums_valid(&sums));
  CHECK_FIRES(rows[1] = 1; bag_sums_valid(&sums));
  CHECK_FIRES(rows[0] = 2; rows[1] = 0; bag_sums_valid(&sums));
  CHECK_FIRES(sums.n = 4; bag_sums_valid(&sums));
  CHECK_ALL_FIRED("engine/table/bag/bag_valid.c");
  group_free(&sums.groups, &env_posix);
}
