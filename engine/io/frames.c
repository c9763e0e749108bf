/* SPDX-License-Identifier: MIT
**
** frames.c -- see frames.h.
*/
#include "frames.h"

#include <string.h>

#include "../emb.h"

int frames_init(struct frames *frames, struct env *env, uint32_t frame_bytes,
                uint32_t count) {
  memset(frames, 0, sizeof *frames);
  frames->env = env;
  frames->frame_bytes = frame_bytes;
  frames->count = count;
  pthread_mutex_init(&frames->lock, NULL);
  frames->free = env->allocate(env, count * sizeof *frames->free);
  frames->pool = env->map(env, (size_t)count * frame_bytes, 1);
  if (!frames->free || !frames->pool) {
    frames_free(frames);
    return EMB_NOMEM;
  }
  /* Low frames first: memory that is never needed is never touched. */
  for (uint32_t i = 0; i < count; i++) {
    frames->free[i] = count - 1 - i;
  }
  atomic_store(&frames->free_count, count);
  return EMB_OK;
}

void frames_free(struct frames *frames) {
  if (!frames->env) {
    return;
  }
  if (frames->pool) {
    frames->env->unmap(frames->env, frames->pool,
                       (size_t)frames->count * frames->frame_bytes);
  }
  frames->env->release(frames->env, frames->free);
  pthread_mutex_destroy(&frames->lock);
  frames->env = NULL;
}

char *frames_take(struct frames *frames, uint32_t keep) {
  char *frame = NULL;
  pthread_mutex_lock(&frames->lock);
  uint32_t left =
      atomic_load_explicit(&frames->free_count, memory_order_relaxed);
  if (left > keep) {
    left--;
    frame = frames->pool + (size_t)frames->free[left] * frames->frame_bytes;
    atomic_store_explicit(&frames->free_count, left, memory_order_relaxed);
  }
  pthread_mutex_unlock(&frames->lock);
  return frame;
}

void frames_give(struct frames *frames, char *frame) {
  pthread_mutex_lock(&frames->lock);
  uint32_t left =
      atomic_load_explicit(&frames->free_count, memory_order_relaxed);
  frames->free[left] =
      (uint32_t)((size_t)(frame - frames->pool) / frames->frame_bytes);
  atomic_store_explicit(&frames->free_count, left + 1, memory_order_relaxed);
  pthread_mutex_unlock(&frames->lock);
}
