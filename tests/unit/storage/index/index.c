/* SPDX-License-Identifier: MIT
**
** index.c -- tests of engine/storage/index by one thread: every answer against
** an array, memory per key, and lack of memory.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/storage/index/index.h"

/* Keys of a test by number: the extreme keys, and then a mixture of dense,
** strided and random keys. */
static int64_t key_of(uint64_t i) {
  const int64_t corners[] = {0, -1, INT64_MIN, INT64_MAX, 1, INT64_MIN + 1};
  if (i < 6)
    return corners[i];
  switch (i % 4) {
  case 0:
    return (int64_t)(i * 1024);
  case 1:
    return (int64_t)(i << 32 | 7);
  case 2:
    return -(int64_t)i - 1000;
  default:
    return (int64_t)(i * UINT64_C(0x9E3779B97F4A7C15));
  }
}

static uint64_t find(struct index *index, int64_t key) {
  uint64_t word = 1;
  struct entry *entry = index_find(index, key, hash_key(key), &word);
  if (!entry) {
    CHECK(word == 0);
    return 0;
  }
  CHECK(atomic_load(&entry->key) == key);
  CHECK(atomic_load(&entry->word) == word);
  return word;
}

static int insert(struct index *index, int64_t key, uint64_t word) {
  struct index_new new = {.key = key, .hash = hash_key(key), .word = word};
  int rc = index_insert(index, &new);
  if (rc == EMB_OK)
    CHECK(new.entry &&atomic_load(&new.entry->key) ==
          key &&atomic_load(&new.entry->word) == word);
  return rc;
}

static void take_out(struct index *index, int64_t key) {
  uint64_t word;
  struct entry *entry = index_find(index, key, hash_key(key), &word);
  if (CHECK(entry != NULL)) {
    atomic_store(&entry->word, word | WORD_LATCH);
    index_remove(index, entry, hash_key(key));
  }
}

struct setup {
  struct epoch epoch;
  struct index index;
};

static void open_index(struct setup *s, struct env *env, int with_epoch,
                       uint32_t part_bits) {
  epoch_init(&s->epoch, env);
  CHECK_EQ_INT(
      index_init(&s->index, env, with_epoch ? &s->epoch : NULL, part_bits), 0);
}

static void close_index(struct setup *s) {
  index_free(&s->index);
  epoch_free(&s->epoch);
}

/* ---- answers ------------------------------------------------------------- */

static void change_at_random(int with_epoch, uint32_t part_bits,
                             uint64_t universe, int rounds) {
  struct setup s;
  open_index(&s, &env_posix, with_epoch, part_bits);
  uint64_t *words = calloc(universe, sizeof *words), count = 0;
  for (int i = 0; words && i < rounds; i++) {
    uint64_t at = test_random() % universe;
    int64_t key = key_of(at);
    uint64_t word = (test_random() & ~WORD_LATCH) | 1;
    uint64_t found = find(&s.index, key);
    if (found != words[at])
      test_check(0, __FILE__, __LINE__, "key %" PRId64 " in round %d", key, i);
    /* Mostly growing at first, mostly shrinking at the end. */
    int grow = (int)(test_random() % 100) < 95 - 60 * (i / (rounds / 2));
    if (grow) {
      int rc = insert(&s.index, key, word);
      CHECK_EQ_INT(rc, words[at] ? INDEX_EXISTS : EMB_OK);
      count += !words[at];
      words[at] = words[at] ? words[at] : word;
    } else if (words[at]) {
      take_out(&s.index, key);
      words[at] = 0;
      count--;
    }
  }
  CHECK(index_count(&s.index) == count);
  for (uint64_t at = 0; words && at < universe; at++)
    if (find(&s.index, key_of(at)) != words[at])
      CHECK_EQ_INT(at, -1);
  free(words);
  close_index(&s);
}

TEST(random_changes_in_two_partitions) { change_at_random(1, 1, 3000, 300000); }
TEST(random_changes_in_many_partitions) {
  change_at_random(1, 10, 400000, 2000000);
}
TEST(random_changes_without_epoch) { change_at_random(0, 6, 100000, 800000); }

TEST(corner_keys_are_keys_like_others) {
  struct setup s;
  open_index(&s, &env_posix, 1, 2);
  for (uint64_t i = 0; i < 6; i++)
    CHECK(find(&s.index, key_of(i)) == 0);
  for (uint64_t i = 0; i < 6; i++)
    CHECK_EQ_INT(insert(&s.index, key_of(i), i + 1), EMB_OK);
  for (uint64_t i = 0; i < 6; i++)
    CHECK(find(&s.index, key_of(i)) == i + 1);
  CHECK_EQ_INT(index_count(&s.index), 6);
  for (uint64_t i = 0; i < 6; i++) {
    take_out(&s.index, key_of(i));
    CHECK(find(&s.index, key_of(i)) == 0);
  }
  CHECK_EQ_INT(index_count(&s.index), 0);
  close_index(&s);
}

