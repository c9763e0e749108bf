/* SPDX-License-Identifier: MIT
**
** index.h -- where each key is: a bucketized cuckoo table from whole keys to
** words, without collisions, in 17 to 23 bytes per key.
**
**   partition   chosen by the top bits of the hash; grows on its own, so a
**               growth stalls only writers of 1/1024 of the keys
**   table       4..6 segments of 2^shift buckets: the bucket count takes the
**               values 4,5,6 * 2^k.  Growing by a fifth to a third at 94 % load
**               keeps the load above 70 % (index_grow.c).  After most keys are
**               removed, index_shrink makes it small again.
**   bucket      one cache line of four entries {key, word}; two candidate
**               buckets per key
**
** Ideas: bucketized cuckoo (Dietzfelbinger and Weidling 2007), breadth-first
** displacement and versioned readers (MemC3, libcuckoo), partial expansion
** (Larson 1988).
**
** INVARIANT I1  A key occurs once, except for the instant in which its entry
**               is moved: the old entry is latched, copied, then emptied.
**           I2  An entry's word changes only as word.h says; only the holder
**               of the partition's lock changes it from 0, or changes its key.
**           I3  A reader that finds nothing checks `seq` again: if entries
**               moved during the lookup, it is odd or different.
** FAILURE   Only growth and shrinking allocate; if memory runs out the table
**           stays unchanged.
** THREADS   Lookups take no lock, between epoch_enter and epoch_leave.
**           index_insert and index_each take the partition's spin lock; they
**           must not be called with a latch held.  A private index (no epoch)
**           has one user.
*/
#ifndef EMB_INDEX_H
#define EMB_INDEX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/fence.h"
#include "engine/base/hash.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"
#include "engine/base/epoch/epoch.h"
#include "index_memory.h"
#include "word.h"

#define INDEX_BUCKET_ENTRIES 4
#define INDEX_SEGMENTS_MAX 6
#define INDEX_PART_BITS_MAX 10

/* index_insert: the key exists already. */
#define INDEX_EXISTS (-1)

struct entry {
  /* Written under the partition's lock while word is 0; read relaxed, and
  ** checked again after the word is loaded. */
  _Atomic int64_t key;
  /* See word.h; release stores, acquire loads. */
  _Atomic uint64_t word;
};

struct bucket {
  _Alignas(64) struct entry entries[INDEX_BUCKET_ENTRIES];
};
_Static_assert(sizeof(struct bucket) == 64, "a bucket is a cache line");

struct index_table {
  uint32_t buckets;
  uint32_t shift; /* log2 of buckets per segment */
  uint32_t segments;
  uint32_t small; /* all segments are one block of env->allocate */
  struct index_table *next_retired;
  uint64_t retired_at;
  void *block;
  struct bucket *segment[INDEX_SEGMENTS_MAX];
};

/* The geometry of a partition's table: all that a lookup needs, in one cache
** line. */
struct index_shape {
  /* Odd while the geometry is being replaced, under the partition's lock
  ** (release).  Lookups read it before (acquire) and after the geometry, and
  ** the geometry relaxed. */
  _Alignas(64) _Atomic uint32_t shape_seq;
  _Atomic uint32_t shift;
  _Atomic uint32_t buckets; /* 0: no table yet */
  /* Odd while entries are being moved; written under lock (release), read by
  ** lookups (acquire). */
  _Atomic uint32_t seq;
  _Atomic(struct bucket *) segment[INDEX_SEGMENTS_MAX];
};
_Static_assert(sizeof(struct index_shape) == 64, "one cache line");

struct index_part {
  spin_lock lock;
  /* Published by release, followed with acquire; NULL until the first key. */
  _Atomic(struct index_table *) table;
  /* Number of keys; raised relaxed by an insert, lowered by a removal
  ** (release). */
  _Atomic uint64_t count;
};

struct index {
  struct env *env;
  struct epoch *epoch; /* NULL: one user, nothing is retired */
  uint32_t part_bits;
  int is_wide; /* the processor compares all keys of a bucket at once (AVX2) */
  struct index_part *parts;
  struct index_shape *shapes; /* of the same partitions */
  /* No table that a reader can see has more buckets; written under
  ** publish_lock, read relaxed. */
  _Atomic uint32_t buckets_max;
  spin_lock publish_lock; /* the innermost */
  struct index_memory memory;
  /* Old tables that a reader may still hold. */
  spin_lock retired_lock;
  struct index_table *retired;
};

/* part_bits: 1 .. INDEX_PART_BITS_MAX. */
int index_init(struct index *index, struct env *env, struct epoch *epoch,
               uint32_t part_bits);
/* The caller is alone. */
void index_free(struct index *index);
/* Empties the index, keeping little memory; the caller is alone. */
void index_clear(struct index *index);

