/* SPDX-License-Identifier: MIT
**
** reserve.h -- disk space reserved in advance, so that a full disk can be
** emptied.
**
** Only a checkpoint frees space, and only a deletion or a compaction makes
** extents dead.  Each needs some space first, which is reserved here:
**
**   slots    file slots ready for extents, some of them kept for deletions and
**            compaction (log/log.h)
**   spare    the file `index-spare`, to which the next checkpoint's index is
**            written: the index file of the checkpoint before the present one,
**            renamed.  Both the spare and the present index file have enough
**            blocks for the next index, with every key that may exist by then
**   yield    a kept file slot is given up for SQLite's journal, or for any
**            other file that a commit must write in addition to the store, if
**            the file system has no space left
**
** INVARIANT R1  The log gets file slots only while the index files are long
**               enough.
**           R2  No valid slot of the manifest names the spare.
** FAILURE   EMB_FULL is an error of the call, not a state: once there is space
**           the same call succeeds.  A missing spare only means that the next
**           checkpoint needs that space.
** THREADS   Any, outside every epoch.  The files' names change under
**           log.file_slot_lock, and under ckpt_lock.
*/
#ifndef EMB_KERNEL_RESERVE_H
#define EMB_KERNEL_RESERVE_H

#include "core.h"

#define RESERVE_SPARE "index-spare"
#define RESERVE_PATH_BYTES 4096
/* Block size of an index file, and keys or extents per block: same as in
** ckpt/blocks.h. */
#define RESERVE_BLOCK UINT64_C(65536)
#define RESERVE_ITEMS 4095u

void reserve_index_path(char *to, size_t size, const char *dir,
                        uint64_t generation);
/* Opens an index file for writing.  Removes anything at this path that is not a
** regular file: nothing valuable is ever there.  Returns the errno. */
int reserve_open(struct core *core, const char *path, int flags,
                 struct env_file **file);
/* Makes file slots ready for the log; kept: one of the kept slots will do.
** EMB_FULL. */
int reserve_file_slots(struct core *core, int kept, emb_err *err);
/* Call when the store is loaded: its index file has this generation, 0: there
** is none. */
void reserve_begin(struct core *core, uint64_t generation);
/* Renames the spare, if there is one, to the index file of this generation. */
void reserve_index_begin(struct core *core, uint64_t generation);
/* Renames it back to the spare: the checkpoint was given up. */
void reserve_index_undo(struct core *core, uint64_t generation);
/* Call when the checkpoint is durable, with an index of `blocks` blocks: the
** previous index file becomes the spare.  Truncates both files if they are much
** longer than needed, for whatever reason. */
void reserve_index_end(struct core *core, uint64_t generation, uint64_t blocks);
/* Makes sure that a commit can still write a little to other files. */
void reserve_yield(struct core *core);

#endif
