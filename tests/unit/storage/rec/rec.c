/* SPDX-License-Identifier: MIT
**
** rec.c -- tests of engine/storage/rec/rec.h: a reader concurrent with a writer
** gets one complete version of a vector, and never a mixture.
*/
#include "test.h"

#include "engine/storage/rec/rec.h"

#include <pthread.h>

enum { ELEMENTS_MAX = 300 };

/* A record with the alignment of a record in a frame. */
struct room {
  _Alignas(8) char bytes[REC_HEAD_BYTES + 8 * ELEMENTS_MAX + 8];
};

static struct rec *rec_of(struct room *room) {
  memset(room, 0, sizeof *room);
  return (struct rec *)(void *)room->bytes;
}

TEST(read_gives_back_what_was_filled) {
  struct room room;
  char vector[64], got[64];
  for (size_t n = 0; n <= sizeof vector; n++) {
    struct rec *rec = rec_of(&room);
    for (size_t i = 0; i < sizeof vector; i++)
      vector[i] = (char)test_random();
    int64_t key = (int64_t)test_random();
    uint64_t version = test_random() >> REC_VERSION_SHIFT, seen = 0;
    rec_fill(rec, key, vector, n, version);
    memset(got, 0x5a, sizeof got);
    CHECK(rec_read(rec, key, got, n, &seen));
    CHECK(memcmp(got, vector, n) == 0);
    CHECK(n == sizeof got || got[n] == 0x5a);
    CHECK(seen == version);
    seen = 0;
    CHECK(rec_read(rec, key, NULL, 0, &seen));
    CHECK(seen == version);
    CHECK(!rec_read(rec, key ^ 1, got, n, &seen));
  }
}

TEST(fresh_slot_has_version_zero) {
  struct room room;
  struct rec *rec = rec_of(&room);
  CHECK_EQ_INT(rec_version(atomic_load(&rec->stamp)), 0);
}

/* Readers compare the stamp; versions of different keys may be equal. */
TEST(stamp_differs_after_every_change) {
  struct room room;
  struct rec *rec = rec_of(&room);
  uint64_t vector = 0, before = atomic_load(&rec->stamp);
  const uint64_t versions[] = {5, 5, 6, 5, 5, UINT64_MAX >> 16, 5};
  for (int i = 0; i < 70000; i++) {
    uint64_t version = versions[i % 7];
    rec_begin(rec);
    uint64_t during = atomic_load(&rec->stamp);
    CHECK((during & REC_BUSY) && during != before);
    rec_fill(rec, i % 3, &vector, sizeof vector, version);
    uint64_t after = atomic_load(&rec->stamp);
    CHECK(!(after & REC_BUSY));
    CHECK(after != before && after != during);
    CHECK(rec_version(after) == version);
    before = after;
  }
}

/* ---- with a concurrent writer -------------------------------------------- */

enum { READERS = 2, WRITES = 60000, KEYS = 3 };

struct beside {
  struct rec *rec;
  size_t elements;
  _Atomic uint64_t seed;
  _Atomic int stop;
  _Atomic uint64_t reads;
};

/* Element i of the writer's vector with this number. */
static uint64_t element(uint64_t number, size_t i) {
  return number * UINT64_C(0x9E3779B97F4A7C15) + i;
}

static void *read_beside(void *arg) {
  struct beside *b = arg;
  uint64_t got[ELEMENTS_MAX], last[KEYS] = {0};
  uint64_t state = atomic_fetch_add(&b->seed, 1);
  while (!atomic_load(&b->stop)) {
    int64_t key = (int64_t)(test_random_from(&state) % KEYS);
    uint64_t version;
    if (!rec_read(b->rec, key, got, b->elements * 8, &version))
      continue; /* the slot has another key now */
    atomic_fetch_add(&b->reads, 1);
    /* The version is the number / 4; the last bits are in the vector. */
    uint64_t number = got[0] * UINT64_C(0xF1DE83E19937733D);
    CHECK(number / 4 == version);
    CHECK((int64_t)(number % KEYS) == key);
    CHECK(number >= last[key]);
    last[key] = number;
    for (size_t i = 0; i < b->elements; i++)
      if (got[i] != element(number, i))
        CHECK_EQ_INT(i, -1); /* torn */
  }
  return NULL;
}

static void write_one(struct beside *b, uint64_t number) {
  uint64_t vector[ELEMENTS_MAX];
  for (size_t i = 0; i < b->elements; i++)
    vector[i] = element(number, i);
  rec_begin(b->rec);
  rec_fill(b->rec, (int64_t)(number % KEYS), vector, b->elements * 8,
           number / 4);
}

/* The writer keeps changing one slot, for several keys in turn as the cache
** does, and often without a new version. */
static void run_beside(size_t elements) {
  struct room room;
  struct beside b = {.rec = rec_of(&room), .elements = elements};
  pthread_t threads[READERS];
  atomic_store(&b.seed, test_random());
  write_one(&b, 4);
  for (int i = 0; i < READERS; i++)
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, read_beside, &b), 0);
  /* On a busy machine the readers may begin late. */
  for (uint64_t number = 5;
       number < WRITES || atomic_load(&b.reads) < WRITES / 100; number++) {
    write_one(&b, number);
    if (number % 1000 == 0)
      sched_yield();
  }
  atomic_store(&b.stop, 1);
  for (int i = 0; i < READERS; i++)
    pthread_join(threads[i], NULL);
}

TEST(small_vector_is_never_torn) { run_beside(2); }
TEST(vector_of_a_few_lines_is_never_torn) { run_beside(32); }
TEST(large_vector_is_never_torn) { run_beside(ELEMENTS_MAX); }
