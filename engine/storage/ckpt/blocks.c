/* SPDX-License-Identifier: MIT
**
** blocks.c -- see blocks.h.
*/
#include "blocks.h"

#include <string.h>

#include "engine/emb.h"

/* ---- writing ------------------------------------------------------------- */

void blocks_flush(struct blocks *w) {
  struct env *env = w->core->env;
  uint64_t bytes = (uint64_t)w->filled * BLOCK_BYTES;
  if (bytes && !w->os) {
    w->os =
        env->write(env, w->file, w->blocks, bytes, w->written * BLOCK_BYTES);
    count_add(&w->core->counters.write_bytes, bytes);
  }
  w->written += w->filled; /* blocks are dropped after an error */
  w->filled = 0;
}

void blocks_finish(struct blocks *w) {
  struct block *block = &w->blocks[w->filled];
  emb_assert(w->filled < BLOCKS_BUFFER);
  emb_assert(block->kind != 0); /* it holds something */
  block->sum = hash_sum((char *)block + 8, BLOCK_BYTES - 8, w->salt,
                        w->written + w->filled);
  if (++w->filled == BLOCKS_BUFFER) {
    blocks_flush(w);
  }
  memset(&w->blocks[w->filled], 0, BLOCK_BYTES);
}

void blocks_pair(struct blocks *w, uint32_t kind, uint64_t a, uint64_t b) {
  struct block *block = &w->blocks[w->filled];
  emb_assert(kind != BLOCK_SIZES && kind != BLOCK_HEAD); /* not pairs */
  if (block->count && (block->kind != kind || block->count == BLOCK_PAIRS)) {
    blocks_finish(w);
    block = &w->blocks[w->filled];
  }
  block->kind = kind;
  block->u.pairs[block->count * 2] = a;
  block->u.pairs[block->count * 2 + 1] = b;
  block->count++;
}

int blocks_valid(const struct block *b, uint64_t salt, uint64_t number) {
  return b->sum ==
             hash_sum((const char *)b + 8, BLOCK_BYTES - 8, salt, number) &&
         b->count <= (b->kind == BLOCK_SIZES ? BLOCK_SIZES_MAX : BLOCK_PAIRS);
}

/* ---- the index ----------------------------------------------------------- */

/* index_each: records the key and its log address.  The word of a cached record
** leads to its slot; the word is then read again, because the slot may have
** been reused. */
static void gather_one(void *arg, int64_t key, uint64_t word) {
  struct gather *g = arg;
  uint64_t address = word_address(word);
  while (word & WORD_CACHED) {
    uint64_t again;
    address = key_cached_address(g->core, key, word);
    index_find(&g->core->index, key, hash_key(key), &again);
    if (again == word && address) {
      break;
    }
    word = again;
    address = word_address(word);
  }
  if (!address) {
    return; /* only an uncommitted insert */
  }
  if (g->count < g->room) {
    g->pairs[g->count * 2] = (uint64_t)key;
    g->pairs[g->count * 2 + 1] = address;
  }
  g->count++;
}

int gather_partition(struct gather *g, struct epoch_slot *slot, uint32_t p) {
  struct core *core = g->core;
  for (;;) {
    g->count = 0;
    epoch_enter(&core->epoch, slot);
    index_each(&core->index, p, gather_one, g);
    epoch_leave(slot);
    if (g->count <= g->room) {
      return EMB_OK;
    }
    uint64_t room = g->count + g->count / 4 + 64;
    void *larger =
        core->env->resize(core->env, g->pairs, room * 2 * sizeof(uint64_t));
    if (!larger) {
      return EMB_NOMEM;
    }
    g->pairs = larger;
    g->room = room;
  }
}
