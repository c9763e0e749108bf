/* SPDX-License-Identifier: MIT
**
** cache.c -- tests of engine/storage/cache (slots, frames, the hand) and of
** kernel/promote.c, which decides which records are cached.
*/
#include "test.h"
#include "layout_help.h"

#include "engine/storage/kernel/core.h"
#include "engine/emb.h"

enum { FRAMES = 8 };

/* ---- memory -------------------------------------------------------------- */

static struct layout layout;
static struct cache cache;
static char *memory[FRAMES];

static void open_cache(uint32_t dim) {
  layout_plain(&layout, dim, EMB_F32);
  CHECK_EQ_INT(cache_init(&cache, &env_posix, &layout, FRAMES), 0);
  for (int i = 0; i < FRAMES; i++) {
    memory[i] = env_posix.map(&env_posix, layout.extent_bytes, 0);
    memset(memory[i], 0x5a, layout.extent_bytes);
  }
}

static void close_cache(void) {
  cache_free(&cache);
  for (int i = 0; i < FRAMES; i++)
    env_posix.unmap(&env_posix, memory[i], layout.extent_bytes);
}

TEST(empty_cache_has_no_slot) {
  open_cache(64);
  CHECK_EQ_INT(cache_next(&cache), 0);
  CHECK_EQ_INT(cache_victim(&cache), 0);
  close_cache();
}

/* The hand passes every slot of every frame once per round, and slots do not
** overlap. */
static void one_round(uint32_t frames) {
  uint32_t slots = frames * cache.slots_per_frame;
  uint64_t first = cache_next(&cache);
  uint64_t sum = 0, again = 0;
  for (uint32_t i = 0; i < slots; i++) {
    uint64_t address = i ? cache_next(&cache) : first;
    CHECK((address & 0xffff) < cache.slots_per_frame);
    char *slot = (char *)cache_at(&cache, address);
    int in = 0;
    for (int f = 0; f < FRAMES; f++)
      in += slot >= memory[f] &&
            slot + cache.slot_bytes <= memory[f] + layout.extent_bytes &&
            (size_t)(slot - memory[f]) % cache.slot_bytes == 0;
    CHECK_EQ_INT(in, 1);
    /* Stamped once in this round. */
    CHECK_EQ_INT(atomic_load(&cache_at(&cache, address)->log_address), 0);
    atomic_store(&cache_at(&cache, address)->log_address, 1);
    sum += address;
  }
  for (uint32_t i = 0; i < slots; i++) {
    uint64_t address = cache_next(&cache);
    atomic_store(&cache_at(&cache, address)->log_address, 0);
    again += address;
  }
  CHECK(sum == again);
}

TEST(hand_passes_every_slot_once_per_round) {
  const uint32_t dims[] = {1, 64, 1000, 16384};
  for (size_t d = 0; d < 4; d++) {
    open_cache(dims[d]);
    CHECK(cache.slots_per_frame > 0 && cache.slots_per_frame <= 0xffff);
    for (uint32_t f = 0; f < FRAMES; f++) {
      CHECK(cache_add_frame(&cache, memory[f]));
      /* New slots are free, and the hand stands before them. */
      uint64_t address = (uint64_t)(f + 1) << 16;
      CHECK_EQ_INT(atomic_load(&cache_at(&cache, address)->log_address), 0);
      CHECK_EQ_INT(
          rec_version(atomic_load(&cache_at(&cache, address)->rec.stamp)), 0);
      one_round(f + 1);
    }
    CHECK(!cache_add_frame(&cache, memory[0]));
    close_cache();
  }
}

TEST(frames_leave_and_come_back) {
  open_cache(64);
  for (int i = 0; i < FRAMES; i++)
    CHECK(cache_add_frame(&cache, memory[i]));
  for (uint32_t left = FRAMES; left > 0; left--) {
    uint32_t victim = cache_victim(&cache);
    CHECK(victim >= 1 && victim <= FRAMES);
    CHECK(cache_take_frame(&cache, victim) == memory[victim - 1]);
    CHECK_EQ_INT(atomic_load(&cache.frame_count), left - 1);
    if (left > 1)
      one_round(left - 1);
  }
  CHECK_EQ_INT(cache_next(&cache), 0);
  for (int i = 0; i < FRAMES; i++)
    CHECK(cache_add_frame(&cache, memory[i]));
  one_round(FRAMES);
  close_cache();
}

