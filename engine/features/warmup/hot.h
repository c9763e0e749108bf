/* SPDX-License-Identifier: MIT
**
** hot.h -- the hot set: a file of the records and extents that were in memory.
**
** A table that fits into its budget is read as a whole after an open
** (warmup/warm.h) and needs no such file.  For a larger table each checkpoint,
** and the close of a process that only read, records what was in memory; the
** next open reads those records back.
**
** The file is advice, never data: each record it names is looked up in the
** index like a guess.  So the file may be missing, damaged, older or of another
** store, and only warmth is lost.  Unusable files and blocks are counted (the
** metric warm_damaged).
**
** FILE     `hot`, blocks as in blocks.h: a head, then words of 8 bytes, whose
**          kind is in their two highest bits (FORMAT.md):
**            0        an extent: its number, and in bits 47-61 the number of
**                     words that follow, with 2 bits for each of its slots: 0,
**                     or the heat of the record there.  No words: all of it was
**                     in memory
**            1, 2, 3  the log address of a record; the kind is its heat
**          Ascending.  Heat is how often the record was read since the CLOCK
**          hand passed it (index/word.h), plus one, at most 3.
**          Written as `hot-` and a random number, synced, renamed.
** FAILURE  of a write leaves the existing file.  Failed writes and reads are
**          counted, and no caller fails because of one.
** THREADS  hot__write: under ckpt_lock, or alone at a close.  Sessions
**          continue: a record they move during the write may or may not be in
**          the file.
*/
#ifndef EMB_WARMUP_HOT_H
#define EMB_WARMUP_HOT_H

#include "engine/storage/ckpt/blocks.h"
#include "engine/storage/kernel/store_file.h"

#define HOT_NAME "hot"
#define HOT_NEW_PREFIX "hot-"

#define HOT_KIND_SHIFT 62
#define HOT_WORDS_SHIFT 47
#define HOT_BLOCK_WORDS (BLOCK_PAIRS * 2)

struct hot_head {     /* at byte 16 of block 0 */
  char magic[8];      /* 00-07 "EMBHOT01" */
  uint8_t uuid[16];   /* 08-23 of the store */
  uint64_t blocks;    /* 24-31 that follow */
  uint64_t extents;   /* 32-39 in memory as a whole */
  uint64_t rows[3];   /* 40-63 other records, by heat from 1 */
  uint64_t in_memory; /* 64-71 records of both kinds together */
};
_Static_assert(sizeof(struct hot_head) == 72, "head of the hot set");

/* How the live records fit into this many frames: each extent unchanged; or
** with the records of sparse extents packed in the cache; or not at all. */
enum { HOT_FITS_NOT, HOT_FITS_WHOLE, HOT_FITS_PACKED };
int hot__fits(struct core *core, uint32_t frames);
/* Is it better to keep only the extent's live records?  Under the log's
** lock. */
static inline int hot_is_sparse(const struct core *core, int32_t live) {
  int64_t full = (int64_t)core->layout.slots * core->layout.extent_pages;
  return core->cache.frames_max && (int64_t)live * 4 < full * 3;
}
/* Words of the map of an extent's hot slots. */
static inline uint64_t hot_map_words(const struct layout *l) {
  return ((uint64_t)l->slots * l->extent_pages * 2 + 63) / 64;
}
static inline uint32_t hot_in_map(const uint64_t *map, uint64_t slot) {
  return (uint32_t)(map[slot / 32] >> (slot % 32 * 2) & 3);
}

/* Writes what is in memory now, or removes the file if the table fits.  Does
** nothing for a temporary store, or one opened with EMB_OPEN_COLD. */
void hot__write(struct core *core, struct epoch_slot *slot);

struct hot_reading {
  struct core *core;
  struct env_file *file;
  struct block *block;
  struct hot_head head;
  uint64_t next; /* block */
};
/* Returns 1 if the head was read; 0 if there is no file, or only an unusable
** one, which is counted. */
int hot__open(struct hot_reading *reading, struct core *core);
/* Reads the next block's words into reading->block->u.pairs and returns how
** many; 0: there are no more, or they cannot be used. */
uint32_t hot__next(struct hot_reading *reading);
/* Only in self-checking builds. */
int hot_valid(const struct hot_reading *reading);
void hot__close(struct hot_reading *reading);

extern const struct store_file file_hot;

#endif