static inline struct index_part *index_part_of(const struct index *index,
                                               uint64_t hash) {
  return &index->parts[hash >> (64 - index->part_bits)];
}
static inline struct index_shape *index_shape_of(const struct index *index,
                                                 uint64_t hash) {
  return &index->shapes[hash >> (64 - index->part_bits)];
}
static inline uint32_t index_first(const struct index_table *t, uint64_t hash) {
  return (uint32_t)(((hash << INDEX_PART_BITS_MAX >> 32) * t->buckets) >> 32);
}
static inline uint32_t index_second(const struct index_table *t,
                                    uint64_t hash) {
  return (
      uint32_t)(((hash * UINT64_C(0x9E3779B97F4A7C15) >> 32) * t->buckets) >>
                32);
}
static inline struct bucket *index_bucket(const struct index_table *t,
                                          uint32_t i) {
  return &t->segment[i >> t->shift][i & ((UINT32_C(1) << t->shift) - 1)];
}

/* Returns the bucket of a partition that `hash`, scaled to the bucket count,
** selects; NULL if there is no table or it is being replaced. */
static inline struct bucket *index_shape_bucket(const struct index_shape *shape,
                                                uint32_t hash) {
  uint32_t seq = atomic_load_explicit(&shape->shape_seq, memory_order_acquire);
  uint32_t buckets =
      atomic_load_explicit(&shape->buckets, memory_order_relaxed);
  uint32_t shift = atomic_load_explicit(&shape->shift, memory_order_relaxed);
  uint32_t i = (uint32_t)((uint64_t)hash * buckets >> 32);
  uint32_t number = i >> (shift & 31);
  /* A mix of two geometries can give any number. */
  number = number < INDEX_SEGMENTS_MAX ? number : INDEX_SEGMENTS_MAX - 1;
  struct bucket *segment =
      atomic_load_explicit(&shape->segment[number], memory_order_relaxed);
  fence_acquire();
  if ((seq & 1) || !buckets ||
      atomic_load_explicit(&shape->shape_seq, memory_order_relaxed) != seq) {
    return NULL;
  }
  return &segment[i & ((UINT32_C(1) << shift) - 1)];
}
/* The two candidate buckets of a key, or NULL: use index_find then. */
static inline struct bucket *index_first_bucket(const struct index *index,
                                                uint64_t hash) {
  return index_shape_bucket(index_shape_of(index, hash),
                            (uint32_t)(hash << INDEX_PART_BITS_MAX >> 32));
}
static inline struct bucket *index_second_bucket(const struct index *index,
                                                 uint64_t hash) {
  return index_shape_bucket(
      index_shape_of(index, hash),
      (uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32));
}
/* Prefetches both. */
static inline void index_prefetch(const struct index *index, uint64_t hash) {
  __builtin_prefetch(index_first_bucket(index, hash));
  __builtin_prefetch(index_second_bucket(index, hash));
}
/* Returns the entry of key in one bucket.  The key is compared again after the
** word is loaded: the entry may have been emptied and reused for another key.
** All four keys are compared before the first branch, since which one matches
** cannot be predicted. */
static inline struct entry *index_match(struct bucket *bucket, int64_t key,
                                        uint64_t *word) {
  unsigned hits = 0;
  for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
    hits |= (unsigned)(atomic_load_explicit(&bucket->entries[i].key,
                                            memory_order_relaxed) == key)
            << i;
  }
  while (hits) {
    struct entry *entry = &bucket->entries[__builtin_ctz(hits)];
    uint64_t w = atomic_load_explicit(&entry->word, memory_order_acquire);
    if (w && atomic_load_explicit(&entry->key, memory_order_relaxed) == key) {
      *word = w;
      return entry;
    }
    hits &= hits - 1;
  }
  return NULL;
}

/* Number of entry places, counted as if each partition were as large as the
** largest.  Whatever the sizes, and even if a partition grows during the call,
** a key has one number, so a random number finds each key with the same
** probability. */
static inline uint64_t index_places(const struct index *index) {
  return ((uint64_t)INDEX_BUCKET_ENTRIES << index->part_bits) *
         atomic_load_explicit(&index->buckets_max, memory_order_relaxed);
}
/* Returns the entry at a number below index_places, empty or not; NULL if the
** partition has no such place or its table is being replaced.  Call inside an
** epoch. */
static inline struct entry *index_place(const struct index *index,
                                        uint64_t number) {
  const struct index_shape *shape =
      &index->shapes[number & ((UINT64_C(1) << index->part_bits) - 1)];
  uint64_t at = number >> index->part_bits;
  uint32_t seq = atomic_load_explicit(&shape->shape_seq, memory_order_acquire);
  uint32_t buckets =
      atomic_load_explicit(&shape->buckets, memory_order_relaxed);
  uint32_t shift = atomic_load_explicit(&shape->shift, memory_order_relaxed);
  uint32_t i = (uint32_t)(at / INDEX_BUCKET_ENTRIES);
  uint32_t n = i >> (shift & 31);
  n = n < INDEX_SEGMENTS_MAX ? n : INDEX_SEGMENTS_MAX - 1;
  struct bucket *segment =
      atomic_load_explicit(&shape->segment[n], memory_order_relaxed);
  fence_acquire();
  if ((seq & 1) || i >= buckets ||
      atomic_load_explicit(&shape->shape_seq, memory_order_relaxed) != seq) {
    return NULL;
  }
  return &segment[i & ((UINT32_C(1) << shift) - 1)]
              .entries[at % INDEX_BUCKET_ENTRIES];
}

