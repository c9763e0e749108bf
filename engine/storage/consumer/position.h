/* SPDX-License-Identifier: MIT
**
** position.h -- which deltas a store has taken, and from which source.
**
** A store that is fed by files of deltas (delta/delta_apply.c) notes how far it
** is, so
** that it takes each delta of the chain once, in order, and misses none.
**
** CHAIN     The deltas of one consumer of one source have numbers, from 1 on:
**           one more than what was acknowledged before.  Each goes from a mark
**           to a mark, of which only the ends matter here, and says the values
**           at its end.  One that is exported again before it was acknowledged
**           has the same number and beginning, and a later end.
**
**             end of the delta <= ours              it was taken: nothing to do
**             beginning <= ours < end               take it
**             beginning 0                           the whole table: take it
**             ours < beginning                      something is missing
**
**           A store that was restored from a snapshot of the source is at its
**           mark: a delta of any consumer that begins there or before comes
**           next.
**
** FILE      `position`, FORMAT.md.  Written when what it says is durable: after
**           a crash in between a delta is taken again, which changes nothing.
** THREADS   Written by the call that takes a file (snapshot/restore.h), under
**           consumers.lock.  A temporary store's is in memory only.
*/
#ifndef EMB_CONSUMER_POSITION_H
#define EMB_CONSUMER_POSITION_H

#include "engine/storage/kernel/store_file.h"
#include "small.h"

#define POSITION_FILE "position"
#define POSITION_NEW "position-new"

extern const struct store_file file_position;

struct position {
  uint8_t source[16]; /* the uuid of the store that the deltas are of */
  char consumer[EMB_CONSUMER_NAME_MAX + 1];
  uint64_t number; /* of the last one; 0: it was a snapshot */
  uint64_t end;    /* of its mark; 0: nothing was taken */
};

/* end 0 where there is no file.  EMB_CORRUPT. */
int position__read(struct core *core, struct position *position, emb_err *err);
/* end 0: there is no file then. */
int position__write(struct core *core, const struct position *position,
                    emb_err *err);

#endif
