/* SPDX-License-Identifier: MIT
**
** warm.h -- the warm-up: after an open, reads as much as fits into the budget
** sequentially, before it is requested.
**
** STATES    off       the store was opened with EMB_OPEN_COLD, or is temporary
**           running   -> done when everything is read, memory is full, or the
**                     hot set cannot be used; failures are only counted
**           done      -> running by emb_warm, and when a process that is not
**                     the owner has loaded another checkpoint
** INVARIANT W1  The warm-up takes only free frames and free slots, and leaves
**               as many frames as the log keeps for its tail: it evicts
**               nothing.
**           W2  A record it read is looked up in the index before it counts: it
**               enters the cache by a compare-and-swap of its key's word from
**               the very address it was read from.  An extent that comes back
**               has not changed since it was written, like everything below the
**               log's read-only boundary.
**           W3  Between two pieces it holds nothing that other threads wait
**               for.  A piece reads at most WARM_DEPTH extents.  While Gets
**               read the disk, a piece reads one extent, plus one for every
**               PAGES_OF_GETS pages that they have read since the last piece,
**               and then rests for a quarter of the time the piece took.
** THREADS   `lock`: one piece at a time, by background work, a caller of
**           emb_step, or one of emb_warm.  Taken before core's flush lock,
**           alone otherwise.
*/
#ifndef EMB_WARMUP_WARM_H
#define EMB_WARMUP_WARM_H

#include "hot.h"
#include "engine/table/store/store.h"

#define WARM_DEPTH 8
/* Requests of a piece, if they are shorter than an extent. */
#define WARM_REQUESTS 32

enum { WARM_OFF, WARM_RUNNING, WARM_DONE };

/* To be read: a whole extent into a frame; or into the cache all its records,
** those of a list, or those of a map. */
enum { ITEM_WHOLE, ITEM_ALL, ITEM_LIST, ITEM_MAP };

struct warm_item {
  uint64_t number;
  uint32_t phys;
  uint32_t kind;
  uint32_t from, to;    /* pages of the extent */
  uint32_t first, last; /* words of the block: its records */
};

struct warm {
  pthread_mutex_t lock;
  /* Written under lock; read relaxed by emb_stats. */
  _Atomic uint32_t state;
  _Atomic uint64_t seen_loaded; /* store->own.loaded, at the last start */
  /* Everything below: lock. */
  int planned;
  int failed; /* a read failed */
  struct epoch_slot *slot;
  struct env_queue *queue;
  char *buffer; /* WARM_DEPTH extents, for records; NULL until one is read */
  struct warm_item *items;
  size_t next, count, room;
  struct hot_reading hot;
  uint32_t words;      /* of its current block */
  uint32_t heat;       /* colder records stay on disk */
  uint64_t skip_whole; /* extents of the hot set that do not fit */
  uint64_t ended_us;   /* when it was last done */
  uint64_t seen_pages; /* pages Gets had read after the last piece */
};

static inline struct warm *warm_of(const emb_store *store) {
  return store->features[FEATURE_warmup];
}

/* Is the warm-up between two pieces in one of its states?  Under its lock.
** Only in self-checking builds. */
int warm_valid(const emb_store *store);
/* Can one piece read all of it? */
int warm_is_small(emb_store *store);

#endif
