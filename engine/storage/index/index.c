/* SPDX-License-Identifier: MIT
**
** index.c -- lookup, insert, remove; see index.h.
*/
#include "index.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/base/fence.h"
#include "engine/emb.h"
#include "engine/math/vec/vec.h"

static size_t parts_bytes(const struct index *index) {
  return (sizeof(struct index_shape) + sizeof(struct index_part))
         << index->part_bits;
}

int index_init(struct index *index, struct env *env, struct epoch *epoch,
               uint32_t part_bits) {
  memset(index, 0, sizeof *index);
  index->env = env;
  index->epoch = epoch;
  index->part_bits = part_bits;
  index->is_wide = vec_best()->width >= sizeof(struct bucket) / 2;
  index__memory_init(&index->memory, env);
  index->shapes = env->map(env, parts_bytes(index), 0);
  index->parts =
      (struct index_part *)(void *)(index->shapes + index_parts(index));
  return index->shapes ? EMB_OK : EMB_NOMEM;
}

void index_clear(struct index *index) {
  if (!index->shapes) {
    return;
  }
  emb_check(index_valid(index));
  for (uint32_t i = 0; i < index_parts(index); i++) {
    struct index_part *part = &index->parts[i];
    struct index_table *table = atomic_load(&part->table);
    if (table) {
      index__publish(index, part, NULL);
      index__table_free(index, table);
    }
    atomic_store(&part->count, 0);
  }
  atomic_store(&index->buckets_max, 0);
  while (index->retired) {
    struct index_table *table = index->retired;
    index->retired = table->next_retired;
    index__table_free(index, table);
  }
}

void index_discard(struct index *index) {
  index_clear(index);
  index__memory_free_all(&index->memory);
}

void index_free(struct index *index) {
  if (!index->env) {
    return;
  }
  index_clear(index);
  index__memory_free_all(&index->memory);
  if (index->shapes) {
    index->env->unmap(index->env, index->shapes, parts_bytes(index));
    index->shapes = NULL;
  }
}

uint64_t index_count(const struct index *index) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < index_parts(index); i++) {
    count += atomic_load_explicit(&index->parts[i].count, memory_order_relaxed);
  }
  return count;
}

static struct entry *index_find_in(struct index_table *table, int64_t key,
                                   uint64_t hash, uint64_t *word) {
  struct entry *entry =
      index_match(index_bucket(table, index_first(table, hash)), key, word);
  if (!entry) {
    entry =
        index_match(index_bucket(table, index_second(table, hash)), key, word);
  }
  return entry;
}

struct entry *index_find(struct index *index, int64_t key, uint64_t hash,
                         uint64_t *word) {
  struct index_part *part = index_part_of(index, hash);
  struct index_shape *shape = index_shape_of(index, hash);
  unsigned spins = 0;
  for (;;) {
    uint32_t seq = atomic_load_explicit(&shape->seq, memory_order_acquire);
    struct index_table *table =
        atomic_load_explicit(&part->table, memory_order_acquire);
    struct entry *entry = table ? index_find_in(table, key, hash, word) : NULL;
    if (entry) {
      return entry;
    }
    /* The miss is true only if no entry was being moved during the lookup.
    ** The fence orders the loads of the keys before this load. */
    fence_acquire();
    if (!(seq & 1) &&
        atomic_load_explicit(&shape->seq, memory_order_acquire) == seq) {
      *word = 0;
      return NULL;
    }
    spin_pause(&spins);
  }
}

/* ---- batches ------------------------------------------------------------- */

/* While the buckets of one block are fetched from memory, the previous block is
** matched.  The loops are short and have no unpredictable branches: the
** processor works on many rows at the same time, and the more of them fit into
** its window, the more memory accesses overlap. */

void index_probe_begin(const struct index *index, struct index_probe *b,
                       const uint64_t *hashes, uint32_t n) {
  emb_assert(n <= INDEX_BLOCK);
  b->rows = n;
  for (uint32_t i = 0; i < n; i++) {
    b->bucket[i] = index_first_bucket(index, hashes[i]);
    __builtin_prefetch(b->bucket[i], 0, 2);
  }
}

