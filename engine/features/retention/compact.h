/* SPDX-License-Identifier: MIT
**
** compact.h -- frees the space of replaced and deleted records.
**
** Compaction reads the extent with the fewest live records and copies these to
** the tail; the extent is then dead, and the next checkpoint frees it.  The
** index tells which records are live, so dead extents are not even read.
** Deletions are dropped with their extent: the records they delete were written
** earlier, and no index file that recovery could load contains them any more.
**
** Retained extents (kernel/retention.h) are left alone and do not count.
**
** INVARIANT Once writes pause, the log comes down to 1.55 times the live bytes,
**           or 1.2 times if all rows are in memory (kernel/space.c), and a
**           sixteenth for extents that wait for the next checkpoint, each plus
**           SLACK extents; the file uses a thirty-second more (shorten.h). With
**           the index file this is less than twice; a lower limit would copy
**           more records for each record written.  During writes it is at
**           most 2.25 times if compaction keeps up, and up to 3.5 times for a
**           while if checkpoints come when rows in memory, which are written in
**           place, have been written again only in part: see checkpoint_due.
*/
#ifndef EMB_RETENTION_COMPACT_H
#define EMB_RETENTION_COMPACT_H

#include "engine/storage/kernel/space.h"

/* Compacts one extent; *did = 0: no extent is worth it.  Under ckpt_lock,
** outside any epoch.  all: includes nearly full extents. */
int compact__one(struct core *core, struct epoch_slot *slot, int all, int *did,
                 emb_err *err);

#endif
