/* SPDX-License-Identifier: MIT
**
** frames.h -- the memory budget of a store, cut into frames of one extent.
**
** A frame holds either an extent of the log or records of the cache; both take
** from this pool, so together they never exceed the budget.  A frame is given
** back only when no session can look at it any more (the giver has called
** epoch_wait).
**
** BUDGET    `count` is the budget, `made` how many frames there are: free or
**           taken.  They differ while the budget has been lowered and frames
**           are still taken: frames_retire then takes free ones out of the
**           pool, a few at a time, and gives their memory back to the system.
**           Their addresses are used first when the budget grows again; those
**           of a segment of which no frame is left are given back, too.
**
**               made == free + taken          count <= made
**
** SLOTS     One array for both: free frames from its beginning, a stack; and
**           from its end the addresses of retired ones.
** RESIDENT  To touch memory for the first time is to wait for the system to
**           clear it, longer than a frame takes to be filled.  So a thread in
**           the background does that ahead of those that take frames
**           (frames_populate), by an eighth of what was ever taken: a small
**           table stays small.
** THREADS   Its own mutex.  Resizing and retiring: one thread at a time.
*/
#ifndef EMB_MEM_FRAMES_H
#define EMB_MEM_FRAMES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/env/env.h"

struct frames_segment { /* addresses that were mapped at once */
  char *pool;
  uint32_t count;
  uint32_t retired; /* of them */
};

struct frames {
  struct env *env;
  pthread_mutex_t lock;
  char *pool; /* of the first segment that there was */
  /* The frame of it in the middle of its small pages, until that was taken;
  ** under lock. */
  char *half;
  uint32_t frame_bytes;
  /* The budget; written under lock, read relaxed. */
  _Atomic uint32_t count;
  /* As above; written under lock, read relaxed. */
  _Atomic uint32_t made;
  char **slots;
  uint32_t slot_count; /* of all segments together */
  uint32_t retired_count;
  struct frames_segment *segments;
  uint32_t segment_count;
  /* Depth of the stack; written under lock, read relaxed as a hint. */
  _Atomic uint32_t free_count;
  /* So many of them, from the bottom of the stack, were never taken, nor
  ** populated; under lock. */
  uint32_t untouched;
};

int frames_init(struct frames *frames, struct env *env, uint32_t frame_bytes,
                uint32_t count);
void frames_free(struct frames *frames);
/* A frame with arbitrary contents; NULL if not more than `keep` are free. */
char *frames_take(struct frames *frames, uint32_t keep);
void frames_give(struct frames *frames, char *frame);

/* Sets the budget.  Frames that are missing are there when it returns; those
** beyond go with frames_retire.  EMB_NOMEM: nothing has changed. */
int frames_resize(struct frames *frames, uint32_t count);
/* Takes up to `most` frames beyond the budget out of the pool, as long as more
** than `keep` are free; how many. */
uint32_t frames_retire(struct frames *frames, uint32_t keep, uint32_t most);

/* Makes the memory of one more frame resident, if the pool is being used up
** and few are left that are; 0: enough are. */
int frames_populate(struct frames *frames);

/* The memory of free frames goes back to the system until they are used. */
void frames_discard(struct frames *frames);

static inline uint32_t frames_left(const struct frames *frames) {
  return atomic_load_explicit(&frames->free_count, memory_order_relaxed);
}
static inline uint32_t frames_count(const struct frames *frames) {
  return atomic_load_explicit(&frames->count, memory_order_relaxed);
}
static inline uint32_t frames_made(const struct frames *frames) {
  return atomic_load_explicit(&frames->made, memory_order_relaxed);
}
/* Frames beyond the budget. */
static inline uint32_t frames_excess(const struct frames *frames) {
  uint32_t made = frames_made(frames), count = frames_count(frames);
  return made > count ? made - count : 0;
}

/* frames_valid.c, for assertions; under the lock. */
int frames_valid(const struct frames *frames);
int frames_is_free(const struct frames *frames, const char *frame);

#endif