/* Returns bit 2 i if entry i has the key. */
static inline __attribute__((always_inline)) unsigned
hits_scalar(const struct bucket *bucket, int64_t key) {
  unsigned hits = 0;
  for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
    hits |= (unsigned)(atomic_load_explicit(&bucket->entries[i].key,
                                            memory_order_relaxed) == key)
            << 2 * i;
  }
  return hits;
}

/* Like index_match, but without branches: found or not, *entry is one of the
** bucket's.  hits: bit 2 i, if entry i has the key. */
static inline __attribute__((always_inline)) int
match_branchless(struct bucket *bucket, int64_t key, unsigned hits,
                 struct entry **entry, uint64_t *word) {
  unsigned at = (unsigned)__builtin_ctz(hits | 1u << 2 * INDEX_BUCKET_ENTRIES) /
                2 % INDEX_BUCKET_ENTRIES;
  *entry = &bucket->entries[at];
  *word = atomic_load_explicit(&(*entry)->word, memory_order_acquire);
  return (*word != 0) &
         (atomic_load_explicit(&(*entry)->key, memory_order_relaxed) == key);
}

static inline __attribute__((always_inline)) void
match_first(struct index_probe *b, const struct index_wanted *rows,
            unsigned (*hits)(const struct bucket *, int64_t)) {
  static struct bucket nothing; /* of a partition without a table */
  uint32_t n = b->rows;
  b->misses = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct bucket *bucket = b->bucket[i] ? b->bucket[i] : &nothing;
    b->missed[b->misses] = i;
    b->misses +=
        !match_branchless(bucket, rows->keys[i], hits(bucket, rows->keys[i]),
                          &rows->entries[i], &rows->words[i]);
  }
}

#if defined(__x86_64__) && !FENCE_TSAN
/* Each key is loaded whole, as by hits_scalar; the lanes of the words are
** ignored. */
__attribute__((target("avx2"))) static inline unsigned
hits_avx2(const struct bucket *bucket, int64_t key) {
  const __m256i *at = (const __m256i *)(const void *)bucket->entries;
  __m256i same = _mm256_set1_epi64x(key);
  __m256i a = _mm256_cmpeq_epi64(_mm256_load_si256(at), same);
  __m256i c = _mm256_cmpeq_epi64(_mm256_load_si256(at + 1), same);
  unsigned low = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(a));
  unsigned high = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(c));
  return (low | high << 4) & 0x55;
}
__attribute__((target("avx2"))) static void
match_first_avx2(struct index_probe *b, const struct index_wanted *rows) {
  match_first(b, rows, hits_avx2);
}
#else
static void match_first_avx2(struct index_probe *b,
                             const struct index_wanted *rows) {
  match_first(b, rows, hits_scalar);
}
#endif

void index_probe_first(const struct index *index, struct index_probe *b,
                       const struct index_wanted *rows) {
  if (index->is_wide) {
    match_first_avx2(b, rows);
  } else {
    match_first(b, rows, hits_scalar);
  }
  for (uint32_t k = 0; k < b->misses; k++) {
    uint32_t i = b->missed[k];
    b->bucket[i] = index_second_bucket(index, rows->hashes[i]);
    __builtin_prefetch(b->bucket[i], 0, 2);
  }
}

void index_probe_second(struct index *index, const struct index_probe *b,
                        const struct index_wanted *rows) {
  for (uint32_t k = 0; k < b->misses; k++) {
    uint32_t i = b->missed[k];
    if (!b->bucket[i] ||
        !match_branchless(b->bucket[i], rows->keys[i],
                          hits_scalar(b->bucket[i], rows->keys[i]),
                          &rows->entries[i], &rows->words[i])) {
      rows->entries[i] =
          index_find(index, rows->keys[i], rows->hashes[i], &rows->words[i]);
    }
  }
}