/* A frame that is about to leave takes no further record. */
TEST(the_hand_skips_a_closed_frame) {
  open_cache(64);
  for (int i = 0; i < FRAMES; i++)
    CHECK(cache_add_frame(&cache, memory[i]));
  cache_close_frame(&cache, 3);
  for (uint32_t i = 0; i < 2 * FRAMES * cache.slots_per_frame; i++)
    if (!CHECK(cache_next(&cache) >> 16 != 3))
      break;
  CHECK(cache_take_frame(&cache, 3) == memory[2]);
  one_round(FRAMES - 1);
  close_cache();
}

/* ---- which records ------------------------------------------------------- */

enum { POOL = 40, KEYS = 40000, DIM = 64 };

static struct core core;

static uint64_t log_address_of(int64_t key) { return 1000 + (uint64_t)key; }

static void open_core(void) {
  memset(&core, 0, sizeof core);
  core.env = &env_posix;
  layout_plain(&core.layout, DIM, EMB_F32);
  epoch_init(&core.epoch, &env_posix);
  CHECK_EQ_INT(index_init(&core.index, &env_posix, &core.epoch, 4), 0);
  CHECK_EQ_INT(
      frames_init(&core.frames, &env_posix, core.layout.extent_bytes, POOL), 0);
  CHECK_EQ_INT(cache_init(&core.cache, &env_posix, &core.layout, POOL), 0);
  CHECK_EQ_INT(ghosts_init(&core.ghosts, &env_posix), 0);
  for (int64_t key = 0; key < KEYS; key++) {
    struct index_new new = {
        .key = key, .hash = hash_key(key), .word = log_address_of(key)};
    CHECK_EQ_INT(index_insert(&core.index, &new), EMB_OK);
  }
}

static void close_core(void) {
  index_free(&core.index);
  cache_free(&core.cache);
  ghosts_free(&core.ghosts);
  frames_free(&core.frames);
  epoch_free(&core.epoch);
}

static void offer(int64_t key, uint64_t address, const void *value,
                  uint64_t version) {
  promote_offer(&core, &(struct cache_offer){.key = key,
                                             .hash = hash_key(key),
                                             .address = address,
                                             .value = value,
                                             .version = version});
}

/* Reads the key as rows/get.c does; returns 1 if it was in the cache. */
static int read_key(int64_t key) {
  uint64_t word, version = 0;
  int64_t vector[DIM / 2];
  struct entry *entry = index_find(&core.index, key, hash_key(key), &word);
  if (word & WORD_CACHED) {
    struct cache_slot *slot = cache_at(&core.cache, word_address(word));
    CHECK(rec_read(&slot->rec, key, vector, sizeof vector, &version));
    CHECK(vector[0] == key && vector[DIM / 2 - 1] == key);
    CHECK(version == (uint64_t)key + 1);
    CHECK(atomic_load(&slot->log_address) == log_address_of(key));
    key_touch(entry, word);
    return 1;
  }
  CHECK(word_address(word) == log_address_of(key));
  for (int i = 0; i < DIM / 2; i++)
    vector[i] = key;
  offer(key, word_address(word), vector, (uint64_t)key + 1);
  return 0;
}

/* All words that point into the cache are right, and `used` counts them. */
static void check_words(void) {
  uint64_t cached = 0;
  for (int64_t key = 0; key < KEYS; key++) {
    uint64_t word;
    (void)index_find(&core.index, key, hash_key(key), &word);
    CHECK(!(word & WORD_LATCH));
    CHECK(key_log_address(&core, word) == log_address_of(key));
    cached += (word & WORD_CACHED) != 0;
  }
  CHECK(atomic_load(&core.cache.used) == cached);
}

TEST(records_are_promoted_and_right) {
  open_core();
  uint64_t room =
      (uint64_t)(POOL - core_low_water(&core)) * core.cache.slots_per_frame;
  for (int i = 0; i < 200000; i++)
    (void)read_key((int64_t)(test_random() % KEYS));
  check_words();
  CHECK(atomic_load(&core.cache.used) > room / 2);
  CHECK(atomic_load(&core.cache.used) <= room);
  CHECK_EQ_INT(frames_left(&core.frames), core_low_water(&core));
  close_core();
}

