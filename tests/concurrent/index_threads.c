/* SPDX-License-Identifier: MIT
**
** index_threads.c -- concurrent tests of engine/storage/index and the latch
** of kernel/key.c: lookups never miss a key that is there nor show another
** key's word, however entries move and tables grow and shrink.
*/
#include "test.h"

#include "engine/storage/kernel/core.h"

#include <pthread.h>

/* Keys by number: [0, STABLE) are always there and change their words; the
** others come and go, or are added one after another. */
enum { STABLE = 3000, COMING = 4000, ADDED = 60000 };
enum { PART_BITS = 2, NUMBER_BITS = 20 };

static struct core core;
static _Atomic int stop;
static _Atomic uint64_t seeds;

static int64_t key_of(uint64_t number) {
  return (int64_t)(number * UINT64_C(0x9E3779B97F4A7C15));
}
/* A word that names its key; its count only grows. */
static uint64_t word_of(uint64_t number, uint64_t times) {
  return number | times << NUMBER_BITS;
}
static uint64_t number_in(uint64_t word) {
  return word_address(word) & ((1u << NUMBER_BITS) - 1);
}
static uint64_t times_in(uint64_t word) {
  return word_address(word) >> NUMBER_BITS;
}

static struct epoch_slot *join(uint64_t *random) {
  *random = atomic_fetch_add(&seeds, 1) * 1000003;
  return epoch_join(&core.epoch);
}

static void add(uint64_t number, uint64_t word) {
  int64_t key = key_of(number);
  struct index_new new = {.key = key, .hash = hash_key(key), .word = word};
  CHECK_EQ_INT(index_insert(&core.index, &new), EMB_OK);
}

/* Looks at stable keys, one by one and in batches. */
static void *look(void *arg) {
  enum { BATCH = 32 };
  static _Thread_local uint64_t newest[STABLE];
  int64_t keys[BATCH];
  uint64_t hashes[BATCH], words[BATCH], numbers[BATCH], random;
  struct entry *entries[BATCH];
  struct epoch_slot *slot = join(&random);
  (void)arg;
  while (!atomic_load(&stop)) {
    for (int i = 0; i < BATCH; i++) {
      numbers[i] = test_random_from(&random) % STABLE;
      keys[i] = key_of(numbers[i]);
      hashes[i] = hash_key(keys[i]);
    }
    epoch_enter(&core.epoch, slot);
    if (random & 1) {
      index_find_batch(&core.index, keys, hashes, BATCH, entries, words);
    } else {
      for (int i = 0; i < BATCH; i++)
        entries[i] = index_find(&core.index, keys[i], hashes[i], &words[i]);
    }
    epoch_leave(slot);
    for (int i = 0; i < BATCH; i++) {
      CHECK(entries[i] && words[i]);
      CHECK_EQ_INT(number_in(words[i]), numbers[i]);
      CHECK(times_in(words[i]) >= newest[numbers[i]]);
      newest[numbers[i]] = times_in(words[i]);
    }
  }
  epoch_part(slot);
  return NULL;
}

/* Changes the words of stable keys under their latches. */
static void *change(void *arg) {
  uint64_t *times = arg, random;
  struct epoch_slot *slot = join(&random);
  while (!atomic_load(&stop)) {
    uint64_t number = test_random_from(&random) % STABLE, word;
    int64_t key = key_of(number);
    struct entry *entry;
    epoch_enter(&core.epoch, slot);
    int found = key_latch(&core, key, hash_key(key), &entry, &word);
    if (CHECK_EQ_INT(found, KEY_FOUND)) {
      CHECK(word == word_of(number, times[number])); /* no other changes it */
      times[number]++;
      key_unlatch(entry, word_of(number, times[number]));
    }
    epoch_leave(slot);
  }
  epoch_part(slot);
  return NULL;
}

/* Keys of its own come and go; no other thread touches them. */
static void *come_and_go(void *arg) {
  static uint8_t there[COMING];
  uint64_t random;
  struct epoch_slot *slot = join(&random);
  (void)arg;
  memset(there, 0, sizeof there);
  while (!atomic_load(&stop)) {
    uint64_t i = test_random_from(&random) % COMING, word;
    uint64_t number = STABLE + i;
    int64_t key = key_of(number);
    struct entry *entry;
    epoch_enter(&core.epoch, slot);
    int found = key_latch(&core, key, hash_key(key), &entry, &word);
    CHECK_EQ_INT(found, there[i] ? KEY_FOUND : KEY_ABSENT);
    if (found == KEY_FOUND) {
      CHECK_EQ_INT(number_in(word), number);
      index_remove(&core.index, entry, hash_key(key));
    } else {
      add(number, word_of(number, 1));
    }
    there[i] = !there[i];
    epoch_leave(slot);
  }
  uint64_t count = 0;
  for (int i = 0; i < COMING; i++)
    count += there[i];
  epoch_part(slot);
  return (void *)(uintptr_t)count;
}