/* An existing key is returned, not changed. */
TEST(insert_of_an_existing_key_says_where_it_is) {
  struct setup s;
  open_index(&s, &env_posix, 1, 4);
  CHECK_EQ_INT(insert(&s.index, 5, 50), EMB_OK);
  struct index_new new = {.key = 5, .hash = hash_key(5), .word = 60};
  CHECK_EQ_INT(index_insert(&s.index, &new), INDEX_EXISTS);
  CHECK(new.entry &&atomic_load(&new.entry->key) == 5);
  CHECK_EQ_INT(new.present, 50);
  CHECK_EQ_INT(find(&s.index, 5), 50);
  CHECK_EQ_INT(index_count(&s.index), 1);
  close_index(&s);
}

static int refuse(void *asked) {
  ++*(int *)asked;
  return -77;
}
static int agree(void *asked) {
  ++*(int *)asked;
  return EMB_OK;
}

TEST(guard_may_refuse_a_new_key) {
  struct setup s;
  open_index(&s, &env_posix, 1, 4);
  int asked = 0;
  for (int64_t key = 0; key < 100; key++) {
    struct index_new new = {.key = key,
                            .hash = hash_key(key),
                            .word = 9,
                            .guard = refuse,
                            .arg = &asked};
    CHECK_EQ_INT(index_insert(&s.index, &new), -77);
    CHECK(find(&s.index, key) == 0);
  }
  CHECK_EQ_INT(asked, 100);
  CHECK_EQ_INT(index_count(&s.index), 0);
  struct index_new one = {
      .key = 1, .hash = hash_key(1), .word = 9, .guard = agree, .arg = &asked};
  CHECK_EQ_INT(index_insert(&s.index, &one), EMB_OK);
  CHECK_EQ_INT(asked, 101);
  /* The guard is not called for an existing key. */
  one.word = 8;
  one.guard = refuse;
  CHECK_EQ_INT(index_insert(&s.index, &one), INDEX_EXISTS);
  CHECK_EQ_INT(asked, 101);
  close_index(&s);
}

TEST(batch_finds_what_single_lookups_find) {
  enum { UNIVERSE = 20000, BATCH = 300 };
  struct setup s;
  open_index(&s, &env_posix, 1, 5);
  int64_t keys[BATCH];
  uint64_t hashes[BATCH], words[BATCH];
  struct entry *entries[BATCH];
  int is_wide = s.index.is_wide;
  for (int round = 0; round < 400; round++) {
    size_t n = test_random() % (BATCH + 1);
    s.index.is_wide = is_wide && round % 2;
    for (size_t i = 0; i < n; i++) {
      keys[i] = key_of(test_random() % UNIVERSE);
      hashes[i] = hash_key(keys[i]);
    }
    index_find_batch(&s.index, keys, hashes, n, entries, words);
    for (size_t i = 0; i < n; i++) {
      CHECK(words[i] == find(&s.index, keys[i]));
      CHECK(!entries[i] == !words[i]);
      if (entries[i])
        CHECK(atomic_load(&entries[i]->key) == keys[i]);
    }
    for (size_t i = 0; i < n; i += 2)
      (void)insert(&s.index, keys[i], hashes[i] >> 20 | 1);
  }
  close_index(&s);
}

struct seen {
  uint8_t *times; /* by word */
  uint64_t count;
};

static void see(void *arg, int64_t key, uint64_t word) {
  struct seen *seen = arg;
  CHECK(key_of(word) == key);
  seen->times[word]++;
  seen->count++;
}

TEST(each_sees_every_key_once) {
  enum { KEYS = 100000 };
  struct setup s;
  open_index(&s, &env_posix, 1, 8);
  for (uint64_t i = 1; i < KEYS; i++)
    CHECK_EQ_INT(insert(&s.index, key_of(i), i), EMB_OK);
  for (uint64_t i = 1; i < KEYS; i += 3)
    take_out(&s.index, key_of(i));
  struct seen seen = {calloc(KEYS, 1), 0};
  for (uint32_t p = 0; seen.times && p < index_parts(&s.index); p++)
    index_each(&s.index, p, see, &seen);
  for (uint64_t i = 1; seen.times && i < KEYS; i++)
    CHECK_EQ_INT(seen.times[i], i % 3 != 1);
  CHECK(seen.count == index_count(&s.index));
  free(seen.times);
  close_index(&s);
}