/* Records that are read repeatedly stay when many are read once. */
TEST(hot_records_survive_a_scan) {
  enum { HOT = 2000 };
  open_core();
  for (int round = 0; round < 6; round++)
    for (int64_t key = 0; key < HOT; key++)
      (void)read_key(key);
  for (int64_t key = HOT; key < KEYS; key++) {
    (void)read_key(key);
    (void)read_key((int64_t)(test_random() % HOT));
  }
  int hits = 0;
  for (int64_t key = 0; key < HOT; key++)
    hits += read_key(key);
  test_check(hits > HOT * 8 / 10, __FILE__, __LINE__, "%d of %d hot records",
             hits, HOT);
  check_words();
  close_core();
}

TEST(record_that_moved_is_not_promoted) {
  open_core();
  char vector[DIM * 4] = {0};
  (void)read_key(1); /* makes a frame */
  for (int64_t key = 2; key < 100; key++) {
    offer(key, log_address_of(key) + 1, vector, 1);
    offer(KEYS + key, 5, vector, 1);
    uint64_t word;
    struct entry *entry = index_find(&core.index, key, hash_key(key), &word);
    CHECK(word == log_address_of(key));
    atomic_store(&entry->word, word | WORD_LATCH);
    offer(key, log_address_of(key), vector, 1);
    CHECK(atomic_load(&entry->word) == (word | WORD_LATCH));
    atomic_store(&entry->word, word);
  }
  CHECK_EQ_INT(atomic_load(&core.cache.used), 1);
  check_words();
  close_core();
}

/* A word gives no address if its slot now has another key's record, or is being
** filled or emptied. */
TEST(address_of_a_cached_record_is_its_own) {
  open_core();
  uint64_t word;
  (void)read_key(1);
  (void)index_find(&core.index, 1, hash_key(1), &word);
  CHECK(word & WORD_CACHED);
  struct cache_slot *slot = cache_at(&core.cache, word_address(word));
  CHECK(key_cached_address(&core, 1, word) == log_address_of(1));
  CHECK(key_find_address(&core, 1, hash_key(1)) == log_address_of(1));
  CHECK(key_cached_address(&core, 2, word) == 0);
  cache_pin(&core.cache, slot);
  CHECK(key_cached_address(&core, 1, word) == log_address_of(1));
  cache_unpin(&core.cache, slot);
  uint64_t version = rec_version(atomic_load(&slot->rec.stamp));
  rec_begin(&slot->rec);
  CHECK(key_cached_address(&core, 1, word) == 0);
  rec_end(&slot->rec, version);
  uint64_t address = atomic_exchange(&slot->log_address, 0);
  CHECK(key_cached_address(&core, 1, word) == 0);
  atomic_store(&slot->log_address, address);
  CHECK(key_cached_address(&core, 1, word) == log_address_of(1));
  close_core();
}

TEST(pending_and_intent_survive_promotion_and_reclaim) {
  open_core();
  const uint64_t kept = WORD_INTENT | UINT64_C(77) << WORD_PENDING_SHIFT;
  for (int64_t key = 0; key < KEYS; key++) {
    uint64_t word;
    struct entry *entry = index_find(&core.index, key, hash_key(key), &word);
    atomic_store(&entry->word, word | kept);
  }
  for (int i = 0; i < 100000; i++)
    (void)read_key((int64_t)(test_random() % KEYS));
  for (int64_t key = 0; key < KEYS; key++) {
    uint64_t word;
    (void)index_find(&core.index, key, hash_key(key), &word);
    CHECK((word & kept) == kept);
  }
  check_words();
  close_core();
}

TEST(cache_shrinks_to_nothing) {
  open_core();
  struct epoch_slot *slot = epoch_join(&core.epoch);
  for (int i = 0; i < 60000; i++)
    (void)read_key((int64_t)(test_random() % KEYS));
  uint32_t frames = atomic_load(&core.cache.frame_count);
  uint32_t left = frames_left(&core.frames);
  for (uint32_t i = 1; i <= frames; i++) {
    CHECK(promote__shrink(&core, slot));
    CHECK_EQ_INT(frames_left(&core.frames), left + i);
    check_words();
  }
  CHECK(!promote__shrink(&core, slot));
  CHECK_EQ_INT(atomic_load(&core.cache.used), 0);
  for (int i = 0; i < 60000; i++)
    (void)read_key((int64_t)(test_random() % KEYS));
  check_words();
  epoch_part(slot);
  close_core();
}