static void add_all(struct epoch_slot *slot) {
  uint64_t from = STABLE + COMING;
  for (uint64_t i = 0; i < ADDED; i++) {
    epoch_enter(&core.epoch, slot);
    add(from + i, word_of(from + i, 1));
    epoch_leave(slot);
  }
}

static void remove_all(struct epoch_slot *slot) {
  uint64_t from = STABLE + COMING, word;
  for (uint64_t i = 0; i < ADDED; i++) {
    int64_t key = key_of(from + i);
    struct entry *entry;
    epoch_enter(&core.epoch, slot);
    if (CHECK_EQ_INT(key_latch(&core, key, hash_key(key), &entry, &word),
                     KEY_FOUND))
      index_remove(&core.index, entry, hash_key(key));
    epoch_leave(slot);
  }
}

/* Shrinks tables that are nearly empty, and looks at places. */
static void *shrink(void *arg) {
  uint64_t random;
  struct epoch_slot *slot = join(&random);
  (void)arg;
  while (!atomic_load(&stop)) {
    uint32_t p = (uint32_t)(test_random_from(&random) % (1 << PART_BITS));
    epoch_enter(&core.epoch, slot);
    index_shrink(&core.index, p);
    index_measure(&core.index);
    uint64_t places = index_places(&core.index);
    for (int i = 0; i < 64; i++) {
      struct entry *entry =
          index_place(&core.index, test_random_from(&random) % places);
      if (!entry)
        continue;
      int64_t key = atomic_load(&entry->key);
      uint64_t word = atomic_load(&entry->word);
      CHECK(!word || atomic_load(&entry->key) != key ||
            key == key_of(number_in(word)));
    }
    epoch_leave(slot);
  }
  epoch_part(slot);
  return NULL;
}

/* Makes the tables grow, and nearly empty, and grow again. */
static void *add_many(void *arg) {
  uint64_t random, from = STABLE + COMING;
  struct epoch_slot *slot = join(&random);
  (void)arg;
  add_all(slot);
  remove_all(slot);
  add_all(slot);
  for (uint64_t i = 0; i < ADDED; i++) {
    uint64_t word;
    epoch_enter(&core.epoch, slot);
    (void)index_find(&core.index, key_of(from + i), hash_key(key_of(from + i)),
                     &word);
    epoch_leave(slot);
    CHECK_EQ_INT(number_in(word), from + i);
  }
  epoch_part(slot);
  return NULL;
}

static void see(void *arg, int64_t key, uint64_t word) {
  uint8_t *times = arg;
  uint64_t number = number_in(word);
  CHECK(key == key_of(number));
  if (number < STABLE)
    times[number]++;
}

/* index_each, run while all of these work, shows each stable key once. */
static void walk(void) {
  static uint8_t times[STABLE];
  struct epoch_slot *slot = epoch_join(&core.epoch);
  memset(times, 0, sizeof times);
  for (uint32_t p = 0; p < index_parts(&core.index); p++) {
    epoch_enter(&core.epoch, slot);
    index_each(&core.index, p, see, times);
    epoch_leave(slot);
  }
  for (int i = 0; i < STABLE; i++)
    CHECK_EQ_INT(times[i], 1);
  epoch_part(slot);
}

TEST(no_key_is_lost_and_no_word_is_wrong) {
  static uint64_t times[STABLE];
  for (int round = 0; round < 3; round++) {
    memset(&core, 0, sizeof core);
    memset(times, 0, sizeof times);
    epoch_init(&core.epoch, &env_posix);
    CHECK_EQ_INT(index_init(&core.index, &env_posix, &core.epoch, PART_BITS),
                 EMB_OK);
    atomic_store(&stop, 0);
    atomic_store(&seeds, test_random());
    times[0] = 1; /* word 0 is none */
    for (uint64_t i = 0; i < STABLE; i++)
      add(i, word_of(i, times[i]));
    pthread_t looker, changer, comer, adder, shrinker;
    void *left = NULL;
    CHECK_EQ_INT(pthread_create(&looker, NULL, look, NULL), 0);
    CHECK_EQ_INT(pthread_create(&changer, NULL, change, times), 0);
    CHECK_EQ_INT(pthread_create(&comer, NULL, come_and_go, NULL), 0);
    CHECK_EQ_INT(pthread_create(&adder, NULL, add_many, NULL), 0);
    CHECK_EQ_INT(pthread_create(&shrinker, NULL, shrink, NULL), 0);
    for (int i = 0; i < 20; i++)
      walk();
    pthread_join(adder, NULL);
    atomic_store(&stop, 1);
    pthread_join(looker, NULL);
    pthread_join(changer, NULL);
    pthread_join(shrinker, NULL);
    pthread_join(comer, &left);
    CHECK_EQ_INT(index_count(&core.index), STABLE + ADDED + (uintptr_t)left);
    for (uint64_t i = 0; i < STABLE; i++) {
      uint64_t word;
      (void)index_find(&core.index, key_of(i), hash_key(key_of(i)), &word);
      CHECK(word == word_of(i, times[i]));
    }
    index_free(&core.index);
    epoch_free(&core.epoch);
  }
}
