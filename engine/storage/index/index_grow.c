/* SPDX-License-Identifier: MIT
**
** index_grow.c -- placing entries, and replacing a partition's table by a
** larger or smaller one.
**
** PLACING   Uses a free entry in one of the two buckets; otherwise searches
**           breadth-first for a chain of entries that can each move to their
**           other bucket, and moves them from the end of the chain, so that no
**           key is ever missing.  An entry is latched before it moves: a
**           session about to change the word waits and looks it up again.
**           While entries move, seq is odd: a lookup that found nothing
**           retries.
** GROWING   Every entry of the old table is latched and copied.  The latch
**           stays set in the old table, so a change about to happen there
**           starts over and finds the new table.  Readers keep reading the old
**           table until it is replaced; it is then retired, and freed when no
**           session can see it.
** SHRINKING As growing, into a smaller table.
*/
#include <string.h>

#include "engine/base/fence.h"
#include "engine/base/seed.h"
#include "engine/emb.h"
#include "index.h"

#define SEARCH_MAX 192

struct index_grow_step {
  uint32_t bucket;
  int16_t parent; /* step whose entry would move here; -1: a start bucket */
  int16_t from;   /* index of that entry in the parent's bucket */
};

static struct entry *free_entry(struct bucket *bucket) {
  for (int i = 0; i < INDEX_BUCKET_ENTRIES; i++) {
    if (!atomic_load_explicit(&bucket->entries[i].word, memory_order_relaxed)) {
      return &bucket->entries[i];
    }
  }
  return NULL;
}

static struct entry *index_grow_fill(struct entry *entry, int64_t key,
                                     uint64_t word) {
  atomic_store_explicit(&entry->key, key, memory_order_relaxed);
  atomic_store_explicit(&entry->word, word, memory_order_release);
  return entry;
}

/* Takes the latch of an entry; another holder keeps it for a few instructions
** only. */
static uint64_t entry_latch(struct entry *entry) {
  unsigned spins = 0;
  for (;;) {
    uint64_t word = atomic_load_explicit(&entry->word, memory_order_acquire);
    if (!word) {
      return 0; /* removed during the wait */
    }
    if (!(word & WORD_LATCH) &&
        atomic_compare_exchange_weak_explicit(
            &entry->word, &word, word | WORD_LATCH, memory_order_acq_rel,
            memory_order_relaxed)) {
      return word;
    }
    spin_pause(&spins);
  }
}

/* Moves each entry of a chain one step; steps[at] has a free entry. */
static void carry_out(struct index_table *table, struct index_grow_step *steps,
                      int at, _Atomic uint32_t *seq) {
  uint32_t s = atomic_load_explicit(seq, memory_order_relaxed);
  atomic_store_explicit(seq, s + 1, memory_order_relaxed);
  fence_release(); /* seq is odd before the first entry moves */
  while (steps[at].parent >= 0) {
    struct bucket *from = index_bucket(table, steps[steps[at].parent].bucket);
    struct entry *old = &from->entries[steps[at].from];
    struct entry *to_entry = free_entry(index_bucket(table, steps[at].bucket));
    emb_assert(to_entry && to_entry != old); /* found under this lock */
    uint64_t word = entry_latch(old);
    if (word && !EMB_SEED(SEED_INDEX_MOVE_LOSES_ENTRY)) {
      index_grow_fill(to_entry,
                      atomic_load_explicit(&old->key, memory_order_relaxed),
                      word);
      atomic_store_explicit(&old->word, 0, memory_order_release);
    }
    at = steps[at].parent;
    emb_assert(free_entry(index_bucket(table, steps[at].bucket)));
  }
  atomic_store_explicit(seq, s + 2, memory_order_release);
}

/* A chain must not return to a bucket: its entries would have changed by
** then. */
static int on_path(const struct index_grow_step *steps, int at,
                   uint32_t bucket) {
  for (; at >= 0; at = steps[at].parent) {
    if (steps[at].bucket == bucket) {
      return 1;
    }
  }
  return 0;
}

