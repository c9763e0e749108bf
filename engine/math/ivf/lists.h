/* SPDX-License-Identifier: MIT
**
** lists.h -- the lists of an index: keys with their codes, in blocks of 16.
**
** A block belongs to one list or to none, and never moves.  So a place, which
** is a block number and a slot in it, names an entry as long as the entry
** exists.  Blocks come from chunks, which are freed only with the index.
**
**   chunk      heads [blocks]        the next block of the list, the list, and
**                                    a bit for each slot with a live entry
**              codes [blocks][words][16]
**              keys  [blocks][16]
**              marks [blocks][marks][16]
**
** New entries go to the first block of a list, or to a new block before it.
** Dead entries leave holes, which ivf__lists_close fills from the first block.
**
** GATE     One per list: readers count themselves in while they scan the list;
**          the maintainer holds it exclusively while it writes one entry.
** THREADS  One maintainer.  Any thread may clear a live bit while it removes
**          the key from the places, under their lock.  The maintainer sets it,
**          in a slot that no other thread looks up.
*/
#ifndef EMB_IVF_LISTS_H
#define EMB_IVF_LISTS_H

#include "engine/base/debug.h"
#include "engine/base/spin.h"
#include "engine/base/env/env.h"
#include "code.h"

#define BLOCK_NONE UINT32_MAX
#define LISTS_MAX 65535
#define CHUNKS_MAX 65536

struct ivf_head {
  uint32_t next;
  uint16_t list;
  /* A bit for each slot.  Set by the maintainer (release), cleared by the
  ** thread that removed the key (release); read acquire. */
  _Atomic uint16_t live;
};

struct ivf_list {
  /* The highest bit: the maintainer is inside, or waits to enter; below: the
  ** number of readers.  Acquire to enter, release to leave. */
  _Atomic uint32_t gate;
  uint32_t first; /* block; under the gate */
  /* Written by the maintainer, read by searches to choose lists; relaxed. */
  _Atomic uint32_t blocks;
};

struct lists {
  struct env *env;
  struct ivf_form form;
  struct ivf_list *all;
  uint32_t count;
  uint32_t chunk_bits; /* blocks of a chunk, as a power of two */
  size_t chunk_bytes;
  char **chunks;   /* the maintainer's, except published ones */
  uint32_t blocks; /* taken out of chunks */
  uint32_t free;   /* the first block that belongs to no list */
  uint32_t chunk_count;
};

/* expected: rows, approximately.  0: no memory. */
int ivf__lists_init(struct lists *lists, struct env *env,
                    const struct ivf_form *form, uint32_t count,
                    uint64_t expected);
void ivf__lists_free(struct lists *lists);
uint64_t ivf__lists_bytes(const struct lists *lists);
/* For the maintainer.  Only in self-checking builds (ivf_valid.c). */
int ivf__lists_valid(const struct lists *lists);

static inline char *lists_chunk(const struct lists *lists, uint32_t block,
                                uint32_t *at) {
  *at = block & ((1u << lists->chunk_bits) - 1);
  return lists->chunks[block >> lists->chunk_bits];
}
static inline struct ivf_head *lists_head(const struct lists *lists,
                                          uint32_t block) {
  uint32_t at;
  char *chunk = lists_chunk(lists, block, &at);
  return (struct ivf_head *)(void *)chunk + at;
}
static inline uint32_t *lists_codes(const struct lists *lists, uint32_t block) {
  uint32_t at;
  char *chunk = lists_chunk(lists, block, &at);
  chunk += sizeof(struct ivf_head) << lists->chunk_bits;
  return (uint32_t *)(void *)chunk + (size_t)at * IVF_BLOCK * lists->form.words;
}
static inline int64_t *lists_keys(const struct lists *lists, uint32_t block) {
  uint32_t at;
  char *chunk = lists_chunk(lists, block, &at);
  chunk += (sizeof(struct ivf_head) + IVF_BLOCK * ivf_code_bytes(&lists->form))
           << lists->chunk_bits;
  return (int64_t *)(void *)chunk + (size_t)at * IVF_BLOCK;
}
static inline uint8_t *lists_marks(const struct lists *lists, uint32_t block) {
  uint32_t at;
  char *chunk = lists_chunk(lists, block, &at);
  chunk += (sizeof(struct ivf_head) + IVF_BLOCK * ivf_code_bytes(&lists->form) +
            IVF_BLOCK * sizeof(int64_t))
           << lists->chunk_bits;
  return (uint8_t *)chunk + (size_t)at * IVF_BLOCK * lists->form.marks;
}
static inline uint32_t lists_live(const struct lists *lists, uint32_t block) {
  return atomic_load_explicit(&lists_head(lists, block)->live,
                              memory_order_acquire);
}

static inline uint32_t lists_blocks(const struct lists *lists, uint32_t list) {
  return atomic_load_explicit(&lists->all[list].blocks, memory_order_relaxed);
}

/* The highest bit of a gate. */
#define GATE_ALONE (UINT32_C(1) << 31)
/* A reader enters and leaves a list. */
void ivf__list_enter(struct ivf_list *list);
void ivf__list_leave(struct ivf_list *list);

struct ivf_entry {
  int64_t key;
  const uint32_t *words;
  const uint8_t *marks;
};
/* For the maintainer: adds a live entry in a slot of its own, and returns its
** place; PLACE_NONE (places.h): no memory. */
uint32_t ivf__lists_append(struct lists *lists, uint32_t list,
                           const struct ivf_entry *entry);
/* Adds a block for the entries of a file whose bits are in `live`; returns the
** place of its first slot, or PLACE_NONE: no memory. */
uint32_t ivf__lists_restore(struct lists *lists, uint32_t list, uint32_t live,
                            const int64_t *keys, const uint32_t *words,
                            const uint8_t *marks);
/* Replaces the code of the entry at a place. */
void ivf__lists_replace(struct lists *lists, uint32_t place,
                        const struct ivf_entry *entry);
/* Marks the entry as dead. */
void ivf__lists_kill(const struct lists *lists, uint32_t place);
/* Fills the holes of a list, except those in its first block.  moved: gives the
** key its new place; 0: the key was removed, and the new entry dies. */
void ivf__lists_close(struct lists *lists, uint32_t list,
                      int (*moved)(void *arg, int64_t key, uint32_t from,
                                   uint32_t to),
                      void *arg);

#endif
