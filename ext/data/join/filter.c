/* SPDX-License-Identifier: MIT
**
** filter.c -- tells which hashes are certainly not in a set.
**
** A Bloom filter in which all bits of a hash are in one word (Putze, Sanders,
** Singler, "Cache-, hash- and space-efficient Bloom filters", 2007): one cache
** miss.  With five hashes a word and four bits each, about one absent hash in
** 100 is a false positive.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum { JOIN_FILTER_HASHES = 5, JOIN_FILTER_BITS = 4 };

size_t ext_join_filter_words(size_t hashes) {
  return hashes / JOIN_FILTER_HASHES + 1;
}

int ext_join_filter_new(struct join_filter *filter, size_t words) {
  emb_assert(words > 0); /* a filter with none has a place for no hash */
  filter->words = sqlite3_malloc64(words * sizeof *filter->words);
  if (filter->words == NULL)
    return SQLITE_NOMEM;
  memset(filter->words, 0, words * sizeof *filter->words);
  filter->n = words;
  return SQLITE_OK;
}

void ext_join_filter_free(struct join_filter *filter) {
  sqlite3_free(filter->words);
  *filter = (struct join_filter){0};
}

static size_t filter_place(const struct join_filter *filter, uint64_t hash) {
  return (size_t)((hash >> 32) * filter->n >> 32);
}

static uint64_t filter_mask(uint64_t hash) {
  uint64_t mask = 0;
  for (int i = 0; i < JOIN_FILTER_BITS; i++)
    mask |= UINT64_C(1) << (hash >> 6 * i & 63);
  return mask;
}

void ext_join_filter_add(struct join_filter *filter, uint64_t hash) {
  filter->words[filter_place(filter, hash)] |= filter_mask(hash);
}

int ext_join_filter_may_have(const struct join_filter *filter, uint64_t hash) {
  uint64_t mask = filter_mask(hash);
  return filter->words == NULL ||
         (filter->words[filter_place(filter, hash)] & mask) == mask;
}