struct entry *index__table_insert(struct index_table *table, int64_t key,
                                  uint64_t hash, uint64_t word,
                                  _Atomic uint32_t *seq) {
  struct index_grow_step steps[SEARCH_MAX];
  int count = 0;
  uint32_t start[2] = {index_first(table, hash), index_second(table, hash)};
  for (int i = 0; i < 2; i++) {
    struct entry *to_entry = free_entry(index_bucket(table, start[i]));
    if (to_entry) {
      return index_grow_fill(to_entry, key, word);
    }
    steps[count++] = (struct index_grow_step){start[i], -1, 0};
  }
  for (int at = 0; at < count; at++) {
    struct bucket *bucket = index_bucket(table, steps[at].bucket);
    for (int i = 0; i < INDEX_BUCKET_ENTRIES && count < SEARCH_MAX; i++) {
      uint64_t h = hash_key(
          atomic_load_explicit(&bucket->entries[i].key, memory_order_relaxed));
      uint32_t other = index_first(table, h);
      if (other == steps[at].bucket) {
        other = index_second(table, h);
      }
      if (on_path(steps, at, other)) {
        continue;
      }
      steps[count] = (struct index_grow_step){other, (int16_t)at, (int16_t)i};
      if (free_entry(index_bucket(table, other))) {
        int root = count;
        while (steps[root].parent >= 0) {
          root = steps[root].parent;
        }
        carry_out(table, steps, count, seq);
        struct entry *to_entry =
            free_entry(index_bucket(table, steps[root].bucket));
        return to_entry ? index_grow_fill(to_entry, key, word) : NULL;
      }
      count++;
    }
  }
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

/* Finds the smallest 4,5,6 * 2^shift that is at least n.  The steps of a
** quarter, a fifth and a third keep the load above 0.94 * 3/4, which is 22.7
** bytes per key, and copy a key four times in the life of a table.  With 7 as a
** fourth size it would be 21.5 bytes and five and a half copies. */
static void size_for(uint64_t n, uint32_t *segments, uint32_t *shift) {
  *shift = 0;
  while (n > (uint64_t)INDEX_SEGMENTS_MAX << *shift) {
    (*shift)++;
  }
  uint64_t unit = UINT64_C(1) << *shift;
  *segments = (uint32_t)((n + unit - 1) / unit);
  if (*segments < 4) {
    *segments = 4;
  }
}

struct index_table *index_table_new(struct index *index, uint64_t buckets) {
  struct env *env = index->env;
  struct index_table *table = env->allocate(env, sizeof *table);
  if (!table) {
    return NULL;
  }
  size_for(buckets, &table->segments, &table->shift);
  table->buckets = table->segments << table->shift;
  uint32_t order = table->shift + 6;
  size_t segment_bytes = (size_t)1 << order;
  table->small = order < INDEX_MEMORY_MIN_ORDER;
  if (table->small) {
    table->block = env->allocate(env, table->segments * segment_bytes + 64);
    if (!table->block) {
      env->release(env, table);
      return NULL;
    }
    char *base = (char *)(((uintptr_t)table->block + 63) & ~(uintptr_t)63);
    for (uint32_t i = 0; i < table->segments; i++) {
      table->segment[i] = (struct bucket *)(void *)(base + i * segment_bytes);
    }
    return table;
  }
  for (uint32_t i = 0; i < table->segments; i++) {
    table->segment[i] = index__memory_take(&index->memory, order);
    if (!table->segment[i]) {
      index__table_free(index, table);
      return NULL;
    }
    memset(table->segment[i], 0, segment_bytes);
  }
  return table;
}

void index__table_free(struct index *index, struct index_table *table) {
  if (table->small) {
    index->env->release(index->env, table->block);
  } else {
    for (uint32_t i = 0; i < table->segments && table->segment[i]; i++) {
      index__memory_give(&index->memory, table->segment[i], table->shift + 6);
    }
  }
  index->env->release(index->env, table);
}

static void table_retire(struct index *index, struct index_table *table) {
  if (!index->epoch) {
    index__table_free(index, table);
    return;
  }
  spin_acquire(&index->retired_lock);
  table->retired_at = atomic_load(&index->epoch->now);
  table->next_retired = index->retired;
  index->retired = table;
  spin_release(&index->retired_lock);
  index_reclaim(index);
}

int index_has_retired(struct index *index) {
  spin_acquire(&index->retired_lock);
  int has = index->retired != NULL;
  spin_release(&index->retired_lock);
  return has;
}

void index_reclaim(struct index *index) {
  if (!index->epoch) {
    return;
  }
  spin_acquire(&index->retired_lock);
  struct index_table *list = index->retired;
  index->retired = NULL;
  spin_release(&index->retired_lock);
  if (!list) {
    return;
  }
  uint64_t oldest = epoch_oldest(index->epoch);
  struct index_table *keep = NULL;
  while (list) {
    struct index_table *table = list;
    list = table->next_retired;
    if (table->retired_at < oldest) {
      index__table_free(index, table);
    } else {
      table->next_retired = keep;
      keep = table;
    }
  }
  if (keep) {
    struct index_table *last = keep;
    while (last->next_retired) {
      last = last->next_retired;
    }
    spin_acquire(&index->retired_lock);
    last->next_retired = index->retired;
    index->retired = keep;
    spin_release(&index->retired_lock);
  }
}

/* Copies one entry into a table that is not published yet. */
static int copy_entry(struct index_table *to, struct entry *entry) {
  uint64_t word = entry_latch(entry);
  if (!word) {
    return 1;
  }
  int64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
  _Atomic uint32_t unused = 0;
  return index__table_insert(to, key, hash_key(key), word, &unused) != NULL;
}

/* Releases the latches of the first n entries. */
static void entries_unlatch(struct index_table *table, uint32_t n) {
  for (uint32_t at = 0; at < n; at++) {
    struct bucket *bucket = index_bucket(table, at / INDEX_BUCKET_ENTRIES);
    atomic_fetch_and_explicit(&bucket->entries[at % INDEX_BUCKET_ENTRIES].word,
                              ~WORD_LATCH, memory_order_release);
  }
}

/* Copies all of old into a table of at least `buckets`.  If an unlucky set of
** keys does not fit, retries one size up. */
static struct index_table *
copy_table(struct index *index, struct index_table *old, uint64_t buckets) {
  uint32_t all = old->buckets * INDEX_BUCKET_ENTRIES;
  for (;;) {
    struct index_table *table = index_table_new(index, buckets);
    if (!table) {
      return NULL;
    }
    uint32_t at = 0;
    while (at < all) {
      struct bucket *bucket = index_bucket(old, at / INDEX_BUCKET_ENTRIES);
      at++;
      if (!copy_entry(table,
                      &bucket->entries[(at - 1) % INDEX_BUCKET_ENTRIES])) {
        break;
      }
      if (at == all) {
        return table;
      }
    }
    entries_unlatch(old, at);
    buckets = (uint64_t)table->buckets + 1;
    index__table_free(index, table);
  }
}

void index__publish(struct index *index, struct index_part *part,
                    struct index_table *table) {
  struct index_shape *to = &index->shapes[part - index->parts];
  spin_acquire(&index->publish_lock);
  /* Raised before the table is published, so that each of its places has a
  ** number. */
  if (table && table->buckets > atomic_load_explicit(&index->buckets_max,
                                                     memory_order_relaxed)) {
    atomic_store_explicit(&index->buckets_max, table->buckets,
                          memory_order_relaxed);
  }
  uint32_t seq = atomic_load_explicit(&to->shape_seq, memory_order_relaxed);
  atomic_store_explicit(&to->shape_seq, seq + 1, memory_order_relaxed);
  fence_release();
  atomic_store_explicit(&to->buckets, table ? table->buckets : 0,
                        memory_order_relaxed);
  atomic_store_explicit(&to->shift, table ? table->shift : 0,
                        memory_order_relaxed);
  for (uint32_t i = 0; i < INDEX_SEGMENTS_MAX; i++) {
    struct bucket *segment =
        table && i < table->segments ? table->segment[i] : NULL;
    atomic_store_explicit(&to->segment[i], segment, memory_order_relaxed);
  }
  atomic_store_explicit(&to->shape_seq, seq + 2, memory_order_release);
  spin_release(&index->publish_lock);
  atomic_store_explicit(&part->table, table, memory_order_release);
}

int index__grow(struct index *index, struct index_part *part) {
  struct index_table *old =
      atomic_load_explicit(&part->table, memory_order_relaxed);
  if (!old) {
    struct index_table *table = index_table_new(index, 4);
    if (!table) {
      return EMB_NOMEM;
    }
    index__publish(index, part, table);
    return EMB_OK;
  }
  struct index_table *table =
      copy_table(index, old, (uint64_t)old->buckets + 1);
  if (!table) {
    return EMB_NOMEM;
  }
  index__publish(index, part, table);
  emb_check(index_part_valid(index, part));
  table_retire(index, old);
  return EMB_OK;
}

/* Load in percent: a table shrinks below the first, to about the second. */
#define SHRINK_BELOW 35
#define SHRINK_TO 85

static int is_nearly_empty(const struct index *index, uint32_t p) {
  uint64_t buckets =
      atomic_load_explicit(&index->shapes[p].buckets, memory_order_relaxed);
  uint64_t count =
      atomic_load_explicit(&index->parts[p].count, memory_order_relaxed);
  return buckets > 4 &&
         count * 100 < buckets * INDEX_BUCKET_ENTRIES * SHRINK_BELOW;
}

void index_shrink(struct index *index, uint32_t p) {
  struct index_part *part = &index->parts[p];
  if (!is_nearly_empty(index, p)) {
    return;
  }
  spin_acquire(&part->lock);
  struct index_table *old =
      atomic_load_explicit(&part->table, memory_order_relaxed);
  /* Check again: an insert may have added keys before the lock was taken. */
  if (is_nearly_empty(index, p)) {
    uint64_t count = atomic_load_explicit(&part->count, memory_order_relaxed);
    struct index_table *table = copy_table(
        index, old, count * 100 / (INDEX_BUCKET_ENTRIES * SHRINK_TO) + 1);
    if (table) {
      index__publish(index, part, table);
      emb_check(index_part_valid(index, part));
      table_retire(index, old);
    }
  }
  spin_release(&part->lock);
}

void index_measure(struct index *index) {
  uint32_t max = 0;
  spin_acquire(&index->publish_lock);
  for (uint32_t p = 0; p < index_parts(index); p++) {
    uint32_t buckets =
        atomic_load_explicit(&index->shapes[p].buckets, memory_order_relaxed);
    max = buckets > max ? buckets : max;
  }
  atomic_store_explicit(&index->buckets_max, max, memory_order_relaxed);
  spin_release(&index->publish_lock);
}

int index_reserve(struct index *index, uint32_t p, uint64_t n) {
  struct index_part *part = &index->parts[p];
  if (atomic_load(&part->table) || n == 0) {
    return EMB_OK;
  }
  struct index_table *table = index_table_new(index, n * 100 / (4 * 90) + 1);
  if (!table) {
    return EMB_NOMEM;
  }
  index__publish(index, part, table);
  return EMB_OK;
}

uint64_t index_bytes(const struct index *index) {
  uint64_t bytes =
      atomic_load_explicit(&index->memory.bytes, memory_order_relaxed) +
      ((sizeof(struct index_shape) + sizeof(struct index_part))
       << index->part_bits);
  for (uint32_t i = 0; i < index_parts(index); i++) {
    struct index_part *part = &index->parts[i];
    spin_acquire(&part->lock);
    struct index_table *table =
        atomic_load_explicit(&part->table, memory_order_relaxed);
    if (table) {
      bytes += sizeof *table;
      if (table->small) {
        bytes += (UINT64_C(64) * table->buckets) + 64;
      }
    }
    spin_release(&part->lock);
  }
  return bytes;
}
