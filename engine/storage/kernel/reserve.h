/* SPDX-License-Identifier: MIT
**
** reserve.h -- what is taken of the disk beforehand, so that a full one can be
** emptied.
**
** What frees space is a checkpoint, and what makes something free is a deletion
** or a compaction.  Each needs some space first, and has it here:
**
**   slots    of the file, ready for extents, some of which are kept for these
**            (log/log.h)
**   spare    the file `index-spare`, to which the next checkpoint's index is
**            written: it is the index file of the checkpoint before the present
**            one, under another name.  Both it and the present index file have
**            the blocks that the next index takes, of all keys that there may
**            be by then
**   yield    a kept file slot is given up for SQLite's journal, or whatever
**            else must be written beside the store for a commit, if the file
**            system has nothing left
**
** INVARIANT R1  The log gets file slots only while the index files are long
**               enough.
**           R2  The spare is named by no valid slot of the manifest.
** FAILURE   EMB_FULL is the caller's error, and no state: with space the same
**           call succeeds.  A spare that is missing costs its space at the next
**           checkpoint, and nothing else.
** THREADS   Any, outside every epoch.  The files' names change under
**           log.file_slot_lock, and under ckpt_lock.
*/
#ifndef EMB_KERNEL_RESERVE_H
#define EMB_KERNEL_RESERVE_H

#include "core.h"

#define RESERVE_SPARE "index-spare"
#define RESERVE_PATH_BYTES 4096
/* Blocks of an index file, and keys or extents in one: ckpt/blocks.h has the
** same. */
#define RESERVE_BLOCK UINT64_C(65536)
#define RESERVE_ITEMS 4095u

void reserve_index_path(char *to, size_t size, const char *dir,
                        uint64_t generation);
/* Opens an index file to be written.  What stands in its place and is no file
** at all goes: nothing that counts is ever there.  The errno. */
int reserve_open(struct core *core, const char *path, int flags,
                 struct env_file **file);
/* File slots for the log, kept: one of those kept will do.  EMB_FULL. */
int reserve_file_slots(struct core *core, int kept, emb_err *err);
/* The store is loaded: its index file is of this generation, 0: it has none. */
void reserve_begin(struct core *core, uint64_t generation);
/* The spare, if there is one, becomes the index file of this generation. */
void reserve_index_begin(struct core *core, uint64_t generation);
/* It becomes the spare again: there will be no such checkpoint. */
void reserve_index_undo(struct core *core, uint64_t generation);
/* The checkpoint is durable, its index of so many blocks, and the file before
** becomes the spare.  Both are cut if they are much longer than needed,
** whatever made them so long. */
void reserve_index_end(struct core *core, uint64_t generation, uint64_t blocks);
/* Makes sure that others can write a little. */
void reserve_yield(struct core *core);

#endif
