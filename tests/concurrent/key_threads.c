/* SPDX-License-Identifier: MIT
**
** key_threads.c -- Gets are counted on their own key, however entries move: of
** engine/kernel/key.c, key_acquire and key_release beside inserts that
** displace.
**
** All keys are of one partition whose table is nearly full, so an insert makes
** room by moving another entry, and takes its place at once.  A Get that was
** stopped between two instructions then finds another key where its own was.
*/
#include "test.h"

#include "engine/kernel/core.h"

#include <pthread.h>

enum {
  COUNTED = 8,  /* keys that are got and given back */
  COMING = 160, /* keys that come and go beside them */
  ROOM = 67,    /* of them there at most: with COUNTED 94 % of the table */
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

TEST(gets_are_counted_on_their_own_key) {
  pthread_t threads[THREADS];
  char *long_ = getenv("LONG");
  unsigned ms = 800 * (long_ ? (unsigned)strtoul(long_, NULL, 10) : 1);
  memset(&core, 0, sizeof core);
  core.env = &env_posix;
  core.staleness = BOUND;
  epoch_init(&core.epoch, &env_posix);
  CHECK_EQ_INT(index_init(&core.index, &env_posix, &core.epoch, PART_BITS),
               EMB_OK);
  int n = 0;
  for (int64_t key = 1; n < COUNTED + COMING; key++)
    if (hash_key(key) >> (64 - PART_BITS) == 0)
      keys[n++] = key;
  for (int i = 0; i < COUNTED; i++)
    come(i);
  for (int i = 0; i < THREADS; i++)
    if (!CHECK_EQ_INT(pthread_create(&threads[i], NULL,
                                     i ? get_and_give : come_and_go,
                                     (void *)(uintptr_t)test_random()),
                      0))
      abort();
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&time, NULL);
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < COUNTED; i++) {
    uint64_t word = 0;
    CHECK(index_find(&core.index, keys[i], hash_key(keys[i]), &word) != NULL);
    CHECK_EQ_INT(word_pending(word), 0);
  }
  CHECK(atomic_load(&counted) > 0 && atomic_load(&displaced) > 0);
  index_free(&core.index);
  epoch_free(&core.epoch);
}
