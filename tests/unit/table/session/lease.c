/* SPDX-License-Identifier: MIT
**
** lease.c -- a session's leases against an array of counts per key: Gets and
** Puts in the same order, in another one, of many keys and of few, with leases
** that stay for long.
*/
#include "test.h"

#include "engine/base/hash.h"
#include "engine/emb.h"
#include "engine/table/session/lease.h"

enum { KEYS = 700, BATCH = 300 };

static struct leases leases;
static uint32_t held[KEYS], batch_of[KEYS];
static int64_t batch[BATCH];

static struct lease *find(int64_t key) {
  return lease_find(&leases, key, hash_key(key));
}

/* Takes a lease of each key; a Get counts a repeated key once. */
static void get(size_t n) {
  static uint32_t call;
  CHECK_EQ_INT(lease_reserve(&leases, &env_posix, n), EMB_OK);
  call++;
  for (size_t i = 0; i < n; i++) {
    int64_t key = batch[i];
    if (batch_of[key] == call)
      continue;
    batch_of[key] = call;
    if (!held[key] && test_random() % 4)
      lease_append(&leases, key, call);
    else
      lease_take(&leases, find(key), key, call);
    held[key]++;
  }
}

/* Gives up to `most` leases of each key back. */
static void put(size_t n, uint32_t most) {
  for (size_t i = 0; i < n; i++) {
    int64_t key = batch[i];
    struct lease *lease = find(key);
    CHECK_EQ_INT(lease ? lease->held : 0, held[key]);
    if (lease) {
      uint32_t m = held[key] < most ? held[key] : most;
      CHECK(lease->key == key);
      lease_drop(&leases, lease, m);
      held[key] -= m;
    }
  }
}

static void draw(size_t n, uint32_t keys) {
  for (size_t i = 0; i < n; i++)
    batch[i] = (int64_t)(test_random() % keys);
}

static void shuffle(size_t n) {
  for (size_t i = n; i > 1; i--) {
    size_t j = test_random() % i;
    int64_t key = batch[j];
    batch[j] = batch[i - 1];
    batch[i - 1] = key;
  }
}

static void check_all(void) {
  size_t used = 0, all = 0;
  for (int64_t key = 0; key < KEYS; key++) {
    struct lease *lease = find(key);
    CHECK_EQ_INT(lease ? lease->held : 0, held[key]);
    used += held[key] > 0;
    all += held[key];
  }
  CHECK_EQ_INT(leases.used, used);
  CHECK_EQ_INT(leases.held, all);
#if EMB_DEBUG > 0
  CHECK(lease_valid(&leases));
#endif
}

static void begin(void) {
  memset(&leases, 0, sizeof leases);
  memset(held, 0, sizeof held);
}

TEST(any_order_against_counts) {
  begin();
  for (int round = 0; round < 3000; round++) {
    size_t n = test_random() % (round % 7 ? 12 : BATCH + 1);
    uint32_t keys = round % 3 ? KEYS : 9;
    draw(n, keys);
    get(n);
    if (round % 4 == 1)
      shuffle(n);
    if (round % 5 == 2)
      draw(n, keys); /* others, perhaps without a lease */
    if (round % 6)
      put(n, 1 + (uint32_t)(test_random() % 3));
    if (round % 50 == 49) { /* none is left */
      for (int64_t key = 0; key < KEYS; key += BATCH) {
        size_t m = (size_t)(KEYS - key < BATCH ? KEYS - key : BATCH);
        for (size_t i = 0; i < m; i++)
          batch[i] = key + (int64_t)i;
        put(m, LEASE_MAX);
      }
      CHECK_EQ_INT(leases.held, 0);
    }
    if (round % 10 == 0)
      check_all();
  }
  lease_free(&leases, &env_posix);
}

/* One lease stays, so the array is never emptied: it is moved together, and
** does not grow, and a key that comes and goes has one place in the table. */
TEST(a_lease_that_stays) {
  begin();
  batch[0] = 5;
  get(1);
  size_t room = leases.room;
  for (int round = 0; round < 5000; round++) {
    batch[0] = round % 2 ? 6 : 7;
    get(1);
    CHECK_EQ_INT(find(5)->held, 1);
    put(1, 1);
  }
  CHECK_EQ_INT(leases.room, room);
  check_all();
  CHECK_EQ_INT(leases.used, 1);
  lease_free(&leases, &env_posix);
}

/* Puts in the order of the Gets need no table. */
TEST(the_order_of_the_gets_needs_no_table) {
  begin();
  for (int round = 0; round < 50; round++) {
    for (size_t i = 0; i < BATCH; i++)
      batch[i] = (int64_t)i * 2 + round;
    CHECK_EQ_INT(lease_reserve(&leases, &env_posix, BATCH), EMB_OK);
    for (size_t i = 0; i < BATCH; i++) {
      lease_append(&leases, batch[i], 1);
      held[batch[i]]++;
    }
    put(BATCH, 1);
    CHECK_EQ_INT(leases.listed, 0);
  }
  check_all();
  lease_free(&leases, &env_posix);
}
