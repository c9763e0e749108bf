/* SPDX-License-Identifier: MIT
**
** index_valid.c -- is a partition, or the whole index, as index.h says?  Only
** in builds with self-checks (base/debug.h).
**
** Under a partition's lock entries can only be emptied: adding or moving one
** takes the lock.  So an entry seen at any moment of the walk was there when
** the walk began.
*/
#include "index.h"

#if EMB_DEBUG > 0

/* The geometry that lookups use must match the table. */
static void check_shape(const struct index_shape *shape,
                        const struct index_table *table) {
  uint32_t buckets =
      atomic_load_explicit(&shape->buckets, memory_order_relaxed);
  emb_assert(
      (atomic_load_explicit(&shape->shape_seq, memory_order_relaxed) & 1) == 0);
  emb_assert((atomic_load_explicit(&shape->seq, memory_order_relaxed) & 1) ==
             0);
  emb_assert(buckets == (table ? table->buckets : 0));
  if (!table) {
    return;
  }
  emb_assert(table->segments >= 4 && table->segments <= INDEX_SEGMENTS_MAX);
  emb_assert(table->buckets == table->segments << table->shift);
  emb_assert(table->shift ==
             atomic_load_explicit(&shape->shift, memory_order_relaxed));
  for (uint32_t i = 0; i < table->segments; i++) {
    emb_assert(table->segment[i] &&
               table->segment[i] == atomic_load_explicit(&shape->segment[i],
                                                         memory_order_relaxed));
    emb_assert((uintptr_t)table->segment[i] % sizeof(struct bucket) == 0);
  }
}

/* I1: counts the occurrences of a key in a bucket. */
static int times_in(struct bucket *bucket, int64_t key) {
  int times = 0;
  for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
    struct entry *entry = &bucket->entries[i];
    times += atomic_load_explicit(&entry->word, memory_order_acquire) != 0 &&
             atomic_load_explicit(&entry->key, memory_order_relaxed) == key;
  }
  return times;
}

static void check_entry(const struct index *index, uint32_t part,
                        const struct index_table *table, uint32_t at,
                        struct entry *entry) {
  int64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
  uint64_t hash = hash_key(key);
  uint32_t first = index_first(table, hash), second = index_second(table, hash);
  emb_assert(hash >> (64 - index->part_bits) == part);
  emb_assert(at == first || at == second);
  int times = times_in(index_bucket(table, first), key);
  times += second == first ? 0 : times_in(index_bucket(table, second), key);
  emb_assert(times <= 1);
}

/* Checks the entries of a table and returns the number in use. */
static uint64_t index_valid_check_table(const struct index *index,
                                        uint32_t part,
                                        const struct index_table *table,
                                        int alone) {
  uint64_t used = 0;
  for (uint32_t b = 0; table && b < table->buckets; b++) {
    for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
      struct entry *entry = &index_bucket(table, b)->entries[i];
      uint64_t word = atomic_load_explicit(&entry->word, memory_order_acquire);
      emb_assert(!alone || !(word & WORD_LATCH)); /* K2: none is held */
      if (word) {
        check_entry(index, part, table, b, entry);
        used++;
      }
    }
  }
  return used;
}

static void check_part(const struct index *index, uint32_t p, int alone) {
  struct index_part *part = &index->parts[p];
  struct index_table *table =
      atomic_load_explicit(&part->table, memory_order_relaxed);
  uint64_t count = atomic_load_explicit(&part->count, memory_order_acquire);
  check_shape(&index->shapes[p], table);
  uint64_t used = index_valid_check_table(index, p, table, alone);
  /* A key being removed stays counted a little longer than it is there. */
  emb_assert(alone ? used == count : used <= count);
}

int index_part_valid(const struct index *index, const struct index_part *part) {
  check_part(index, (uint32_t)(part - index->parts), 0);
  return 1;
}

int index_valid(const struct index *index) {
  for (uint32_t p = 0; index->shapes && p < index_parts(index); p++) {
    check_part(index, p, 1);
  }
  return 1;
}

#endif