static inline uint32_t index_block_rows(size_t n, size_t at) {
  return (uint32_t)(n - at < INDEX_BLOCK ? n - at : INDEX_BLOCK);
}

static inline struct index_wanted
index_wanted_from(const struct index_wanted *rows, size_t at) {
  return (struct index_wanted){rows->keys + at, rows->hashes + at,
                               rows->entries + at, rows->words + at};
}

void index_find_batch(struct index *index, const int64_t *keys,
                      const uint64_t *hashes, size_t n, struct entry **entries,
                      uint64_t *words) {
  const struct index_wanted all = {keys, hashes, entries, words};
  struct index_probe blocks[3];
  size_t rounds = (n + INDEX_BLOCK - 1) / INDEX_BLOCK + 2;
  for (size_t t = 0; t < rounds; t++) {
    size_t at = t * INDEX_BLOCK;
    if (at < n) {
      index_probe_begin(index, &blocks[t % 3], hashes + at,
                        index_block_rows(n, at));
    }
    at -= INDEX_BLOCK; /* may wrap, and is then not below n */
    if (at < n) {
      const struct index_wanted rows = index_wanted_from(&all, at);
      index_probe_first(index, &blocks[(t + 2) % 3], &rows);
    }
    at -= INDEX_BLOCK;
    if (at < n) {
      const struct index_wanted rows = index_wanted_from(&all, at);
      index_probe_second(index, &blocks[(t + 1) % 3], &rows);
    }
  }
}

int index_insert(struct index *index, struct index_new *new) {
  struct index_part *part = index_part_of(index, new->hash);
  int rc = EMB_OK;
  emb_assert(new->word != 0);
  spin_acquire(&part->lock);
  struct index_table *table =
      atomic_load_explicit(&part->table, memory_order_relaxed);
  new->entry = table && !new->is_absent
                   ? index_find_in(table, new->key, new->hash, &new->present)
                   : NULL;
  if (new->entry) {
    rc = INDEX_EXISTS;
  } else if (new->guard) {
    rc = new->guard(new->arg);
  }
  while (rc == EMB_OK) {
    uint64_t count = atomic_load_explicit(&part->count, memory_order_relaxed);
    if (table && count * 100 < (uint64_t)table->buckets * 4 * 94) {
      /* Count the key before a reader can find it and remove it. */
      atomic_fetch_add_explicit(&part->count, 1, memory_order_relaxed);
      new->entry = index__table_insert(table, new->key, new->hash, new->word,
                                       &index_shape_of(index, new->hash)->seq);
      if (new->entry) {
        break;
      }
      atomic_fetch_sub_explicit(&part->count, 1, memory_order_relaxed);
    }
    rc = index__grow(index, part);
    table = atomic_load_explicit(&part->table, memory_order_relaxed);
  }
  spin_release(&part->lock);
  return rc;
}

void index_remove(struct index *index, struct entry *entry, uint64_t hash) {
  emb_assert(atomic_load(&index_part_of(index, hash)->count) > 0);
  emb_assert(hash_key(atomic_load(&entry->key)) == hash);
  atomic_store_explicit(&entry->word, 0, memory_order_release);
  /* Release: the count must drop after the entry is emptied. */
  atomic_fetch_sub_explicit(&index_part_of(index, hash)->count, 1,
                            memory_order_release);
}

void index_each(struct index *index, uint32_t p,
                void (*each)(void *arg, int64_t key, uint64_t word),
                void *arg) {
  struct index_part *part = &index->parts[p];
  spin_acquire(&part->lock);
  struct index_table *table =
      atomic_load_explicit(&part->table, memory_order_relaxed);
  for (uint32_t b = 0; table && b < table->buckets; b++) {
    struct bucket *bucket = index_bucket(table, b);
    for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
      uint64_t word =
          atomic_load_explicit(&bucket->entries[i].word, memory_order_acquire);
      if (word) {
        each(
            arg,
            atomic_load_explicit(&bucket->entries[i].key, memory_order_relaxed),
            word);
      }
    }
  }
  spin_release(&part->lock);
}
