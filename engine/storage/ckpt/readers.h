/* SPDX-License-Identifier: MIT
**
** readers.h -- the parts of the log file that read-only processes still need.
**
** A process that does not own the store sees a checkpoint, and reads records
** where that checkpoint places them.  The owner's next checkpoint frees extents
** and reuses their file slots.  So a reader whose records must not disappear (a
** scan, or a batch that has lost them once) takes a shared lock on the log
** file, env's `byte_lock`, at the number of its index file, and then reads the
** manifest.  If the manifest still names this index file, the owner will see
** the lock.
**
**   reader   lock g; read the manifest: g is the newest      [hold_begin]
**   owner    write the manifest of g + n; look for locks below g + n; keep what
**            the checkpoints from the lowest lock on may need
**
** HELD      If the checkpoint of index file n was the first to leave out an
**           extent, locks below n still need the extent.  It stays in the log's
**           table, without live records and in no index file.  The same holds
**           for a file slot from which an extent was moved (log_free_left).
** RELEASE   After a checkpoint, and by background work while anything is held
**           (readers_release).
** LIMIT     If the held bytes exceed both twice the live bytes and
**           READERS_BYTES, everything held is freed, and readers find it
**           replaced.
** DEATH     A reader's locks vanish when it dies.  A new owner has no record of
**           what the previous owner held: while there are locks older than the
**           checkpoint it starts from, it uses no free file slot
**           (log_withhold).
** THREADS   Under ckpt_lock, except the count.
*/
#ifndef EMB_CKPT_READERS_H
#define EMB_CKPT_READERS_H

#include "engine/storage/kernel/core.h"

#define READERS_BYTES (UINT64_C(1) << 30)

/* Only in self-checking builds; under ckpt_lock. */
int readers_valid(const struct core *core);
/* Returns the lowest lock below index file `generation`, or UINT64_MAX if there
** is none. */
uint64_t readers__lowest(struct core *core, uint64_t generation);
/* Holds these extents, in ascending order.  The checkpoint of this index file,
** now valid, was the first to leave out those not yet held.  If memory runs
** out, the rest stay dead, and the next checkpoint finds them again. */
void readers__hold(struct core *core, const uint64_t *extents, uint64_t count,
                   uint64_t generation);
/* Frees extents that no lock needs any more; returns the bytes freed.
** generation: of the valid index file; is_new: it has just become valid. */
uint64_t readers_release(struct core *core, uint64_t generation, int is_new);
/* Called when this process becomes the owner, with the checkpoint of this index
** file. */
void readers_begin(struct core *core, uint64_t generation);
void readers_free(struct core *core);

#endif
