/* SPDX-License-Identifier: MIT
**
** key_threads.c -- engine/storage/kernel/key.c, used by several threads.
**
** COUNTED  Gets are counted on their own key, however entries move:
**          key_acquire and key_release run alongside inserts that displace
**          entries.  All keys are in one partition whose table is nearly
**          full, so an insert makes room by moving another entry, and
**          immediately takes its place.  A Get that was stopped between two
**          instructions then finds another key where its own was.
** CLAIMED  No other session latches a key that a transaction claims, even if
**          the key was free when that session looked it up.
*/
#include "test.h"

#include "engine/storage/kernel/row_write.h"

#include <pthread.h>

enum {
  COUNTED = 8,  /* keys that are acquired and released */
  COMING = 160, /* keys that come and go alongside them */
  ROOM = 67,    /* the most of them there: with COUNTED 94 % of the table */
  THREADS = 5,  /* more than there are cores, so that some are stopped */
  PART_BITS = 10,
  BOUND = 100,
};

static struct core core;
static int64_t keys[COUNTED + COMING];
static _Atomic int stop;
static _Atomic uint64_t counted, displaced;

static void *get_and_give(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg, n = 0;
  struct epoch_slot *slot = epoch_join(&core.epoch);
  while (!atomic_load(&stop)) {
    int64_t key = keys[test_random_from(&random) % COUNTED];
    uint64_t word, hash = hash_key(key);
    epoch_enter(&core.epoch, slot);
    struct entry *entry = index_find(&core.index, key, hash, &word);
    int rc = entry ? key_acquire(&core, key, hash, &entry, &word) : KEY_ABSENT;
    epoch_leave(slot);
    /* Fewer threads than the bound: nothing can be in the way. */
    if (!CHECK_EQ_INT(rc, KEY_FOUND))
      break;
    epoch_enter(&core.epoch, slot);
    key_release(&core, key, hash, 1);
    epoch_leave(slot);
    n++;
  }
  atomic_fetch_add(&counted, n);
  epoch_part(slot);
  return NULL;
}

static void come(int i) {
  struct index_new new = {
      .key = keys[i], .hash = hash_key(keys[i]), .word = (uint64_t)i + 1};
  CHECK_EQ_INT(index_insert(&core.index, &new), EMB_OK);
}

static void go(int i) {
  struct entry *entry;
  uint64_t word, hash = hash_key(keys[i]);
  if (CHECK_EQ_INT(key_latch(&core, keys[i], hash, &entry, &word), KEY_FOUND)) {
    /* There are no Gets of these keys. */
    CHECK_EQ_INT(word_pending(word), 0);
    index_remove(&core.index, entry, hash);
  }
}

static void *come_and_go(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg, n = 0;
  uint8_t there[COUNTED + COMING] = {0};
  struct epoch_slot *slot = epoch_join(&core.epoch);
  int room = ROOM;
  while (!atomic_load(&stop)) {
    int i = COUNTED + (int)(test_random_from(&random) % COMING);
    epoch_enter(&core.epoch, slot);
    if (there[i] || room > 0) {
      there[i] ? go(i) : come(i);
      room += there[i] ? 1 : -1;
      there[i] = !there[i];
      n++;
    }
    epoch_leave(slot);
  }
  atomic_fetch_add(&displaced, n);
  epoch_part(slot);
  return NULL;
}

static void begin(void) {
  memset(&core, 0, sizeof core);
  core.env = &env_posix;
  core.staleness = BOUND;
  atomic_store(&stop, 0);
  atomic_store(&counted, 0);
  atomic_store(&displaced, 0);
  epoch_init(&core.epoch, &env_posix);
  CHECK_EQ_INT(index_init(&core.index, &env_posix, &core.epoch, PART_BITS),
               EMB_OK);
  int n = 0;
  for (int64_t key = 1; n < COUNTED + COMING; key++)
    if (hash_key(key) >> (64 - PART_BITS) == 0)
      keys[n++] = key;
}

static void end(void) {
  index_free(&core.index);
  epoch_free(&core.epoch);
}

/* `ones` threads run `one`, the others run `other`. */
static void run(void *(*one)(void *), int ones, void *(*other)(void *)) {
  pthread_t threads[THREADS];
  char *long_ = getenv("LONG");
  unsigned ms = 800 * (long_ ? (unsigned)strtoul(long_, NULL, 10) : 1);
  for (int i = 0; i < THREADS; i++)
    if (!CHECK_EQ_INT(pthread_create(&threads[i], NULL, i < ones ? one : other,
                                     (void *)(uintptr_t)test_random()),
                      0))
      abort();
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&time, NULL);
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
}

TEST(gets_are_counted_on_their_own_key) {
  begin();
  for (int i = 0; i < COUNTED; i++)
    come(i);
  run(come_and_go, 1, get_and_give);
  for (int i = 0; i < COUNTED; i++) {
    uint64_t word = 0;
    CHECK(index_find(&core.index, keys[i], hash_key(keys[i]), &word) != NULL);
    CHECK_EQ_INT(word_pending(word), 0);
  }
  CHECK(atomic_load(&counted) > 0 && atomic_load(&displaced) > 0);
  end();
}

/* ---- claims -------------------------------------------------------------- */

/* A transaction that claims the key and gives it up. */
static void *claim_and_settle(void *arg) {
  struct epoch_slot *slot = epoch_join(&core.epoch);
  uint64_t word, hash = hash_key(keys[0]), n = 0;
  (void)arg;
  while (!atomic_load(&stop)) {
    epoch_enter(&core.epoch, slot);
    int rc = key_intend(&core, keys[0], hash, &word);
    if (rc == KEY_FOUND) {
      row_settle(&core, keys[0], hash, ROW_SAME, 0, NULL);
      n++;
    }
    epoch_leave(slot);
    if (!CHECK(rc == KEY_FOUND || rc == KEY_INTENT))
      break;
  }
  atomic_fetch_add(&counted, n);
  epoch_part(slot);
  return NULL;
}

/* Another session that writes the key, unless it is claimed. */
static void *latch_and_unlatch(void *arg) {
  struct epoch_slot *slot = epoch_join(&core.epoch);
  uint64_t hash = hash_key(keys[0]), n = 0;
  (void)arg;
  while (!atomic_load(&stop)) {
    struct entry *entry;
    uint64_t word = 0;
    epoch_enter(&core.epoch, slot);
    int rc = key_latch(&core, keys[0], hash, &entry, &word);
    int claimed = rc == KEY_FOUND && (word & WORD_INTENT) != 0;
    if (rc == KEY_FOUND) {
      key_unlatch(entry, word);
      n++;
    }
    epoch_leave(slot);
    if (!CHECK(!claimed))
      break;
  }
  atomic_fetch_add(&displaced, n);
  epoch_part(slot);
  return NULL;
}

TEST(a_claimed_key_is_not_latched_by_others) {
  begin();
  come(0);
  run(claim_and_settle, 2, latch_and_unlatch);
  CHECK(atomic_load(&counted) > 0 && atomic_load(&displaced) > 0);
  end();
}
