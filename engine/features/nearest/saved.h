/* SPDX-License-Identifier: MIT
**
** saved.h -- the file of a store's indexes; FORMAT.md has it byte by byte.
**
** FILE     `nearest`, in blocks of ckpt/blocks.h: a head, then one stream of
**          bytes: the recall curve of each index and a sample of the queries
**          asked, the centres
**          and shells of each, the lists of each, and bits of keys by
**          hash.  Written as `nearest-new`, synced, renamed.
** MARK     A page of the log.  All pages below it were durable, and therefore
**          no longer changed, when the save began.  A row whose record is
**          below the mark was in the lists with its current value, or its bit
**          is set.  A row above the mark may have been added or changed since.
** WHEN     By the task, in pieces, once an eighth of the rows has changed since
**          the last save, and at close.  Not by the checkpoint: writers and
**          other background work would have to wait for the save.  The
**          manifest need not name the file: any version of it will do, as the
**          mark tells what has changed since.  It can therefore be loaded with
**          any checkpoint, and if the disk is full the older file stays.
** LOADED   by the process that opens the store, before it builds an index.  The
**          lists are read; keys above the mark or with their bit set count as
**          changed, keys not in the file are recent, and keys no longer in the
**          table die.  No row is read for that: the store's key index suffices.
** FAILURE  If the file cannot be used, the index is built from scratch.
** THREADS  The task's, under nearest_index.lock.
*/
#ifndef EMB_NEAREST_SAVED_H
#define EMB_NEAREST_SAVED_H

#include "engine/storage/ckpt/blocks.h"
#include "asked.h"
#include "engine/math/ivf/ivf.h"
#include "engine/math/ivf/recall.h"

#define NEAREST_NAME "nearest"
#define NEAREST_NEW "nearest-new"
#define SAVED_MAGIC "EMBIVF03"

struct saved_part { /* one index */
  uint32_t segment, dim, bits, metric, base, centres;
  uint64_t groups; /* blocks of 16 entries */
  uint32_t asked;  /* queries that were asked */
  uint32_t shells; /* of each centre */
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
_Static_assert(sizeof(struct saved_part) == 40 &&
                   sizeof(struct saved_head) == 72 + 40 * EMB_SEGMENTS_MAX,
               "as in FORMAT.md");

#define STREAM_BYTES (BLOCK_BYTES - 16) /* per block */

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

enum { SAVE_CURVES, SAVE_CENTRES, SAVE_LISTS, SAVE_BITS, SAVE_DONE };
struct saving {
  int is_on;
  struct blocks to;
  size_t used; /* bytes of the present block */
  struct saved_head head;
  uint64_t *bits; /* head.bits of them */
  uint32_t phase, part, row, list;
  uint64_t began_us;
  uint64_t measurements; /* of the recall, when the save began */
};

enum {
  LOAD_CURVES,
  LOAD_CENTRES,
  LOAD_LISTS,
  LOAD_BITS,
  LOAD_KEYS,
  LOAD_STRANGERS
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
  uint64_t groups; /* of the part, already done */
  uint32_t list, block;
  emb_err why;
};

/* Bytes of a group in the stream. */
static inline size_t saved_group_bytes(uint32_t words, uint32_t marks) {
  return 4 + IVF_BLOCK * (sizeof(int64_t) + 4 * (size_t)words + marks);
}

#endif
