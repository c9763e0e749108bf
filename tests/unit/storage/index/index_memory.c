/* SPDX-License-Identifier: MIT
**
** index_memory.c -- tests of the index's buddy allocator: blocks never
** overlap, and freed blocks can be allocated again, in other sizes too.
*/
#include "test.h"

#include "engine/storage/index/index_memory.h"

struct taken {
  char *at;
  uint32_t order;
};

/* The first and last bytes hold the number of their owner. */
static void sign(struct taken *t, uint64_t owner) {
  memcpy(t->at, &owner, 8);
  memcpy(t->at + ((size_t)1 << t->order) - 8, &owner, 8);
}
static int signed_by(const struct taken *t, uint64_t owner) {
  uint64_t first, last;
  memcpy(&first, t->at, 8);
  memcpy(&last, t->at + ((size_t)1 << t->order) - 8, 8);
  return first == owner && last == owner;
}

static int by_address(const void *a, const void *b) {
  const char *x = ((const struct taken *)a)->at;
  const char *y = ((const struct taken *)b)->at;
  return x < y ? -1 : x > y;
}

TEST(random_blocks_do_not_overlap) {
  enum { BLOCKS = 400, ROUNDS = 60000 };
  static struct taken taken[BLOCKS];
  struct index_memory memory;
  index__memory_init(&memory, &env_posix);
  memset(taken, 0, sizeof taken);
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t owner = test_random() % BLOCKS;
    struct taken *t = &taken[owner];
    if (t->at) {
      CHECK(signed_by(t, owner));
      index__memory_give(&memory, t->at, t->order);
      t->at = NULL;
    } else {
      /* Small blocks are frequent; 4 MiB are mapped directly. */
      t->order = INDEX_MEMORY_MIN_ORDER + (uint32_t)(test_random() % 4);
      if (test_random() % 8 == 0)
        t->order = INDEX_MEMORY_MIN_ORDER + (uint32_t)(test_random() % 11);
      t->at = index__memory_take(&memory, t->order);
      if (!CHECK(t->at != NULL))
        return;
      CHECK((uintptr_t)t->at % 4096 == 0);
      sign(t, owner);
    }
  }
  uint64_t used = 0;
  qsort(taken, BLOCKS, sizeof *taken, by_address);
  for (int i = 0; i < BLOCKS; i++) {
    if (!taken[i].at)
      continue;
    used += UINT64_C(1) << taken[i].order;
    if (i + 1 < BLOCKS)
      CHECK(taken[i].at + ((size_t)1 << taken[i].order) <= taken[i + 1].at);
  }
  CHECK(used <= atomic_load(&memory.bytes));
  for (int i = 0; i < BLOCKS; i++)
    if (taken[i].at)
      index__memory_give(&memory, taken[i].at, taken[i].order);
  CHECK_EQ_INT(atomic_load(&memory.bytes), 0);
  CHECK_EQ_INT(memory.chunk_count, 0);
  index__memory_free_all(&memory);
}

/* Neighbours merge: after small blocks are freed in any order, a large block
** fits into the same memory. */
TEST(small_blocks_merge_into_large_ones) {
  enum { SMALL = 512 };
  char *small[SMALL];
  struct index_memory memory;
  index__memory_init(&memory, &env_posix);
  char *guard = index__memory_take(&memory, INDEX_MEMORY_MIN_ORDER);
  for (int i = 0; i < SMALL - 1; i++)
    small[i] = index__memory_take(&memory, INDEX_MEMORY_MIN_ORDER);
  uint64_t bytes = atomic_load(&memory.bytes);
  CHECK_EQ_INT(bytes, 1 << INDEX_MEMORY_MAX_ORDER);
  for (int i = SMALL - 1; i > 1; i--) { /* Fisher and Yates */
    int k = (int)(test_random() % (uint64_t)i);
    char *swap = small[i - 1];
    small[i - 1] = small[k];
    small[k] = swap;
  }
  for (int i = 0; i < SMALL - 1; i++)
    index__memory_give(&memory, small[i], INDEX_MEMORY_MIN_ORDER);
  /* Half, quarter, eighth ... are free around the first 4 KiB. */
  for (uint32_t order = INDEX_MEMORY_MAX_ORDER - 1;
       order >= INDEX_MEMORY_MIN_ORDER; order--)
    CHECK(index__memory_take(&memory, order) != NULL);
  CHECK(atomic_load(&memory.bytes) == bytes);
  (void)guard;
  index__memory_free_all(&memory);
}