TEST(cleared_index_is_empty_and_usable) {
  struct setup s;
  open_index(&s, &env_posix, 0, 6);
  for (int round = 0; round < 5; round++) {
    for (uint64_t i = 1; i < 20000; i++)
      CHECK_EQ_INT(insert(&s.index, key_of(i), i), EMB_OK);
    index_clear(&s.index);
    CHECK_EQ_INT(index_count(&s.index), 0);
    CHECK(find(&s.index, key_of(7)) == 0);
    CHECK_EQ_INT(index_bytes(&s.index),
                 (sizeof(struct index_part) + sizeof(struct index_shape)) << 6);
  }
  close_index(&s);
}

/* A shrunk index has all remaining keys and fits their number; it can grow
** again. */
TEST(shrunk_index_has_what_is_left) {
  enum { KEYS = 40000 };
  for (int with_epoch = 0; with_epoch < 2; with_epoch++) {
    struct setup s;
    open_index(&s, &env_posix, with_epoch, 4);
    for (uint64_t i = 0; i < KEYS; i++)
      CHECK_EQ_INT(insert(&s.index, key_of(i), i + 1), EMB_OK);
    uint64_t places = index_places(&s.index), bytes = index_bytes(&s.index);
    for (uint32_t p = 0; p < 16; p++) /* it is full: nothing changes */
      index_shrink(&s.index, p);
    index_measure(&s.index);
    CHECK_EQ_INT(index_places(&s.index), places);
    for (uint64_t i = 0; i < KEYS; i++)
      if (i % 10)
        take_out(&s.index, key_of(i));
    for (uint32_t p = 0; p < 16; p++)
      index_shrink(&s.index, p);
    CHECK_EQ_INT(index_places(&s.index), places);
    index_measure(&s.index);
    CHECK(index_places(&s.index) < places / 5);
    index_reclaim(&s.index);
    CHECK(index_bytes(&s.index) <= bytes);
    CHECK_EQ_INT(index_count(&s.index), KEYS / 10);
    for (uint64_t i = 0; i < KEYS; i++)
      CHECK(find(&s.index, key_of(i)) == (i % 10 ? 0 : i + 1));
    uint64_t seen = 0;
    for (uint64_t n = 0; n < index_places(&s.index); n++) {
      struct entry *entry = index_place(&s.index, n);
      seen += entry && atomic_load(&entry->word);
    }
    CHECK_EQ_INT(seen, KEYS / 10);
    for (uint64_t i = 0; i < KEYS; i++)
      if (i % 10)
        CHECK_EQ_INT(insert(&s.index, key_of(i), i + 1), EMB_OK);
    for (uint64_t i = 0; i < KEYS; i++)
      CHECK(find(&s.index, key_of(i)) == i + 1);
    CHECK(index_places(&s.index) >= KEYS);
    close_index(&s);
  }
}

TEST(reserved_partition_needs_no_growth) {
  enum { KEYS = 50000 };
  struct setup s;
  open_index(&s, &env_posix, 1, 1);
  CHECK_EQ_INT(index_reserve(&s.index, 0, KEYS), EMB_OK);
  struct index_table *table = atomic_load(&s.index.parts[0].table);
  for (uint64_t i = 1, n = 0; n < KEYS; i++)
    if (index_part_of(&s.index, hash_key(key_of(i))) == s.index.parts) {
      CHECK_EQ_INT(insert(&s.index, key_of(i), i), EMB_OK);
      n++;
    }
  CHECK(atomic_load(&s.index.parts[0].table) == table);
  CHECK((uint64_t)table->buckets * 64 <= 24 * KEYS);
  close_index(&s);
}

/* ---- memory -------------------------------------------------------------- */

/* An environment that counts bytes and can run out of them. */
struct counting {
  struct env env;
  uint64_t now, most;
  long left; /* allocations until they fail; < 0: never */
};

static int refused(struct counting *c) {
  return c->left == 0 || (c->left-- == 0);
}
static void note_bytes(struct counting *c, uint64_t bytes) {
  c->now += bytes;
  c->most = c->most > c->now ? c->most : c->now;
}
static void *counted_map(struct env *env, size_t bytes, int huge) {
  struct counting *c = env->context;
  if (refused(c))
    return NULL;
  note_bytes(c, bytes);
  return env_posix.map(env, bytes, huge);
}
static void counted_unmap(struct env *env, void *at, size_t bytes) {
  ((struct counting *)env->context)->now -= bytes;
  env_posix.unmap(env, at, bytes);
}
static void *counted_allocate(struct env *env, size_t bytes) {
  struct counting *c = env->context;
  char *at = refused(c) ? NULL : env_posix.allocate(env, bytes + 64);
  if (!at)
    return NULL;
  memcpy(at, &bytes, sizeof bytes);
  note_bytes(c, bytes);
  return at + 64;
}
static void counted_release(struct env *env, void *at) {
  if (at) {
    size_t bytes;
    memcpy(&bytes, (char *)at - 64, sizeof bytes);
    ((struct counting *)env->context)->now -= bytes;
    env_posix.release(env, (char *)at - 64);
  }
}
static void *counted_resize(struct env *env, void *at, size_t bytes) {
  size_t had = 0;
  void *larger = counted_allocate(env, bytes);
  if (larger && at) {
    memcpy(&had, (char *)at - 64, sizeof had);
    memcpy(larger, at, had < bytes ? had : bytes);
    counted_release(env, at);
  }
  return larger;
}

