/* SPDX-License-Identifier: MIT
**
** frames.h -- the memory budget of a store, cut into frames of one extent.
**
** A frame holds either an extent of the log or records of the cache; both take
** from this pool, so together they never exceed the budget.  A frame is given
** back only when no session can look at it any more (the giver has called
** epoch_wait).
**
** THREADS  Its own mutex.
*/
#ifndef EMB_IO_FRAMES_H
#define EMB_IO_FRAMES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../env/env.h"

struct frames {
  struct env *env;
  pthread_mutex_t lock;
  char *pool;
  uint32_t frame_bytes;
  uint32_t count;
  uint32_t *free; /* stack of frame numbers */
  /* Depth of the stack; written under lock, read relaxed as a hint. */
  _Atomic uint32_t free_count;
};

int frames_init(struct frames *frames, struct env *env, uint32_t frame_bytes,
                uint32_t count);
void frames_free(struct frames *frames);
/* A frame with arbitrary contents; NULL if not more than `keep` are free. */
char *frames_take(struct frames *frames, uint32_t keep);
void frames_give(struct frames *frames, char *frame);

static inline uint32_t frames_left(const struct frames *frames) {
  return atomic_load_explicit(&frames->free_count, memory_order_relaxed);
}

#endif
