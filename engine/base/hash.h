/* SPDX-License-Identifier: MIT
**
** hash.h -- the two hash functions of the engine.
**
** hash_key spreads int64 keys over partitions and buckets; it is a bijection,
** so two keys never collide in all 64 bits.  hash_sum is the checksum of
** everything on disk: XXH3-64 of the bytes, plus a salt that names the store
** and a multiple of the position.  A page from another store, another file slot
** or an earlier use of the same file slot therefore fails the check.  Since the
** multiplier is odd, the position for which a page was written can be computed
** from its checksum (hash_position); recovery finds extents this way.
*/
#ifndef EMB_BASE_HASH_H
#define EMB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "seed.h"
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define HASH_POSITION_STEP UINT64_C(0x9E3779B97F4A7C15)
/* The inverse of the step modulo 2^64; checked in tests/unit/base/hash.c. */
#define HASH_POSITION_BACK UINT64_C(0xF1DE83E19937733D)

#define HASH_MIX_STEP UINT64_C(0xD6E8FEB86659FD93)
#define HASH_MIX_BACK UINT64_C(0xCFEE444D8B59A89B)

static inline uint64_t hash_mix(uint64_t x) {
  x ^= x >> 32;
  x *= HASH_MIX_STEP;
  x ^= x >> 32;
  x *= HASH_MIX_STEP;
  x ^= x >> 32;
  return x;
}

static inline uint64_t hash_key(int64_t key) {
  return hash_mix((uint64_t)key + UINT64_C(0x9E3779B97F4A7C15));
}

/* The key of a hash.  Shifting by half the bits is its own inverse, and the
** multiplier has one because it is odd; checked in tests/unit/base/hash.c. */
static inline int64_t hash_key_of(uint64_t hash) {
  hash ^= hash >> 32;
  hash *= HASH_MIX_BACK;
  hash ^= hash >> 32;
  hash *= HASH_MIX_BACK;
  hash ^= hash >> 32;
  return (int64_t)(hash - UINT64_C(0x9E3779B97F4A7C15));
}

/* The salt of the store with this uuid. */
static inline uint64_t hash_salt(const uint8_t uuid[16]) {
  return XXH3_64bits(uuid, 16);
}

static inline uint64_t hash_sum(const void *bytes, size_t n, uint64_t salt,
                                uint64_t position) {
  return XXH3_64bits(bytes, n) + salt + position * HASH_POSITION_STEP;
}

/* The position for which bytes with this checksum were written. */
static inline uint64_t hash_position(const void *bytes, size_t n, uint64_t salt,
                                     uint64_t sum) {
  return (sum - XXH3_64bits(bytes, n) - salt) * HASH_POSITION_BACK;
}

#endif
