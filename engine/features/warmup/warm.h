/* SPDX-License-Identifier: MIT
**
** warm.h -- the warm-up: after an open, what fits into the budget is read in
** sequentially, before it is asked for.
**
** STATES    off       the store was opened with EMB_OPEN_COLD, or is temporary
**           running   -> done when all is read, memory is full, or the
**                     hot set cannot be used; what fails is only counted
**           done      -> running by emb_warm, and when a process that is not
**                     the owner has loaded another checkpoint
** INVARIANT W1  It takes free frames and free slots only, and leaves as many
**               frames as the log keeps for its tail: nothing leaves memory
**               because of it.
**           W2  What it reads is looked up in the index before it counts: a
**               record comes into the cache by a compare-and-swap of its key's
**               word from the very address it was read from, and an extent
**               that comes back has not changed since it was written, like all
**               below the log's read-only boundary.
**           W3  Between two pieces it holds nothing that other threads wait
**               for.  A piece reads at most WARM_DEPTH extents.  While Gets
**               read the disk, one, and one more where many of their reads are
**               in flight; and then it rests for a quarter of the time that
**               took.
** THREADS   `lock`: one piece at a time, by background work, a caller
**           of emb_step, or one of emb_warm.  Taken before core's flush lock,
**           alone otherwise.
*/
#ifndef EMB_WARMUP_WARM_H
#define EMB_WARMUP_WARM_H

#include "hot.h"
#include "engine/table/store/store.h"

#define WARM_DEPTH 8
/* Requests of a piece, where they are shorter than an extent. */
#define WARM_REQUESTS 32

enum { WARM_OFF, WARM_RUNNING, WARM_DONE };

struct warm_item;

struct warm {
  pthread_mutex_t lock;
  /* Written under lock; read relaxed by emb_stats. */
  _Atomic uint32_t state;
  _Atomic uint64_t seen_loaded; /* store->own.loaded, at the last start */
  /* All that follows: lock. */
  int planned;
  int failed; /* something was not read because of an error */
  struct epoch_slot *slot;
  struct env_queue *queue;
  char *buffer; /* WARM_DEPTH extents, for records; NULL until one is read */
  struct warm_item *items;
  size_t next, count, room;
  struct hot_reading hot;
  uint32_t words;      /* of its present block */
  uint32_t heat;       /* colder records stay where they are */
  uint64_t skip_whole; /* extents of the hot set that do not fit */
  uint64_t ended_us;   /* when it was done last */
  uint64_t seen_pages; /* that Gets had read after the last piece */
};

static inline struct warm *warm_of(const emb_store *store) {
  return store->features[FEATURE_warmup];
}

/* One piece reads it all. */
int warm_is_small(emb_store *store);

#endif
