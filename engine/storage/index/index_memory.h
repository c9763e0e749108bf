/* SPDX-License-Identifier: MIT
**
** index_memory.h -- memory for index segments: powers of two from 4 KiB to
** 2 MiB out of huge pages, by the buddy method.
**
** Partitions grow through the same sizes, so a block that one gives back is
** what the next one asks for, and two neighbours merge into the next size:
** almost nothing is lost to fragmentation.  Larger blocks are mapped directly.
**
** THREADS  Its own spin lock; mapping a chunk (rare) happens inside it.
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

struct index_block { /* stands in a free block */
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
  size_t taken; /* bytes of blocks that are out of chunks */
  char *small;  /* the chunk whose pages are small, or NULL */
  /* Mapped bytes; written under lock, read relaxed by statistics. */
  _Atomic uint64_t bytes;
};

void index__memory_init(struct index_memory *memory, struct env *env);
void index__memory_free_all(struct index_memory *memory);
/* A block of 2^order bytes with arbitrary contents; NULL when out of memory. */
void *index__memory_take(struct index_memory *memory, uint32_t order);
void index__memory_give(struct index_memory *memory, void *block,
                        uint32_t order);

#endif
