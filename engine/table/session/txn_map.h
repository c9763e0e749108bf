/* SPDX-License-Identifier: MIT
**
** txn_map.h -- a transaction: what it changed, and how to undo it.
**
** Its records go straight to the log, into pages that carry its number; only
** the key's new address is kept in memory, in a private index (`map`).  Commit
** points the key's word there; rollback drops the map and leaves garbage in the
** log for compaction.
**
**   map word   0-46  log address of the new record, or for a deletion the era
**              59    MAP_GONE    the key is deleted
**              60    MAP_SAME    claimed, but nothing changed (undone)
**
** A savepoint records the log position (records made later lie above it), the
** era (deletions made later have at least this number), and the depth of the
** undo stack, onto which an entry goes that a later write replaces.  Rolling
** back takes away what lies above, puts back what was replaced, and notes the
** address range as void: recovery must skip those records although the
** transaction commits.
**
** INVARIANT T1  A key in the map has the intent bit in the store's index, and
**               only those: other writers wait, commit allocates nothing.
**           T2  map addresses lie above every committed address of the key.
*/
#ifndef EMB_SESSION_TXN_MAP_H
#define EMB_SESSION_TXN_MAP_H

#include "session.h"

#define MAP_GONE (UINT64_C(1) << 59)
#define MAP_SAME (UINT64_C(1) << 60)

struct undo { /* one replaced entry of the map */
  int64_t key;
  uint64_t word;
  uint64_t deferred; /* leases that the commit was to give back for it */
};

struct void_range {
  uint64_t from, to;
};

struct savepoint {
  int number; /* of SQLite; -1: one call's own */
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
  int deletes;      /* some key was deleted, perhaps undone since */
  int prepared;     /* complete on disk, nothing written since */
  int was_prepared; /* some prepare has put its last page into the log */
  int broken;       /* undoing stopped half way: only emb_rollback helps */
};

/* Where the session finds the key, whose committed word is given: log address
** of its own change, or 0 if it deleted the key (*own = 1); else *own = 0. */
uint64_t session_txn_find(struct txn *txn, int64_t key, uint64_t hash,
                          int *own);
/* As the session sees it: the word to read by, 0 if absent for it. */
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
