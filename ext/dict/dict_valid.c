/* SPDX-License-Identifier: MIT
**
** dict_valid.c -- checks that the cache is as cache.c says, and a dictionary as
** dict.c says.  Only in builds with self-checks (engine/base/debug.h).
**
** Numbers and texts come from the database, which may be damaged: nothing is
** said of them, but that the cache finds what it was given.
*/
#include "dict_sql.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0
#include <xxhash.h>

/* Does the search that starts at this hash pass the record at `place`? */
static int known_is_found(const uint64_t *slots, size_t mask, uint64_t hash,
                          size_t place) {
  for (size_t i = (size_t)hash & mask; slots[i]; i = (i + 1) & mask)
    if (slots[i] == known_slot(hash, place))
      return 1;
  return 0;
}

static size_t known_taken(const uint64_t *slots, size_t n) {
  size_t taken = 0;
  for (size_t i = 0; i < n; i++)
    taken += slots[i] != 0;
  return taken;
}

static void check_known_records(const struct known_half *half) {
  size_t mask = half->slots - 1, n = 0;
  for (size_t place = 0; place < half->used; n++) {
    const struct known_record *record = known_at(half, place / 8 + 1);
    emb_assert(record->n <= KNOWN_TEXT_MAX);
    emb_assert(known_is_found(half->by_text, mask,
                              XXH3_64bits(record->text, record->n), place));
    emb_assert(
        known_is_found(half->by_id, mask, known_hash(record->id), place));
    place += known_bytes(record->n);
    emb_assert(place <= half->used);
  }
  emb_assert(n == half->records);
}

static void check_known_half(const struct known_half *half) {
  emb_assert((half->slots & (half->slots - 1)) == 0);
  emb_assert(half->slots <= KNOWN_SLOTS_MAX);
  emb_assert(!half->by_text == !half->slots && !half->by_id == !half->slots);
  emb_assert(2 * half->records <= half->slots); /* a search meets an end */
  emb_assert(half->used <= half->room && !half->room == !half->arena);
  emb_assert(half->used <= KNOWN_ARENA_MAX);
  emb_assert(known_taken(half->by_text, half->slots) == half->records);
  emb_assert(known_taken(half->by_id, half->slots) == half->records);
  check_known_records(half);
}

int ext_cache_valid(const struct ext_cache *cache) {
  check_known_half(&cache->young);
  check_known_half(&cache->old);
  return 1;
}

int ext_dict_valid(const struct ext_dict *dict) {
  emb_assert(!dict->table || dict->schema);
  emb_assert(!dict->text == !dict->room);
  for (int i = 0; i < DICT_STATEMENTS; i++) {
    sqlite3_stmt *statement = dict->statements[i];
    emb_assert(!statement || dict->keeps); /* else sqlite3_close refuses */
    emb_assert(!statement || sqlite3_db_handle(statement) == dict->db);
  }
  return 1;
}

#endif
