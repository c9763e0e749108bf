/* SPDX-License-Identifier: MIT
**
** txn_map.h -- a transaction: its changes, and how to undo them.
**
** The records go straight to the log, into pages that carry the transaction's
** number; memory holds only each key's new address, in a private index (`map`).
** Commit points the key's word at that address; rollback drops the map and
** leaves garbage in the log for compaction.
**
**   map word   0-46  log address of the new record, or for a deletion the era
**              59    MAP_GONE    the key is deleted
**              60    MAP_SAME    claimed, but nothing changed (undone)
**
** A savepoint records the log position (later records are above it), the era
** (later deletions have at least this number), and the depth of the undo stack,
** which receives each entry that a later write replaces.  Rolling back removes
** the later changes, restores the replaced entries, and notes the address range
** as void: recovery must skip those records although the transaction commits.
**
** INVARIANT T1  The keys in the map are exactly those with the transaction's
**               intent bit in the store's index: so other writers wait, and a
**               commit allocates nothing.
**           T2  map addresses are above every committed address of the key.
*/
#ifndef EMB_SESSION_TXN_MAP_H
#define EMB_SESSION_TXN_MAP_H

#include "session.h"

#define MAP_GONE (UINT64_C(1) << 59)
#define MAP_SAME (UINT64_C(1) << 60)

struct undo { /* one replaced entry of the map */
  int64_t key;
  uint64_t word;
  uint64_t deferred; /* leases of the key that the commit was to return */
};

struct void_range {
  uint64_t from, to;
};

struct savepoint {
  int number; /* SQLite's; -1: set by one call for itself */
  uint64_t position;
  uint64_t era;
  uint64_t undo_depth;
  int64_t count_change;
};

struct txn {
  uint64_t number;   /* 0 until the first write */
  struct index *map; /* the store's, empty at the beginning */
  struct spill undo;
  uint64_t era;
  int64_t count_change;
  struct savepoint *savepoints;
  size_t savepoint_count, savepoint_room;
  struct void_range *voids;
  size_t void_count, void_room;
  int deletes;      /* some key was deleted, even if undone since */
  int prepared;     /* complete on disk, nothing written since */
  int was_prepared; /* some prepare has put its last page into the log */
  int broken;       /* undoing failed half way: only emb_rollback is possible */
};

/* Looks up the session's own change of a key: *own = 1, and the log address of
** the new record, or 0 if the session deleted the key; else *own = 0. */
uint64_t session_txn_find(struct txn *txn, int64_t key, uint64_t hash,
                          int *own);
/* The word to read the key by, as the session sees it; 0: absent for it. */
static inline uint64_t txn_word(emb_session *s, int64_t key, uint64_t hash,
                                uint64_t word) {
  if (word & WORD_INTENT) {
    int own = 0;
    uint64_t address = s->txn ? session_txn_find(s->txn, key, hash, &own) : 0;
    if (own) {
      return address;
    }
  }
  return word_address(word) ? word : 0;
}

#endif
