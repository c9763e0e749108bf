/* SPDX-License-Identifier: MIT
**
** cache.c -- a connection's cache of texts and their numbers.
**
**   by_text   a hash table of 64-bit slots, open addressing   --+
**   by_id     another hash table                              --+--> records
**                                                                  in one arena
**   slot      bits 0..39   place of the record in the arena / 8, plus 1, or 0
**             bits 40..63  of the hash: avoids most accesses to other records
**
** GENERATIONS  The cache has two such halves.  New records, and records found
**           in the older half, go into the younger half.  When that is full,
**           the older half is discarded and the younger one becomes the older.
**           So records in repeated use stay, and the rest are dropped.
** BATCHES   The slot of a text is prefetched KNOWN_LEAD texts before it is
**           examined, and its record KNOWN_LEAD texts before it is compared.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum {
  KNOWN_STEP = 64, /* a power of two, more than twice the lead */
  KNOWN_LEAD = 16,
  KNOWN_SLOTS_FIRST = 256,
};
#define KNOWN_HUGE ((uintptr_t)2 << 20)

_Static_assert((uint64_t)KNOWN_ARENA_MAX >> 3 < UINT64_C(1) << KNOWN_PLACE_BITS,
               "a slot has room for the place");

/* ---- a half -------------------------------------------------------------- */

/* Most words have 8 to 16 bytes: compares two overlapping integers. */
static inline int known_same(const char *a, const char *b, size_t n) {
  uint64_t words[4];
  if (n < 8 || n > 16)
    return n == 0 || memcmp(a, b, n) == 0;
  memcpy(&words[0], a, 8);
  memcpy(&words[1], b, 8);
  memcpy(&words[2], a + n - 8, 8);
  memcpy(&words[3], b + n - 8, 8);
  return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
}

static struct known_record *known_half_find(const struct known_half *half,
                                            const struct ext_text *text,
                                            uint64_t hash) {
  size_t mask = half->slots - 1;
  if (half->slots == 0)
    return NULL;
  for (size_t i = (size_t)hash & mask; half->by_text[i]; i = (i + 1) & mask) {
    struct known_record *record;
    if (!known_tag(half->by_text[i], hash))
      continue;
    record = known_at(half, half->by_text[i]);
    if (record->n == text->n && known_same(record->text, text->at, text->n))
      return record;
  }
  return NULL;
}

static struct known_record *known_half_find_id(const struct known_half *half,
                                               int64_t id) {
  uint64_t hash = known_hash(id);
  size_t mask = half->slots - 1;
  if (half->slots == 0)
    return NULL;
  for (size_t i = (size_t)hash & mask; half->by_id[i]; i = (i + 1) & mask)
    if (known_tag(half->by_id[i], hash) &&
        known_at(half, half->by_id[i])->id == id)
      return known_at(half, half->by_id[i]);
  return NULL;
}

static void known_half_put(uint64_t *slots, size_t mask, uint64_t hash,
                           size_t place) {
  size_t i = (size_t)hash & mask;
  while (slots[i])
    i = (i + 1) & mask;
  slots[i] = known_slot(hash, place);
}

static void known_half_free(struct known_half *half) {
  sqlite3_free(half->by_text);
  sqlite3_free(half->by_id);
  sqlite3_free(half->arena);
  *half = (struct known_half){0};
}

