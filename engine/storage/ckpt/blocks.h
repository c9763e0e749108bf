/* SPDX-License-Identifier: MIT
**
** blocks.h -- checksummed 64 KiB blocks, the unit of the index file (dump.h)
** and of snapshot files (snapshot.h).
**
**   00-07  sum    hash_sum of bytes 8..65535 at position block number
**   08-11  kind   BLOCK_*
**   12-15  count  number of items that follow; the rest of the block is zero
*/
#ifndef EMB_CKPT_BLOCKS_H
#define EMB_CKPT_BLOCKS_H

#include "engine/storage/kernel/reserve.h"
#include "engine/storage/kernel/core.h"

enum {
  BLOCK_SIZES = 1,
  BLOCK_ENTRIES = 2,
  BLOCK_EXTENTS = 3,
  BLOCK_HEAD = 4,
  BLOCK_COUNTS = 5,
  BLOCK_HOT = 6,
  BLOCK_HOT_HEAD = 7,
  BLOCK_NEAREST = 8,
  BLOCK_NEAREST_HEAD = 9,
};

#define BLOCK_BYTES 65536u
#define BLOCK_PAIRS ((BLOCK_BYTES - 16) / 16)
#define BLOCK_SIZES_MAX ((BLOCK_BYTES - 16) / 4)

struct block {
  uint64_t sum;
  uint32_t kind;
  uint32_t count;
  union {
    uint32_t sizes[BLOCK_SIZES_MAX];
    uint64_t pairs[(BLOCK_BYTES - 16) / 8];
    char bytes[BLOCK_BYTES - 16];
  } u;
};
_Static_assert(sizeof(struct block) == BLOCK_BYTES, "block");
_Static_assert(BLOCK_BYTES == RESERVE_BLOCK && BLOCK_PAIRS == RESERVE_ITEMS,
               "what is reserved is what is written");

/* Number of blocks buffered in memory. */
#define BLOCKS_BUFFER 8

struct blocks { /* a file being written */
  struct core *core;
  struct env_file *file;
  uint64_t salt;
  struct block *blocks; /* BLOCKS_BUFFER + 1 of them */
  uint32_t filled;      /* complete blocks in memory */
  uint64_t written;     /* blocks in the file */
  int os;               /* first error of the operating system */
};

/* Completes the current block, blocks[filled], and clears the next one. */
void blocks_finish(struct blocks *w);
/* Adds a pair to the current block, or to a new one if it is full or of another
** kind. */
void blocks_pair(struct blocks *w, uint32_t kind, uint64_t a, uint64_t b);
/* Writes all complete blocks to the file. */
void blocks_flush(struct blocks *w);
int blocks_valid(const struct block *block, uint64_t salt, uint64_t number);

struct gather { /* the entries of one partition */
  struct core *core;
  uint64_t *pairs; /* key, log address; allocated by env->resize */
  uint64_t count, room;
};

/* Collects the keys of partition p and the log addresses of their committed
** records. */
int gather_partition(struct gather *gather, struct epoch_slot *slot,
                     uint32_t p);

#endif
