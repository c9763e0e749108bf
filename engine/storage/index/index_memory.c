/* SPDX-License-Identifier: MIT
**
** index_memory.c -- the buddy allocator; see index_memory.h.
*/
#include "index_memory.h"

#include <string.h>

#include "engine/base/debug.h"

#define MEMORY_CHUNK_BYTES ((size_t)1 << INDEX_MEMORY_MAX_ORDER)
#define CHUNK_UNITS (MEMORY_CHUNK_BYTES >> INDEX_MEMORY_MIN_ORDER)

static struct index_block *list_of(struct index_memory *memory,
                                   uint32_t order) {
  return &memory->free[order - INDEX_MEMORY_MIN_ORDER];
}

void index__memory_init(struct index_memory *memory, struct env *env) {
  memset(memory, 0, sizeof *memory);
  memory->env = env;
  for (int i = 0; i < INDEX_MEMORY_ORDERS; i++) {
    memory->free[i].next = memory->free[i].prev = &memory->free[i];
  }
}

void index__memory_free_all(struct index_memory *memory) {
  struct env *env = memory->env;
  for (size_t i = 0; i < memory->chunk_count; i++) {
    env->unmap(env, memory->chunks[i].base, MEMORY_CHUNK_BYTES);
    env->release(env, memory->chunks[i].free_order);
  }
  env->release(env, memory->chunks);
  index__memory_init(memory, env);
}

