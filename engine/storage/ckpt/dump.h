/* SPDX-License-Identifier: MIT
**
** dump.h -- the index file: where every key was at a checkpoint.
**
** Named index-<generation, 16 hex digits>; blocks of 64 KiB:
**
**   00-15  sum, kind, count: blocks.h; the salt is the store's plus the
**          generation
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
  int (*skip)(void *, uint64_t); /* names extents that will be freed */
  int (*stop)(void *);           /* asks now and then whether to give up */
  /* Between the entries and the extents, of which those below *tail are listed;
  ** its error, of which there is a text, ends the dump.  NULL: all extents. */
  int (*seal)(void *, uint64_t *tail);
  void *arg;
};

/* Writes the file durably, into the spare (kernel/reserve.h); fills
** index_generation, index_blocks, keys.  slot: of the caller, outside any
** epoch. EMB_INTERRUPT when asked to stop. After an error there is no file.
** Then dump_undo or reserve_index_end follows. */
int dump__write(struct core *core, struct epoch_slot *slot, uint64_t generation,
                const struct dump_calls *calls, struct manifest *manifest,
                emb_err *err);
/* The file that was written is not needed: its space is that of the next. */
void dump_undo(struct core *core, uint64_t generation);
/* Fills the empty index, the log's extents and their live counts. */
int dump__load(struct core *core, const struct manifest *manifest,
               emb_err *err);
/* Reads the file that m names and checks its blocks, no more.  EMB_CORRUPT
** names the first that is damaged. */
int dump_check(struct core *core, const struct manifest *m, emb_err *err);
void dump_path(char *to, size_t size, const char *dir, uint64_t generation);

#endif
