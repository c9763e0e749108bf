/* SPDX-License-Identifier: MIT
**
** compact.h -- gives back the space of records that were replaced or deleted.
**
** The extent with the fewest live records is read, its live records are
** copied to the tail, and it is dead; the next checkpoint frees it.  Whether a
** record is live is asked of the index, so dead extents are not even read.
** Deletions are dropped with their extent: what they delete was written before
** them, and is in no index file any more that recovery could load.
**
** What is retained (kernel/retention.h) is left alone and does not count.
**
** INVARIANT Once writes pause, the log uses at most 1.55 times the live bytes
**           and a sixteenth for what waits for the next checkpoint, each plus
**           SLACK extents, and the file a thirty-second more (shorten.h).  With
**           the index file that is less than twice; a lower bound would copy
**           more records for each one that is written.  While they go on it is
**           at most 2.25 times.
*/
#ifndef EMB_RETENTION_COMPACT_H
#define EMB_RETENTION_COMPACT_H

#include "engine/storage/kernel/space.h"

/* Compacts one extent; *did = 0: there is none to gain from.  Under
** ckpt_lock, outside any epoch.  all: also extents that are nearly full. */
int compact__one(struct core *core, struct epoch_slot *slot, int all, int *did,
                 emb_err *err);

#endif
