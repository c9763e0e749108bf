/* SPDX-License-Identifier: MIT
**
** shorten.h -- keeps the log file short.
**
** Freed file slots are reused, lowest first, so the file grows only while more
** slots are in use than ever before.  But after a rewrite in one transaction
** the new half is at the end and the free file slots are in front of it.
** Because an extent's file slot is only an entry in the log's table, an extent
** can be copied unchanged to a lower file slot, without touching a key.
**
** INVARIANT Only extents below the replay page of the valid checkpoint move,
**           and the file slot they leave is kept until the next checkpoint is
**           durable: recovery finds every extent where its manifest says.
*/
#ifndef EMB_RETENTION_SHORTEN_H
#define EMB_RETENTION_SHORTEN_H

#include "engine/table/session/session.h"

/* Does the file have more free file slots than it should, or will it when
** `dead` bytes of extents are freed? */
int shorten__due(struct core *core, uint64_t dead);
/* Moves up to n extents; *moved: the number moved.  Under ckpt_lock, outside
** any epoch; a checkpoint must follow.  replay: of the valid checkpoint. */
int shorten__file(struct core *core, uint64_t replay, uint32_t n,
                  uint32_t *moved, emb_err *err);

/* Moves some extents down in the file and makes the move durable, if the file
** is longer than it needs to be [task_space.c].  Under ckpt_lock. */
int shorten__space(emb_store *store, int *did, emb_err *err);

#endif