/* Asks for huge pages where the memory spans any, because accesses are
** random. */
static void *known_half_advise(void *memory, size_t bytes) {
  uintptr_t from = ((uintptr_t)memory + KNOWN_HUGE - 1) & ~(KNOWN_HUGE - 1);
  uintptr_t to = ((uintptr_t)memory + bytes) & ~(KNOWN_HUGE - 1);
  if (memory && from < to)
    (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
  return memory;
}

/* Returns 0 if out of memory. */
static int known_half_set_slots(struct known_half *half, size_t slots) {
  size_t bytes = slots * sizeof(uint64_t);
  uint64_t *by_text = known_half_advise(sqlite3_malloc64(bytes), bytes);
  uint64_t *by_id = known_half_advise(sqlite3_malloc64(bytes), bytes);
  if (by_text == NULL || by_id == NULL) {
    sqlite3_free(by_text);
    sqlite3_free(by_id);
    return 0;
  }
  memset(by_text, 0, bytes);
  memset(by_id, 0, bytes);
  for (size_t place = 0; place < half->used;) {
    const struct known_record *record = known_at(half, place / 8 + 1);
    known_half_put(by_text, slots - 1, XXH3_64bits(record->text, record->n),
                   place);
    known_half_put(by_id, slots - 1, known_hash(record->id), place);
    place += known_bytes(record->n);
  }
  sqlite3_free(half->by_text);
  sqlite3_free(half->by_id);
  half->by_text = by_text;
  half->by_id = by_id;
  half->slots = slots;
  return 1;
}

/* Is it so full that it must not grow any more? */
static int known_half_is_full(const struct known_half *half, size_t bytes) {
  return half->used + bytes > KNOWN_ARENA_MAX ||
         (half->slots == KNOWN_SLOTS_MAX &&
          half->records >= KNOWN_SLOTS_MAX / 2);
}

static int known_half_set_room(struct known_half *half, size_t room) {
  char *arena = known_half_advise(sqlite3_malloc64(room), room);
  if (arena == NULL)
    return 0;
  if (half->used)
    memcpy(arena, half->arena, half->used);
  sqlite3_free(half->arena);
  half->arena = arena;
  half->room = room;
  return 1;
}

/* Makes room for one more record of this size; 0: out of memory. */
static int known_half_make_room(struct known_half *half, size_t bytes) {
  if (half->records * 2 >= half->slots &&
      !known_half_set_slots(half,
                            half->slots ? 2 * half->slots : KNOWN_SLOTS_FIRST))
    return 0;
  return half->used + bytes <= half->room ||
         known_half_set_room(half, 2 * half->room + bytes + 4096);
}

/* ---- both halves --------------------------------------------------------- */

struct ext_cache *ext_cache_new(void) {
  struct ext_cache *cache = sqlite3_malloc64(sizeof *cache);
  if (cache)
    memset(cache, 0, sizeof *cache);
  return cache;
}

void ext_cache_clear(struct ext_cache *cache) {
  emb_check_some(16, ext_cache_valid(cache));
  known_half_free(&cache->young);
  known_half_free(&cache->old);
}

void ext_cache_free(struct ext_cache *cache) {
  if (cache)
    ext_cache_clear(cache);
  sqlite3_free(cache);
}

static void known_add(struct ext_cache *cache, const struct ext_text *text,
                      uint64_t hash, int64_t id) {
  struct known_half *young = &cache->young;
  size_t bytes = known_bytes(text->n), place;
  struct known_record *record;
  if (text->n > KNOWN_TEXT_MAX)
    return;
  if (known_half_is_full(young, bytes)) {
    emb_check(ext_cache_valid(cache));
    known_half_free(&cache->old);
    cache->old = *young;
    *young = (struct known_half){0};
  }
  if (!known_half_make_room(young, bytes))
    return;
  place = young->used;
  young->used += bytes;
  young->records++;
  record = known_at(young, place / 8 + 1);
  record->id = id;
  record->n = (uint32_t)text->n;
  if (text->n)
    memcpy(record->text, text->at, text->n);
  known_half_put(young->by_text, young->slots - 1, hash, place);
  known_half_put(young->by_id, young->slots - 1, known_hash(id), place);
}

void ext_cache_add(struct ext_cache *cache, const struct ext_text *text,
                   int64_t id) {
  ext_cache_add_many(cache, text, &id, 1);
}

int ext_cache_reserve(struct ext_cache *cache, uint64_t more) {
  struct known_half *young = &cache->young;
  uint64_t mean = young->records ? young->used / young->records + 1 : 0;
  uint64_t room = young->used + more * mean;
  size_t slots = young->slots;
  if (more > KNOWN_SLOTS_MAX / 2 - young->records || room > KNOWN_ARENA_MAX)
    return 0;
  while (slots && slots < 2 * (young->records + more))
    slots *= 2;
  if (slots > young->slots && !known_half_set_slots(young, slots))
    return 0;
  if (room <= young->room)
    return 1;
  if (room < 2 * young->room) /* the mean may have risen slightly */
    room = 2 * young->room;
  return known_half_set_room(young, room);
}

void ext_cache_add_many(struct ext_cache *cache, const struct ext_text *texts,
                        const int64_t *ids, size_t n) {
  const struct known_half *young = &cache->young;
  uint64_t hashes[KNOWN_STEP];
  for (size_t from = 0; from < n; from += KNOWN_STEP) {
    size_t step = n - from < KNOWN_STEP ? n - from : KNOWN_STEP;
    size_t mask = young->slots - 1;
    for (size_t i = 0; i < step; i++) {
      hashes[i] = XXH3_64bits(texts[from + i].at, texts[from + i].n);
      if (young->slots) {
        __builtin_prefetch(&young->by_text[(size_t)hashes[i] & mask], 1);
        __builtin_prefetch(
            &young->by_id[(size_t)known_hash(ids[from + i]) & mask], 1);
      }
    }
    for (size_t i = 0; i < step; i++)
      if (!known_half_find(young, &texts[from + i], hashes[i]))
        known_add(cache, &texts[from + i], hashes[i], ids[from + i]);
  }
}

/* Returns the number of a text, and moves a record of the older half to the
** younger. */
static int64_t known_id(struct ext_cache *cache, const struct ext_text *text,
                        uint64_t hash) {
  const struct known_record *record =
      known_half_find(&cache->young, text, hash);
  int64_t id;
  if (record)
    return record->id;
  record = known_half_find(&cache->old, text, hash);
  if (record == NULL)
    return 0;
  id = record->id;
  known_add(cache, text, hash, id);
  return id;
}

/* (The prefetches are inline, because gcc removes a function that does nothing
** else.) */
size_t ext_cache_find(struct ext_cache *cache, const struct ext_text *texts,
                      size_t n, int64_t *ids) {
  const struct known_half *young = &cache->young;
  uint64_t hashes[KNOWN_STEP];
  size_t absent = 0;
  for (size_t i = 0; i < n + 2 * KNOWN_LEAD; i++) {
    size_t slot = i - KNOWN_LEAD, record = i - 2 * KNOWN_LEAD; /* may wrap */
    if (i < n) {
      uint64_t hash = XXH3_64bits(texts[i].at, texts[i].n);
      hashes[i % KNOWN_STEP] = hash;
      if (young->slots)
        __builtin_prefetch(&young->by_text[(size_t)hash & (young->slots - 1)]);
    }
    if (slot < n && young->slots) {
      uint64_t hash = hashes[slot % KNOWN_STEP];
      uint64_t at = young->by_text[(size_t)hash & (young->slots - 1)];
      if (at) {
        const struct known_record *there = known_at(young, at);
        __builtin_prefetch(there);
        __builtin_prefetch(there->text + texts[slot].n);
      }
    }
    if (record < n) {
      ids[record] =
          known_id(cache, &texts[record], hashes[record % KNOWN_STEP]);
      absent += ids[record] == 0;
    }
  }
  return absent;
}

int ext_cache_text(struct ext_cache *cache, int64_t id, struct ext_text *text) {
  const struct known_record *record = known_half_find_id(&cache->young, id);
  if (record == NULL)
    record = known_half_find_id(&cache->old, id);
  if (record == NULL)
    return 0;
  *text = (struct ext_text){record->text, record->n};
  return 1;
}
