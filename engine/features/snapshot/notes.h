/* SPDX-License-Identifier: MIT
**
** notes.h -- where keys were at a mark, while the index is written with writers
** running.
**
** A snapshot is the state at its mark: a page of the log, at which the log was
** sealed.  Records written before lie below it and no longer change; later
** records lie above it.  Only the index keeps changing while it is written to
** the snapshot's file, one partition after the other.  So during that time the
** notes are an observer (observe.h): when the word of a key changes from an
** address below the mark, they record that address.  Once a partition is
** written, its notes are no longer needed.
**
**   immediate write   puts the record above the mark, or below it if its slot
**                     was taken before: then it is part of the snapshot, and so
**                     is everything that its session did before
**   deletion          has no new address: it came before the mark if the log
**                     was not yet sealed there (log.read_only) at that time
**   commit            is wholly before the mark or wholly after it, whatever
**                     the addresses of its records: mark and commit exclude
**                     each other (open_txn.lock of the store)
**   compaction        does not run during this time (ckpt_lock)
**
** If a key has several notes, the first one says where the key was, or that it
** was absent.  But as long as only immediate writes followed, the key was at
** the highest address below the mark.
**
** THREADS  A session that does not see the observer yet has left the epoch
**          before the mark is made (notes__begin).
** FAILURE  Running out of memory never fails a writer: it fails the snapshot.
*/
#ifndef EMB_SNAPSHOT_NOTES_H
#define EMB_SNAPSHOT_NOTES_H

#include "engine/storage/kernel/core.h"

#define NOTES_PARTS (1u << INDEX_PART_BITS_MAX)

struct note_move {
  int64_t key;
  uint64_t from;    /* log address, 0: absent */
  uint64_t to;      /* log address, or where the log was sealed */
  uint32_t settled; /* 1: by a commit, after the mark */
  uint32_t number;  /* position in its list */
};

struct note_list { /* of one partition of the index */
  pthread_mutex_t lock;
  int ended; /* its notes are no longer needed */
  struct note_move *notes;
  size_t count, room;
};

struct notes {
  struct core *core;
  struct observer observer;
  /* Log address of the mark, 0 before there is one.  Written under the store's
  ** open_txn.lock, release; read acquire. */
  _Atomic uint64_t mark;
  _Atomic int failed; /* out of memory */
  struct note_list lists[NOTES_PARTS];
};

/* Starts taking notes; outside any epoch.  NULL: out of memory. */
struct notes *notes__begin(struct core *core);
void notes__end(struct core *core, struct notes *notes);
/* Ends a partition's list and turns the entries gather_partition found in it
** into the state at the mark, ordered by hash_key.  pairs: *count of key and
** address, with room for *room; may be reallocated.  EMB_NOMEM. */
int notes__apply(struct core *core, struct notes *notes, uint32_t part,
                 uint64_t **pairs, uint64_t *count, uint64_t *room);

#endif
