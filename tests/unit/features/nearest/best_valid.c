/* SPDX-License-Identifier: MIT
**
** best_valid.c -- each assertion of engine/features/nearest/best_valid.c fires,
** and the preconditions of best.c, candidates.c and ask.c.
*/
#include "test.h"
#include "death.h"

#include "engine/features/nearest/candidates.h"

enum { QUERIES = 2, K = 4 };

static struct best best;

/* Heaps with records; one is full. */
static void filled(void) {
  const struct best_form form = {QUERIES, K, 100, 3, 1};
  const float row[3] = {1, 2, 3};
  CHECK_EQ_INT(best__init(&best, &env_posix, &form), EMB_OK);
  for (int64_t key = 0; key < 3 * K; key++) {
    best__keep(&best, best__offer(&best, 0, key, (double)(key * 7 % 10)), row,
               7);
  }
  best__keep(&best, best__offer(&best, 1, 5, 9), row, 7);
  best__keep(&best, best__offer(&best, 1, 6, 8), row, 7);
  CHECK(best_valid(&best));
}

TEST(heaps) {
  filled();
  CHECK_FIRES(best.counts[1] = K + 1; best_valid(&best));
  CHECK_FIRES(best.rows[0].distance = 101; best_valid(&best));
  CHECK_FIRES(best.rows[1].distance = best.rows[0].distance + 1;
              best_valid(&best));
  CHECK_FIRES(best.slots[K] = K + 2; best_valid(&best));
  CHECK_FIRES(best.slots[K] = 0; best_valid(&best));
  CHECK_FIRES(best.slots[K] = best.slots[K + 1]; best_valid(&best));
  CHECK_FIRES(best.vectors = NULL; best_valid(&best));
  CHECK_FIRES(best.slots = NULL; best_valid(&best));
  best__free(&best);
}

static void offer_many(void) {
  for (int64_t key = 0; key < 5000; key++) {
    (void)best__offer(&best, 0, 1000 + key, 50 - (double)key / 1000);
  }
}

TEST(offers) {
  const float row[3] = {0};
  struct best other;
  struct best_form form = {QUERIES, K - 1, 100, 3, 1};
  filled();
  best__empty(&best, 100);
  CHECK_FIRES(best__offer(&best, QUERIES, 1, 1));
  CHECK_FIRES(best__keep(&best, QUERIES * K, row, 1));
  CHECK_FIRES(best.most = 0; best.slots[0] = 9; best.counts[0] = K;
              best.rows[0].distance = 99; offer_many());
  CHECK_FIRES(best.counts[0] = K + 1; best__deliver(&best, NULL, NULL));
  CHECK_EQ_INT(best__init(&other, &env_posix, &form), EMB_OK);
  CHECK_FIRES(best__merge(&best, &other, NULL));
  best__free(&other);
  form = (struct best_form){QUERIES, K, 100, 3, 0};
  CHECK_EQ_INT(best__init(&other, &env_posix, &form), EMB_OK);
  CHECK_FIRES(best__merge(&best, &other, NULL));
  best__free(&other);
  best__free(&best);
}

TEST(candidates) {
  const struct ask ask = {.n = 2};
  struct candidates c = {.query = 1, .probes = 8, .n = 5, .room = 5, .fit = 5};
  c.sampled = c.admitted = 3;
  CHECK(candidates_valid(&c, &ask));
  CHECK_FIRES(c.query = 2; candidates_valid(&c, &ask));
  CHECK_FIRES(c.probes = 0; candidates_valid(&c, &ask));
  CHECK_FIRES(c.room = 4; candidates_valid(&c, &ask));
  CHECK_FIRES(c.fit = 6; candidates_valid(&c, &ask));
  CHECK_FIRES(c.admitted = 4; candidates_valid(&c, &ask));
  CHECK_ALL_FIRED("engine/features/nearest/best_valid.c");
}