/* Returns the entry of key, or NULL; *word is its word (never 0). */
struct entry *index_find(struct index *index, int64_t key, uint64_t hash,
                         uint64_t *word);
/* A block of a batch that is looked up in three steps, with other work between
** them while memory is fetched: begin, first, second.  Sets the words of absent
** keys to 0. */
#define INDEX_BLOCK 32
struct index_probe {
  struct bucket *bucket[INDEX_BLOCK];
  uint32_t missed[INDEX_BLOCK]; /* rows not found in their first bucket */
  uint32_t misses;
  uint32_t rows;
};
struct index_wanted { /* the rows of a block, and where the results go */
  const int64_t *keys;
  const uint64_t *hashes;
  struct entry **entries;
  uint64_t *words;
};
/* Prefetches the first buckets of n rows. */
void index_probe_begin(const struct index *index, struct index_probe *probe,
                       const uint64_t *hashes, uint32_t n);
/* Matches them, and prefetches the second bucket of each miss. */
void index_probe_first(const struct index *index, struct index_probe *probe,
                       const struct index_wanted *rows);
void index_probe_second(struct index *index, const struct index_probe *probe,
                        const struct index_wanted *rows);
/* Looks up a batch in such steps, without other work. */
void index_find_batch(struct index *index, const int64_t *keys,
                      const uint64_t *hashes, size_t n, struct entry **entries,
                      uint64_t *words);

struct index_new { /* a key to add */
  int64_t key;
  uint64_t hash;
  uint64_t word;
  int is_absent; /* the caller, the only user, has checked this */
  /* If set, called again under the lock; it may refuse the insert (its result
  ** is returned).  For inserts that depend on the key not having been removed
  ** in between. */
  int (*guard)(void *arg);
  void *arg;
  struct entry *entry; /* out: the key's entry, also with INDEX_EXISTS */
  uint64_t present;    /* out with INDEX_EXISTS: the existing word */
};
/* Adds a key.  Returns EMB_OK, INDEX_EXISTS, EMB_NOMEM, or the result of the
** guard. */
int index_insert(struct index *index, struct index_new *new);
/* Empties an entry whose latch the caller holds.  Takes no lock: a growth that
** waits for the latch holds the partition's lock. */
void index_remove(struct index *index, struct entry *entry, uint64_t hash);

/* Calls `each` for every key of one partition, under its lock: `each` must be
** quick and must not change the index. */
void index_each(struct index *index, uint32_t part,
                void (*each)(void *arg, int64_t key, uint64_t word), void *arg);
static inline uint32_t index_parts(const struct index *index) {
  return UINT32_C(1) << index->part_bits;
}
uint64_t index_count(const struct index *index);
uint64_t index_bytes(const struct index *index);
/* Sizes an empty partition for n keys (loading). */
int index_reserve(struct index *index, uint32_t part, uint64_t n);
/* Replaces the table of a nearly empty partition by one that fits; if there is
** no memory for the new table, the partition stays unchanged.  Like
** index_insert, it may run concurrently with other threads: inside an epoch,
** without a latch. */
void index_shrink(struct index *index, uint32_t part);
/* Call after shrinking: sets index_places to the current size of the largest
** partition. */
void index_measure(struct index *index);
/* Empties the index and returns its memory to the system.  The caller is
** alone. */
void index_discard(struct index *index);
/* Frees retired tables that no reader can still hold. */
void index_reclaim(struct index *index);
/* Are there retired tables that a reader may hold? */
int index_has_retired(struct index *index);

/* index_grow.c, called by index.c under the partition's lock: replaces the
** table by the next larger one. */
int index__grow(struct index *index, struct index_part *part);
/* Makes this the partition's table; called under the partition's lock, or
** alone. */
void index__publish(struct index *index, struct index_part *part,
                    struct index_table *table);
/* A table for at least `buckets` buckets; NULL when out of memory. */
struct index_table *index_table_new(struct index *index, uint64_t buckets);
void index__table_free(struct index *index, struct index_table *table);
/* Places an entry without growing the table.  The table is not shared, or the
** partition is locked.  Returns NULL if there is no room. */
struct entry *index__table_insert(struct index_table *table, int64_t key,
                                  uint64_t hash, uint64_t word,
                                  _Atomic uint32_t *seq);

/* index_valid.c, for emb_check.  Call the first under the partition's lock,
** while lookups and removals may run; the second when the caller is alone. */
int index_part_valid(const struct index *index, const struct index_part *part);
int index_valid(const struct index *index);

#endif
