/* SPDX-License-Identifier: MIT
**
** memory.c -- the newest requests: a hash table of places in an arena.
**
**   slots    64 bits each, open addressing, at most half of them used
**              bits 0..39   place of the record in the arena / 8, plus 1, or 0
**              bits 40..63  of the hash
**   arena    records in the order in which they came
**
** The arena is allocated in one piece; only the part written takes memory.
** An id may occur more than once, if its older requests are forgotten.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define HALF_PLACE_BITS 40
#define HALF_SLOTS_FIRST 64
/* A record with its features takes at most this part of the arena. */
#define HALF_RECORD_PART 8

static uint64_t half_slot(uint64_t hash, size_t place) {
  return (hash >> HALF_PLACE_BITS << HALF_PLACE_BITS) | (place / 8 + 1);
}

static const struct join_record *half_at(const struct join_half *half,
                                         uint64_t slot) {
  uint64_t place = slot & ((UINT64_C(1) << HALF_PLACE_BITS) - 1);
  return (const struct join_record *)(const void *)(half->arena +
                                                    (place - 1) * 8);
}

static size_t half_bytes(size_t id, size_t features) {
  return (offsetof(struct join_record, data) + id + features + 7) / 8 * 8;
}

/* One byte in five is for slots. */
void ext_join_half_limit(struct join_half *half, size_t bytes) {
  emb_assert(half->records == 0 && half->arena == NULL);
  half->room = bytes / 5 * 4 / 8 * 8;
  half->slots_most = HALF_SLOTS_FIRST;
  while (half->slots_most * 2 * sizeof *half->slots <= bytes / 5)
    half->slots_most *= 2;
}

void ext_join_half_free(struct join_half *half) {
  sqlite3_free(half->slots);
  sqlite3_free(half->arena);
  *half =
      (struct join_half){.room = half->room, .slots_most = half->slots_most};
}

static void half_put(uint64_t *slots, size_t n, uint64_t hash, size_t place) {
  size_t i = (size_t)hash & (n - 1);
  while (slots[i])
    i = (i + 1) & (n - 1);
  slots[i] = half_slot(hash, place);
}

static int half_grow(struct join_half *half) {
  size_t n = half->slots_n ? half->slots_n * 2 : HALF_SLOTS_FIRST, place = 0;
  uint64_t *slots = sqlite3_malloc64(n * sizeof *slots);
  const struct join_record *record;
  if (slots == NULL)
    return SQLITE_NOMEM;
  memset(slots, 0, n * sizeof *slots);
  for (size_t at = 0; (record = ext_join_half_next(half, &place)); at = place)
    half_put(slots, n, record->hash, at);
  sqlite3_free(half->slots);
  half->slots = slots;
  half->slots_n = n;
  emb_check(ext_join_half_valid(half));
  return SQLITE_OK;
}

int ext_join_half_add(struct join_half *half, const struct join_value *id,
                      const struct join_value *features,
                      const struct join_record *head, int *added) {
  int whole = half_bytes(id->n, features->n) <= half->room / HALF_RECORD_PART;
  size_t bytes = half_bytes(id->n, whole ? features->n : 0);
  struct join_record *record;
  int rc = SQLITE_OK;
  int grows = half->records * 2 >= half->slots_n;
  *added = half->used + bytes <= half->room &&
           (!grows || half->slots_n < half->slots_most);
  if (!*added)
    return SQLITE_OK;
  if (half->arena == NULL && (half->arena = sqlite3_malloc64(half->room)) == 0)
    return SQLITE_NOMEM;
  if (grows)
    rc = half_grow(half);
  if (rc != SQLITE_OK)
    return rc;
  record = (struct join_record *)(void *)(half->arena + half->used);
  *record = *head;
  record->id_type = (uint8_t)id->type;
  record->id_n = (uint32_t)id->n;
  record->features_type = (uint8_t)features->type;
  record->features_n = whole ? (uint32_t)features->n : 0;
  record->whole = (uint8_t)whole;
  memcpy(record->data, join_bytes(id), id->n);
  if (record->features_n)
    memcpy(record->data + id->n, join_bytes(features), features->n);
  half_put(half->slots, half->slots_n, head->hash, half->used);
  half->used += bytes;
  half->records++;
  return SQLITE_OK;
}

const struct join_record *ext_join_half_next(const struct join_half *half,
                                             size_t *place) {
  const struct join_record *record;
  if (*place >= half->used)
    return NULL;
  record = (const struct join_record *)(const void *)(half->arena + *place);
  *place += half_bytes(record->id_n, record->features_n);
  return record;
}

static int half_is(const struct join_record *record,
                   const struct join_value *id) {
  return record->id_type == id->type && record->id_n == id->n &&
         memcmp(record->data, join_bytes(id), id->n) == 0;
}

const struct join_record *ext_join_half_find(const struct join_half *half,
                                             const struct join_value *id,
                                             uint64_t hash, int64_t forgotten) {
  size_t mask = half->slots_n - 1;
  if (half->slots_n == 0)
    return NULL;
  for (size_t i = (size_t)hash & mask; half->slots[i]; i = (i + 1) & mask) {
    const struct join_record *record;
    if ((half->slots[i] ^ hash) >> HALF_PLACE_BITS)
      continue;
    record = half_at(half, half->slots[i]);
    if (record->hash == hash && record->time > forgotten && half_is(record, id))
      return record;
  }
  return NULL;
}

static struct join_value half_value(int type, const char *at, size_t n) {
  struct join_value value = {.type = type, .at = at, .n = n};
  return value;
}

struct join_value ext_join_record_features(const struct join_record *record) {
  return half_value(record->features_type, record->data + record->id_n,
                    record->features_n);
}
