/* SPDX-License-Identifier: MIT
**
** dump.h -- the index file: the location of every key at a checkpoint.
**
** Named index-<generation, 16 hex digits>; made of 64 KiB blocks:
**
**   00-15  sum, kind, count: see blocks.h; the salt is the store's salt plus
**          the generation
**   16-..  kind 1  4 bytes per partition: its number of keys (a hint)
**          kind 2  key, log address (8 + 8 bytes)
**          kind 3  extent number, file slot (8 + 8 bytes)
**
** One block of sizes, then entries by partition, then extents.
*/
#ifndef EMB_CKPT_DUMP_H
#define EMB_CKPT_DUMP_H

#include "blocks.h"
#include "manifest.h"

#define DUMP_BLOCK BLOCK_BYTES

struct dump_calls {
  int (*skip)(void *, uint64_t); /* true for extents that will be freed */
  int (*stop)(void *);           /* polled; non-zero aborts the dump */
  /* Called between the entries and the extents; only extents below *tail are
  ** then listed.  An error, with its text set, ends the dump.  NULL: all
  ** extents. */
  int (*seal)(void *, uint64_t *tail);
  void *arg;
};

/* Writes the file durably, into the spare (kernel/reserve.h), and fills in
** index_generation, index_blocks and keys.  slot: the caller's, outside any
** epoch.  EMB_INTERRUPT if told to stop.  On error no file is left.  Otherwise
** call dump_undo or reserve_index_end next. */
int dump__write(struct core *core, struct epoch_slot *slot, uint64_t generation,
                const struct dump_calls *calls, struct manifest *manifest,
                emb_err *err);
/* Discards the written file: its space becomes the spare for the next one. */
void dump_undo(struct core *core, uint64_t generation);
/* Loads the file into the empty index, the log's extents and their live
** counts. */
int dump__load(struct core *core, const struct manifest *manifest,
               emb_err *err);
/* Reads the file that m names and only checks its blocks.  The text of
** EMB_CORRUPT names the first damaged block. */
int dump_check(struct core *core, const struct manifest *m, emb_err *err);
void dump_path(char *to, size_t size, const char *dir, uint64_t generation);

#endif