/* Returns the chunk that holds the address. */
static struct index_chunk *chunk_of(struct index_memory *memory,
                                    const char *address) {
  size_t low = 0, high = memory->chunk_count;
  while (low + 1 < high) {
    size_t middle = (low + high) / 2;
    if (memory->chunks[middle].base <= address) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return &memory->chunks[low];
}

/* The order of the free block that begins at the address; 0: none does. */
static inline uint8_t *order_of(const struct index_chunk *chunk,
                                const char *address) {
  return &chunk->free_order[(size_t)(address - chunk->base) >>
                            INDEX_MEMORY_MIN_ORDER];
}

static void index_memory_push(struct index_memory *memory,
                              struct index_chunk *chunk, char *address,
                              uint32_t order) {
  struct index_block *block = (struct index_block *)(void *)address;
  struct index_block *list = list_of(memory, order);
  block->next = list->next;
  block->prev = list;
  list->next->prev = block;
  list->next = block;
  *order_of(chunk, address) = (uint8_t)order;
}

static void unlink_block(struct index_chunk *chunk, char *address) {
  struct index_block *block = (struct index_block *)(void *)address;
  emb_assert(block->next->prev == block && block->prev->next == block);
  block->next->prev = block->prev;
  block->prev->next = block->next;
  *order_of(chunk, address) = 0;
}

/* Maps one more chunk and puts it on the largest list. */
static int add_chunk(struct index_memory *memory) {
  struct env *env = memory->env;
  if (memory->chunk_count == memory->chunk_room) {
    size_t room = memory->chunk_room ? memory->chunk_room * 2 : 16;
    void *larger =
        env->resize(env, memory->chunks, room * sizeof(struct index_chunk));
    if (!larger) {
      return 0;
    }
    memory->chunks = larger;
    memory->chunk_room = room;
  }
  struct index_chunk chunk;
  chunk.free_order = env->allocate(env, CHUNK_UNITS);
  int is_huge = memory->chunk_count > 0;
  chunk.base =
      chunk.free_order ? env->map(env, MEMORY_CHUNK_BYTES, is_huge) : NULL;
  if (!chunk.base) {
    env->release(env, chunk.free_order);
    return 0;
  }
  memory->small = is_huge ? memory->small : chunk.base;
  size_t at = memory->chunk_count++;
  while (at > 0 && memory->chunks[at - 1].base > chunk.base) {
    memory->chunks[at] = memory->chunks[at - 1];
    at--;
  }
  memory->chunks[at] = chunk;
  atomic_fetch_add_explicit(&memory->bytes, MEMORY_CHUNK_BYTES,
                            memory_order_relaxed);
  index_memory_push(memory, &memory->chunks[at], chunk.base,
                    INDEX_MEMORY_MAX_ORDER);
  return 1;
}

/* Makes the first chunk's pages huge once half of it is taken: in a small index
** a huge page would be most of the memory. */
static void make_huge(struct index_memory *memory) {
  if (memory->small && memory->taken > MEMORY_CHUNK_BYTES / 2) {
    memory->env->use_huge(memory->env, memory->small, MEMORY_CHUNK_BYTES, 1);
    memory->small = NULL;
  }
}

void *index__memory_take(struct index_memory *memory, uint32_t order) {
  if (order > INDEX_MEMORY_MAX_ORDER) {
    void *block = memory->env->map(memory->env, (size_t)1 << order, 1);
    if (block) {
      atomic_fetch_add_explicit(&memory->bytes, UINT64_C(1) << order,
                                memory_order_relaxed);
    }
    return block;
  }
  spin_acquire(&memory->lock);
  uint32_t have = order;
  while (have <= INDEX_MEMORY_MAX_ORDER &&
         list_of(memory, have)->next == list_of(memory, have)) {
    have++;
  }
  if (have > INDEX_MEMORY_MAX_ORDER) {
    if (!add_chunk(memory)) {
      spin_release(&memory->lock);
      return NULL;
    }
    have = INDEX_MEMORY_MAX_ORDER;
  }
  char *address = (char *)list_of(memory, have)->next;
  struct index_chunk *chunk = chunk_of(memory, address);
  emb_assert(*order_of(chunk, address) == have);
  unlink_block(chunk, address);
  while (have > order) { /* split: the upper half stays free */
    have--;
    index_memory_push(memory, chunk, address + ((size_t)1 << have), have);
  }
  memory->taken += (size_t)1 << order;
  make_huge(memory);
  spin_release(&memory->lock);
  return address;
}

void index__memory_give(struct index_memory *memory, void *block,
                        uint32_t order) {
  if (order > INDEX_MEMORY_MAX_ORDER) {
    memory->env->unmap(memory->env, block, (size_t)1 << order);
    atomic_fetch_sub_explicit(&memory->bytes, UINT64_C(1) << order,
                              memory_order_relaxed);
    return;
  }
  spin_acquire(&memory->lock);
  memory->taken -= (size_t)1 << order;
  char *address = block;
  struct index_chunk *chunk = chunk_of(memory, address);
  emb_assert((size_t)(address - chunk->base) % ((size_t)1 << order) == 0);
  emb_assert(*order_of(chunk, address) == 0); /* freed once */
  while (order < INDEX_MEMORY_MAX_ORDER) {
    size_t offset = (size_t)(address - chunk->base) ^ ((size_t)1 << order);
    if (chunk->free_order[offset >> INDEX_MEMORY_MIN_ORDER] != order) {
      break;
    }
    unlink_block(chunk, chunk->base + offset);
    if (chunk->base + offset < address) {
      address = chunk->base + offset;
    }
    order++;
  }
  if (order == INDEX_MEMORY_MAX_ORDER) { /* the whole chunk is free: unmap it */
    memory->small = memory->small == chunk->base ? NULL : memory->small;
    memory->env->unmap(memory->env, chunk->base, MEMORY_CHUNK_BYTES);
    memory->env->release(memory->env, chunk->free_order);
    size_t at = (size_t)(chunk - memory->chunks);
    memory->chunk_count--;
    memmove(&memory->chunks[at], &memory->chunks[at + 1],
            (memory->chunk_count - at) * sizeof *chunk);
    atomic_fetch_sub_explicit(&memory->bytes, MEMORY_CHUNK_BYTES,
                              memory_order_relaxed);
  } else {
    index_memory_push(memory, chunk, address, order);
  }
  spin_release(&memory->lock);
}
