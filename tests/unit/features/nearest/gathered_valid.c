/* SPDX-License-Identifier: MIT
**
** gathered_valid.c -- each assertion of the gathered rows' self-check fires,
** and the preconditions of gathered.c.
*/
#include "test.h"
#include "death.h"

#include "engine/emb.h"
#include "engine/features/nearest/gathered.h"

static struct gathered g;

static void add(int64_t key, float x) {
  gathered_vector(&g)[0] = x;
  gathered_vector(&g)[1] = 2;
  gathered__add(&g, key, 10);
}

/* Two rows: one of three records, one of two. */
static void filled(void) {
  const struct gathered_form form = {3, 6, 2, 0, 8};
  CHECK_EQ_INT(gathered__init(&g, &env_posix, &form), EMB_OK);
  add(5, 1);
  add(7, 3);
  add(4, 1);
  add(6, 1);
  add(8, 3);
  CHECK_EQ_INT(g.rows, 2);
  CHECK_EQ_INT(g.records, 5);
  CHECK(gathered_valid(&g));
}

TEST(lists) {
  filled();
  CHECK_FIRES(g.rows = 4; gathered_valid(&g));
  CHECK_FIRES(g.records = 7; gathered_valid(&g));
  CHECK_FIRES(g.list[0].first = 6; gathered_valid(&g));
  CHECK_FIRES(g.row_of[0] = 1; gathered_valid(&g));
  CHECK_FIRES(g.list[0].is_sorted = 0; g.keys[0] = 3; gathered_valid(&g));
  CHECK_FIRES(g.keys[0] = 9; gathered_valid(&g));
  CHECK_FIRES(g.keys[0] = 6; g.keys[3] = 5; g.list[0].last = 1;
              gathered_valid(&g));
  CHECK_FIRES(g.records = 6; gathered_valid(&g));
  gathered__free(&g, &env_posix);
}

TEST(calls) {
  filled();
  add(1, 9);
  CHECK_FIRES(add(2, 9));
  CHECK_FIRES(gathered__again(&g, 2, 10));
  CHECK_FIRES(gathered__drop(&g, 4));
  gathered__drop(&g, 1);
  CHECK_EQ_INT(g.rows, 2);
  CHECK_EQ_INT(g.records, 3);
  CHECK(gathered_valid(&g));
  CHECK_ALL_FIRED("engine/features/nearest/gathered_valid.c");
  gathered__free(&g, &env_posix);
}