static void count_memory(struct counting *c) {
  *c = (struct counting){env_posix, 0, 0, -1};
  c->env.context = c;
  c->env.map = counted_map;
  c->env.unmap = counted_unmap;
  c->env.allocate = counted_allocate;
  c->env.release = counted_release;
  c->env.resize = counted_resize;
}

/* As in a store: at most 24 bytes per key at every size above 100,000 keys,
** even at the worst moment of its growth, and index_bytes is right. */
TEST(at_most_24_bytes_per_key) {
  enum { FROM = 100000, TO = 2500000 };
  struct counting c;
  struct setup s;
  count_memory(&c);
  open_index(&s, &c.env, 1, INDEX_PART_BITS_MAX);
  double worst = 0;
  for (uint64_t i = 1; i <= TO; i++) {
    if (i % 64 == 0)
      c.most = c.now;
    if (insert(&s.index, (int64_t)(i * 3), i) != EMB_OK)
      CHECK_EQ_INT(i, -1);
    double per_key = (double)c.most / (double)i;
    if (i < FROM)
      continue;
    worst = per_key > worst ? per_key : worst;
    if (i % 4096 == 0) {
      uint64_t told = index_bytes(&s.index);
      CHECK(told <= 24 * i);
      CHECK(told + 65536 + told / 50 > c.now && told < c.now + 65536);
    }
  }
  test_check(worst <= 24, __FILE__, __LINE__, "%.2f bytes per key", worst);
  close_index(&s);
  CHECK_EQ_INT(c.now, 0); /* nothing leaks */
}

/* Allows only n allocations: a failed insert changes nothing, and the same
** insert succeeds when there is memory again. */
static void run_out_of_memory(int with_epoch, uint32_t part_bits) {
  enum { KEYS = 60000 };
  struct counting c;
  struct setup s;
  count_memory(&c);
  open_index(&s, &c.env, with_epoch, part_bits);
  int failures = 0;
  for (uint64_t i = 1; i <= KEYS; i++) {
    c.left = (long)(test_random() % 12);
    int rc = insert(&s.index, key_of(i), i);
    for (int tries = 0; rc == EMB_NOMEM; tries++) {
      failures++;
      CHECK_EQ_INT(index_count(&s.index), i - 1);
      CHECK(find(&s.index, key_of(i)) == 0);
      if (failures % 16 == 0 || i < 200)
        for (uint64_t k = 1; k < i; k++)
          CHECK(find(&s.index, key_of(k)) == k);
      c.left = tries > 3 ? -1 : (long)(test_random() % 8);
      rc = insert(&s.index, key_of(i), i);
    }
    CHECK_EQ_INT(rc, EMB_OK);
  }
  CHECK(failures > 0);
  for (uint64_t i = 1; i <= KEYS; i++)
    CHECK(find(&s.index, key_of(i)) == i); /* no latch was left behind */
  c.left = -1;
  close_index(&s);
  CHECK_EQ_INT(c.now, 0);
}

TEST(no_memory_leaves_everything_intact) { run_out_of_memory(1, 4); }
TEST(no_memory_without_epoch) { run_out_of_memory(0, 1); }

TEST(no_memory_at_init_and_reserve) {
  struct counting c;
  struct setup s;
  count_memory(&c);
  c.left = 0;
  epoch_init(&s.epoch, &c.env);
  CHECK_EQ_INT(index_init(&s.index, &c.env, &s.epoch, 4), EMB_NOMEM);
  index_free(&s.index);
  for (long left = 0; left < 5; left++) {
    c.left = 1;
    CHECK_EQ_INT(index_init(&s.index, &c.env, &s.epoch, 4), EMB_OK);
    c.left = left;
    int rc = index_reserve(&s.index, 3, 100000);
    CHECK(rc == EMB_NOMEM || rc == EMB_OK);
    c.left = -1;
    CHECK_EQ_INT(insert(&s.index, 1, 1), EMB_OK);
    close_index(&s);
  }
  CHECK_EQ_INT(c.now, 0);
}
