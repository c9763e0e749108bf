/* SPDX-License-Identifier: MIT
**
** block.h -- code shared by writer and reader.  diff/ also uses the planes and
** the zstd allocator.
*/
#ifndef EMB_PACK_BLOCK_H
#define EMB_PACK_BLOCK_H

#include "pack.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#define ENTRY_BYTES 16u   /* key, row number */
#define OFFSET_BYTES 8u   /* offset of a block of rows */
#define ROW_BYTES 17u     /* op, key, version: a row without its value */
#define FULL_BYTES 65536u /* a full block of entries or offsets */
_Static_assert(PACK_ENTRIES_MAX *ENTRY_BYTES == FULL_BYTES, "entries");
_Static_assert(PACK_OFFSETS_MAX *OFFSET_BYTES == FULL_BYTES, "offsets");

/* rows: n rows of `elements` elements of `width` bytes, `stride` bytes apart.
** to: all first bytes, then all second bytes, ...  Returns the end of `to`. */
char *block_planes(const char *rows, size_t stride, size_t n, size_t elements,
                   uint32_t width, char *to);
/* The inverse; returns the end of `from`. */
const char *block_rows(const char *from, size_t n, size_t elements,
                       uint32_t width, char *rows, size_t stride);

/* Uncompressed bytes of n rows, p of them puts. */
static inline size_t block_raw_bytes(uint32_t value_bytes, size_t n, size_t p) {
  return n * ROW_BYTES + p * value_bytes;
}
static inline uint64_t block_sum(const struct pack_block *block,
                                 const void *stored, uint64_t salt,
                                 uint64_t position) {
  uint64_t sum = XXH3_64bits_withSeed(stored, block->stored_bytes, salt);
  return hash_sum((const char *)block + 8, sizeof *block - 8, salt ^ sum,
                  EMB_SEED(SEED_BLOCK_POSITION_NOT_SUMMED) ? 0 : position);
}

/* zstd allocates from the environment. */
static inline void *block_allocate(void *env, size_t bytes) {
  struct env *e = env;
  return e->allocate(e, bytes);
}
static inline void block_release(void *env, void *p) {
  struct env *e = env;
  e->release(e, p);
}

#endif
