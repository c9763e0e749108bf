/* SPDX-License-Identifier: MIT
**
** saved.h -- the file in which the indexes of a store are kept; FORMAT.md has
** it byte by byte.
**
** FILE     `nearest`, blocks as of ckpt/blocks.h: a head, then one stream of
**          bytes: the centres of each index, the lists of each, and bits of
**          keys by hash.  Written as `nearest-new`, synced, renamed.
** MARK     A page of the log below which everything was durable, and so did not
**          change any more, when the writing began.  A row whose record lies
**          below was in the lists as it is, or its bit is set; one above it may
**          have been added or have changed since.
** WHEN     By the task, in pieces, where an eighth of the rows has changed
**          since the last time, and at the close.  Not by the checkpoint, for
**          which writers and other background work would wait as long as that
**          takes.  The manifest need not name it: any file of the store will
**          do, as what has happened since is known by its mark.  So it is
**          loaded beside whatever checkpoint there is, and where the disk is
**          full the older one stays.
** LOADED   by whoever opens the store, before it is made: lists, then what is
**          above the mark or has its bit set counts as changed, keys that it
**          has not are recent, those that are gone die.  No row is read for
**          that: all of it is in the store's index of keys.
** FAILURE  A file that cannot be used is as good as none: the index is made.
** THREADS  The task's, under nearest_index.lock.
*/
#ifndef EMB_NEAREST_SAVED_H
#define EMB_NEAREST_SAVED_H

#include "engine/storage/ckpt/blocks.h"
#include "engine/math/ivf/ivf.h"

#define NEAREST_NAME "nearest"
#define NEAREST_NEW "nearest-new"
#define SAVED_MAGIC "EMBIVF01"

struct saved_part { /* one index */
  uint32_t segment, dim, bits, metric, base, lists;
  uint64_t groups; /* blocks of 16 entries */
};
struct saved_head {
  char magic[8];
  uint8_t uuid[16];
  uint64_t mark;
  uint64_t bytes; /* of the stream */
  uint64_t trained_rows;
  double trained_error;
  uint64_t bits; /* a power of two */
  uint32_t count, unused;
  struct saved_part parts[EMB_SEGMENTS_MAX];
};
_Static_assert(sizeof(struct saved_part) == 32 &&
                   sizeof(struct saved_head) == 72 + 32 * EMB_SEGMENTS_MAX,
               "as in FORMAT.md");

#define STREAM_BYTES (BLOCK_BYTES - 16) /* in a block */

/* What became of the file, for emb_stats. */
enum saved_state {
  SAVED_NONE,
  SAVED_LOADED,
  SAVED_WRITTEN,
  SAVED_DAMAGED,
  SAVED_OTHER,
  SAVED_UNREADABLE,
  SAVED_FULL,
  SAVED_UNWRITABLE,
};

struct saving {
  int is_on;
  struct blocks to;
  size_t used; /* bytes of the present block */
  struct saved_head head;
  uint64_t *bits; /* head.bits of them */
  uint32_t phase, part, row, list;
  uint64_t began_us;
};

struct loading {
  int is_on;
  struct env_file *file;
  struct block *blocks;               /* BLOCKS_BUFFER of them */
  uint64_t first, filled, blocks_all; /* blocks of the file */
  uint64_t at, to;                    /* bytes of the stream */
  struct saved_head head;
  uint64_t *bits;
  struct gather gather;
  struct ivf_saved group; /* memory for one */
  uint32_t phase, part, row;
  uint64_t groups; /* of the part that are done */
  uint32_t list, block;
  emb_err why;
};

/* What a group takes in the stream. */
static inline size_t saved_group_bytes(uint32_t words, uint32_t marks) {
  return 4 + IVF_BLOCK * (sizeof(int64_t) + 4 * (size_t)words + marks);
}

#endif
