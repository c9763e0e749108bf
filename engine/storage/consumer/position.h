/* SPDX-License-Identifier: MIT
**
** position.h -- which deltas a store has applied, and from which source.
**
** A store fed from delta files (delta/delta_apply.c) records its position, so
** that it applies each delta of the chain once, in order, without gaps.
**
** CHAIN     The deltas of one consumer of one source are numbered from 1 on:
**           one more than the number acknowledged before.  Each runs from one
**           mark to another (only their `end` fields matter here), and gives
**           the values at its end.  A delta exported again before it was
**           acknowledged has the same number and beginning, and a later end.
**
**             end of the delta <= ours              applied already: skip
**             beginning <= ours < end               apply it
**             beginning 0                           the whole table: apply it
**             ours < beginning                      an earlier delta is missing
**
**           A store restored from a snapshot of the source is at the snapshot's
**           mark: the next delta may be of any consumer, if it begins there or
**           before.
**
** FILE      `position`, FORMAT.md.  Written once the applied delta is durable.
**           After a crash in between, the delta is applied again, which changes
**           nothing.
** THREADS   Written by the call that applies a file (snapshot/restore.h), under
**           consumers.lock.  A temporary store's position is in memory only.
*/
#ifndef EMB_CONSUMER_POSITION_H
#define EMB_CONSUMER_POSITION_H

#include "engine/storage/kernel/store_file.h"
#include "small.h"

#define POSITION_FILE "position"
#define POSITION_NEW "position-new"

extern const struct store_file file_position;

struct position {
  uint8_t source[16]; /* uuid of the store that the deltas come from */
  char consumer[EMB_CONSUMER_NAME_MAX + 1];
  uint64_t number; /* of the last delta; 0: a snapshot */
  uint64_t end;    /* of its mark; 0: nothing applied yet */
};

/* Reads the file; end = 0 if there is none.  EMB_CORRUPT: it is damaged. */
int position__read(struct core *core, struct position *position, emb_err *err);
/* Writes the file; end = 0 removes it. */
int position__write(struct core *core, const struct position *position,
                    emb_err *err);

#endif
