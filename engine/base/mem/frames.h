/* SPDX-License-Identifier: MIT
**
** frames.h -- the memory budget of a store, cut into frames of one extent.
**
** A frame holds either an extent of the log or records of the cache.  Both take
** frames from this pool, so together they never exceed the budget.  A frame is
** given back only when no session can see it any more (the giver has called
** epoch_wait).
**
** BUDGET    `count` is the budget, `made` the number of frames, free or taken.
**           They differ while the budget has been lowered and frames beyond it
**           are still taken: frames_retire then removes free frames from the
**           pool, a few at a time, and returns their memory to the system.
**           Their addresses are used first when the budget grows again; a
**           segment without any remaining frame is unmapped.
**
**               made == free + taken          count <= made
**
** SLOTS     One array for both: a stack of free frames at its beginning, and
**           the addresses of retired frames at its end.
** RESIDENT  The first touch of memory waits for the system to clear it, which
**           takes longer than filling a frame.  So a background thread touches
**           frames before they are taken (frames_populate), ahead by an eighth
**           of the frames touched so far: a small table stays small.
** THREADS   Its own mutex.  Resizing and retiring: one thread at a time.
*/
#ifndef EMB_MEM_FRAMES_H
#define EMB_MEM_FRAMES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/env/env.h"

struct frames_segment { /* one mapping */
  char *pool;
  uint32_t count;
  uint32_t retired; /* of these frames */
};

struct frames {
  struct env *env;
  pthread_mutex_t lock;
  char *pool; /* of the first segment ever */
  /* Its frame in the middle of the small pages; NULL once it is taken.  Under
  ** lock. */
  char *half;
  uint32_t frame_bytes;
  /* The budget; written under lock, read relaxed. */
  _Atomic uint32_t count;
  /* Frames, free or taken; written under lock, read relaxed. */
  _Atomic uint32_t made;
  char **slots;
  uint32_t slot_count; /* of all segments together */
  uint32_t retired_count;
  struct frames_segment *segments;
  uint32_t segment_count;
  /* Depth of the stack; written under lock, read relaxed as a hint. */
  _Atomic uint32_t free_count;
  /* The number of frames at the bottom of the stack that were never taken or
  ** populated; under lock. */
  uint32_t untouched;
};

int frames_init(struct frames *frames, struct env *env, uint32_t frame_bytes,
                uint32_t count);
void frames_free(struct frames *frames);
/* Takes a frame with arbitrary contents; NULL if at most `keep` are free. */
char *frames_take(struct frames *frames, uint32_t keep);
void frames_give(struct frames *frames, char *frame);

/* Sets the budget.  Adds missing frames before it returns; surplus frames are
** left to frames_retire.  EMB_NOMEM: nothing has changed. */
int frames_resize(struct frames *frames, uint32_t count);
/* Removes up to `most` frames beyond the budget from the pool while more than
** `keep` are free; returns their number. */
uint32_t frames_retire(struct frames *frames, uint32_t keep, uint32_t most);

/* Makes the memory of one more frame resident if few resident free frames are
** left; 0: there are enough. */
int frames_populate(struct frames *frames);

/* Returns the memory of free frames to the system until they are used. */
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
