/* SPDX-License-Identifier: MIT
**
** readers.h -- what processes that only read still need of the log's file.
**
** A process that does not own the store sees a checkpoint, and reads the
** records where that checkpoint says that they are.  The owner's next one frees
** extents, and their file slots are used again.  So a reader that must not lose
** what it reads (a scan; a batch that has lost it once) puts a shared lock on
** the log's file, env's `byte_lock`, at the number of its index file, and looks
** at the manifest after that: if that still names this index file, the owner
** will see the lock.
**
**   reader   lock g; read the manifest: g is the newest      [hold_begin]
**   owner    write the manifest of g + n; look for locks below g + n; keep
**            what only the checkpoints from there on do not need
**
** HELD      An extent that the checkpoint of index file n was the first to
**           leave out is needed by locks below n.  It stays in the log's table,
**           without a live record and in no index file.  Likewise a file slot
**           from which an extent was moved (log_free_left).
** RELEASE   After a checkpoint, and by background work while something is held
**           (readers_release).
** LIMIT     More than is live twice over, and more than READERS_BYTES, is not
**           held: then all of it is freed, and readers find it replaced.
** DEATH     A reader's locks go with it.  The next owner has no record of what
**           the one before it held: while there are locks older than the
**           checkpoint that it begins with, it uses no free file slot
**           (log_withhold).
** THREADS   Under ckpt_lock, but for the count.
*/
#ifndef EMB_CKPT_READERS_H
#define EMB_CKPT_READERS_H

#include "engine/storage/kernel/core.h"

#define READERS_BYTES (UINT64_C(1) << 30)

/* The lowest lock below index file `generation`; UINT64_MAX: there is none. */
uint64_t readers__lowest(struct core *core, uint64_t generation);
/* Notes these extents, ascending, which the checkpoint of this index file, now
** valid, was the first to leave out if they are not held yet.  What there is no
** memory for stays dead, and the next checkpoint comes upon it again. */
void readers__hold(struct core *core, const uint64_t *extents, uint64_t count,
                   uint64_t generation);
/* Frees what no lock needs any more; the bytes.  generation: of the index file
** that is valid; is_new: since now. */
uint64_t readers_release(struct core *core, uint64_t generation, int is_new);
/* This process becomes owner, with the checkpoint of this index file. */
void readers_begin(struct core *core, uint64_t generation);
void readers_free(struct core *core);

#endif
