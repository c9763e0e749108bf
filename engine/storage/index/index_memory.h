/* SPDX-License-Identifier: MIT
**
** index_memory.h -- memory for index segments: a buddy allocator for powers of
** two from 4 KiB to 2 MiB, out of huge pages.
**
** Partitions grow through the same sizes, so a block that one partition frees
** is the size the next one needs, and two buddies merge into the next size:
** almost nothing is lost to fragmentation.  Larger blocks are mapped directly.
**
** THREADS  Its own spin lock; a chunk is mapped (rare) with the lock held.
*/
#ifndef EMB_INDEX_MEMORY_H
#define EMB_INDEX_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/spin.h"
#include "engine/base/env/env.h"

#define INDEX_MEMORY_MIN_ORDER 12
#define INDEX_MEMORY_MAX_ORDER 21
#define INDEX_MEMORY_ORDERS                                                    \
  (INDEX_MEMORY_MAX_ORDER - INDEX_MEMORY_MIN_ORDER + 1)

struct index_block { /* at the start of a free block */
  struct index_block *next, *prev;
};

struct index_chunk {
  char *base;
  /* Order of the free block that starts at this 4 KiB unit, or 0. */
  uint8_t *free_order;
};

struct index_memory {
  struct env *env;
  spin_lock lock;
  struct index_block free[INDEX_MEMORY_ORDERS];
  struct index_chunk *chunks; /* ordered by base */
  size_t chunk_count;
  size_t chunk_room;
  size_t taken; /* bytes of chunks in allocated blocks */
  char *small;  /* the chunk that still has small pages, or NULL */
  /* Mapped bytes; written under lock, read relaxed by statistics. */
  _Atomic uint64_t bytes;
};

void index__memory_init(struct index_memory *memory, struct env *env);
void index__memory_free_all(struct index_memory *memory);
/* Returns a block of 2^order bytes with arbitrary contents, or NULL if out of
** memory. */
void *index__memory_take(struct index_memory *memory, uint32_t order);
void index__memory_give(struct index_memory *memory, void *block,
                        uint32_t order);

#endif
