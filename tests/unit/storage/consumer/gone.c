/* SPDX-License-Identifier: MIT
**
** gone.c -- tests of engine/storage/consumer/gone.c: each key comes once, with
** its last entry, however many entries there are and however much of the list
** is in the file.
*/
#include "test.h"

#include "engine/storage/consumer/gone.h"
#include "failing.h"

enum { KEYS = 5000 };

static int64_t key_of(uint64_t i) { return (int64_t)(i * 7919) - 20000000; }

/* n deletions of some keys, compared with a table of the last ops. */
static void random_order(size_t n, size_t keys) {
  uint8_t *last = calloc(keys, 1), op = 0;
  emb_err err = {0, ""};
  struct gone gone;
  size_t want = 0, got = 0;
  int64_t key, before = INT64_MIN;
  int some = 1;
  gone_init(&gone, &env_posix, test_dir());
  for (size_t i = 0; last != NULL && i < n; i++) {
    size_t at = test_random() % keys;
    uint8_t said = (uint8_t)(2 + test_random() % 3);
    want += last[at] == 0;
    last[at] = said;
    if (!CHECK_EQ_INT(gone_add(&gone, key_of(at), said, &err), 0))
      break;
  }
  CHECK_EQ_INT(gone.run_count, n ? (n - 1) / GONE_ITEMS : 0);
  CHECK_EQ_INT(gone_sort(&gone, &err), 0);
  while (last != NULL && some) {
    if (!CHECK_EQ_INT(gone_next(&gone, &key, &op, &some, &err), 0) || !some)
      break;
    size_t at = (size_t)(key + 20000000) / 7919;
    if (!CHECK(at < keys && key_of(at) == key && key > before) ||
        !CHECK_EQ_INT(op, last[at]))
      break;
    before = key;
    got++;
  }
  CHECK_EQ_INT(got, want);
  CHECK_EQ_INT(gone_next(&gone, &key, &op, &some, &err), 0);
  CHECK_EQ_INT(some, 0);
  gone_free(&gone);
  free(last);
}

TEST(none) { random_order(0, 1); }
TEST(one_key_many_times) {
  random_order(1, 1);
  random_order(100, 1);
  random_order(3 * GONE_ITEMS, 1);
}
TEST(in_memory) {
  random_order(1000, KEYS);
  random_order(GONE_ITEMS, KEYS);
  random_order(GONE_ITEMS, 1000000);
}
TEST(in_the_file) {
  random_order(GONE_ITEMS + 1, KEYS);
  random_order(2 * GONE_ITEMS, 1000000);
  random_order(700000, KEYS);
  random_order(700000, 3000000);
  test_count("deletions put in order", 700000);
}

/* Whatever call fails, the error is reported, and nothing is left open. */
static int run_failing(struct failing *f) {
  emb_err err = {0, ""};
  struct gone gone;
  int64_t key;
  uint8_t op;
  int some = 1, rc = 0;
  gone_init(&gone, &f->env, test_dir());
  for (int i = 0; !rc && i < 2 * (int)GONE_ITEMS + 10; i++)
    rc = gone_add(&gone, (int64_t)(test_random() % KEYS), 2, &err);
  rc = rc ? rc : gone_sort(&gone, &err);
  for (int i = 0; !rc && some; i++)
    rc = gone_next(&gone, &key, &op, &some, &err);
  gone_free(&gone);
  CHECK_EQ_INT(rc, err.code);
  return rc;
}

TEST(calls_that_fail) {
  struct failing f;
  uint64_t n = 1, tried = 0;
  failing_init(&f, &env_posix, test_state.seed);
  for (int memory = 0; memory < 2; memory++) {
    for (n = 1; !atomic_load(&test_state.failures); n++, tried++) {
      failing_arm(&f, memory ? FAILING_MEMORY : FAILING_IO, n, 0, 28);
      int rc = run_failing(&f);
      int unlink = f.fired && f.first == FAILING_UNLINK;
      failing_disarm(&f);
      CHECK_EQ_INT(failing_out(&f), 0);
      CHECK((rc != 0) == (f.fired != 0 && !unlink));
      if (!f.fired)
        break;
    }
  }
  CHECK(tried > 15);
  failing_free(&f);
  test_count("calls failed while deletions were put in order", tried);
}
