/* SPDX-License-Identifier: MIT
**
** epoch.c -- tests of engine/base/epoch/: slots, and the oldest session that is
** inside.
*/
#include "test.h"

#include "engine/base/epoch/epoch.h"

/* Memory unlinked while a session is inside must not be reused before it has
** left: the oldest epoch is that session's. */
TEST(oldest_is_of_the_session_inside_longest) {
  struct epoch epoch;
  epoch_init(&epoch, &env_posix);
  struct epoch_slot *first = epoch_join(&epoch), *other = epoch_join(&epoch);
  if (!CHECK(first && other)) {
    return;
  }
  uint64_t before = epoch_oldest(&epoch);
  epoch_enter(&epoch, first);
  uint64_t inside = atomic_load(&first->inside);
  CHECK(inside >= before);
  for (int i = 0; i < 5; i++) {
    CHECK_EQ_INT(epoch_oldest(&epoch), inside);
  }
  epoch_leave(first);
  CHECK(epoch_oldest(&epoch) > inside);
  epoch_enter(&epoch, other);
  CHECK_EQ_INT(epoch_oldest(&epoch), atomic_load(&other->inside));
  epoch_leave(other);
  epoch_part(first);
  epoch_part(other);
  epoch_free(&epoch);
}

TEST(a_slot_is_used_again) {
  struct epoch epoch;
  epoch_init(&epoch, &env_posix);
  struct epoch_slot *first = epoch_join(&epoch), *other = epoch_join(&epoch);
  CHECK(first && other && first != other);
  if (first && other) {
    epoch_part(first);
    struct epoch_slot *again = epoch_join(&epoch);
    CHECK(again == first);
    epoch_part(again);
    epoch_part(other);
  }
  epoch_free(&epoch);
}
