/* SPDX-License-Identifier: MIT
**
** fail_bag.c -- each allocation of memory and each read fails in turn, once or
** from then on, in emb_bag and emb_bag_apply of rows that are mostly on disk.
**
** Rows hold the number of gradients of 1 that they got (sgd(lr=1),
** subtracted), and all elements of a row are the same.  A successful lookup
** is right, and a failed one counts nothing (the store is bounded).  After a
** failed call with gradients each key has made its step once or not at all.
** After a single failure the next try works.
*/
#include "store_help.h"

#include "failing.h"

#include <errno.h>

enum { DIM = 1000, KEYS = 400, BAG = 4, BAGS = KEYS / BAG };

static struct failing f;
static uint64_t points, refused;
static int64_t keys[KEYS], offsets[BAGS];
static float gradients[BAGS * DIM], pooled[BAGS * DIM];

static emb_bags bags_of(void) {
  return (emb_bags){.offsets = offsets, .count = BAGS, .mode = EMB_BAG_SUM};
}

/* Every key is in one bag, and the first of each bag is in the next bag too. */
static void make_batch(void) {
  for (int i = 0; i < KEYS; i++)
    keys[i] = i % BAG == 3 ? (i + 1) % KEYS : i;
  for (int i = 0; i < BAGS; i++)
    offsets[i] = i * BAG;
  for (int i = 0; i < BAGS * DIM; i++)
    gradients[i] = -1;
}

static int bag_open(const char *dir, emb_store **store, emb_session **s) {
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP |
                                      EMB_OPEN_BOUNDED | EMB_OPEN_COLD,
                             .staleness = EMB_STALENESS_MAX,
                             .memory_bytes = 1,
                             .timeout_ms = 10,
                             .optimizer = "sgd(lr=1)"};
  return help_open(dir, &config, store, s);
}

/* Reads the number of gradients of each row, a single number; -1: error. */
static int read_rows(emb_session *s, float *counts) {
  static float rows[KEYS * DIM];
  int64_t all[KEYS];
  for (int i = 0; i < KEYS; i++)
    all[i] = i;
  if (emb_peek(s, all, KEYS, rows, NULL, NULL))
    return 0;
  for (int i = 0; i < KEYS; i++) {
    counts[i] = rows[i * DIM];
    for (int k = 0; k < DIM; k++)
      if (!CHECK(rows[i * DIM + k] == counts[i]))
        return 0;
  }
  return 1;
}

/* A lookup: it is right, or an error that counts nothing. */
static int look_up(emb_session *s, const float *counts) {
  const emb_bags bags = bags_of();
  uint64_t leases = emb_leases(s);
  int rc = emb_bag(s, keys, KEYS, &bags, pooled);
  if (rc) {
    CHECK_EQ_INT(emb_leases(s), leases);
    refused++;
    return rc;
  }
  for (int bag = 0; bag < BAGS; bag++) {
    float sum = 0;
    for (int i = 0; i < BAG; i++)
      sum += counts[keys[bag * BAG + i]];
    if (!CHECK(pooled[bag * DIM] == sum && pooled[bag * DIM + DIM - 1] == sum))
      break;
  }
  return rc;
}

/* The gradients that a row gets from one call. */
static int times_of(int key) { return key % BAG == 0 ? 2 : key % BAG != 3; }

/* Applies gradients to all keys; each key then has made its step, or, after
** an error, perhaps not. */
static int train(emb_session *s, float *counts) {
  const emb_bags bags = bags_of();
  float after[KEYS];
  int rc = emb_bag_apply(s, keys, KEYS, &bags, gradients, NULL);
  int stopped = 0;
  if (rc) {
    refused++;
  }
  failing_disarm(&f);
  if (!CHECK(read_rows(s, after)))
    return rc;
  for (int i = 0; i < KEYS; i++) {
    int moved = after[i] != counts[i];
    stopped |= !moved && times_of(i);
    if (!CHECK(after[i] == counts[i] + (float)times_of(i) ||
               (rc && after[i] == counts[i])))
      break;
    counts[i] = after[i];
  }
  CHECK(rc || !stopped);
  return rc;
}

static int try(uint64_t n, const struct failing_case *how, int forever) {
  const char *dir = help_path("store");
  emb_store *store;
  emb_session *s;
  emb_err err;
  float counts[KEYS] = {0};
  static float zeros[KEYS * DIM];
  int64_t all[KEYS];
  for (int i = 0; i < KEYS; i++)
    all[i] = i;
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
  if (!bag_open(dir, &store, &s))
    return 0;
  OK(s, emb_put(s, all, KEYS, zeros, NULL));
  help_close(store, s);
  if (!bag_open(dir, &store, &s)) /* all rows are on disk */
    return 0;
  failing_arm(&f, how->kinds, n, forever, how->error);
  int failed = look_up(s, counts) != EMB_OK;
  failed |= train(s, counts) != EMB_OK; /* disarmed from here on */
  int fired = f.fired > 0;
  test_check(fired || !failed, __FILE__, __LINE__, "failed without a cause");
  OK(s, emb_peek(s, all, 1, pooled, NULL, NULL));
  CHECK_EQ_INT(look_up(s, counts), EMB_OK);
  CHECK_EQ_INT(train(s, counts), EMB_OK);
  emb_session_close(s);
  CHECK_EQ_INT(emb_close(store, &err), EMB_OK);
  FAILING_CHECK_OUT(&f, n);
  return fired;
}

static void fail_each(const struct failing_case *how) {
  failing_begin(&f);
  refused = 0;
  make_batch();
  points = failing_each(how, 1, try);
  failing_end(&f);
  HELP_CAME(refused > 0);
  test_count("calls failed in bags", points);
}

TEST(no_memory) { fail_each(&failing_cases[FAILING_CASE_MEMORY]); }
TEST(reads) {
  static const struct failing_case reads = {
      "reads",
      FAILING_BIT(FAILING_READ) | FAILING_BIT(FAILING_QUEUE_READ) |
          FAILING_BIT(FAILING_QUEUE_SUBMIT) | FAILING_BIT(FAILING_QUEUE_WAIT),
      EIO};
  fail_each(&reads);
}
