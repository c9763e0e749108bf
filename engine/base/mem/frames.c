/* SPDX-License-Identifier: MIT
**
** frames.c -- see frames.h.
*/
#include "frames.h"

#include <string.h>

#include "engine/base/seed.h"
#include "engine/emb.h"

/* The first segment begins with small pages, so that a table of a few rows uses
** only a few: huge pages would cost 2 MiB for each of hundreds of tables.  Once
** half of these bytes are needed, they become a huge page, too. */
#define SMALL_BYTES ((size_t)2 << 20)

/* At most this much memory is made resident before it is taken. */
#define POPULATE_BYTES (UINT32_C(32) << 20)

int frames_init(struct frames *frames, struct env *env, uint32_t frame_bytes,
                uint32_t count) {
  memset(frames, 0, sizeof *frames);
  frames->env = env;
  frames->frame_bytes = frame_bytes;
  pthread_mutex_init(&frames->lock, NULL);
  int rc = frames_resize(frames, count);
  if (rc) {
    frames_free(frames);
  }
  return rc;
}

void frames_free(struct frames *frames) {
  if (!frames->env) {
    return;
  }
  for (uint32_t i = 0; i < frames->segment_count; i++) {
    frames->env->unmap(frames->env, frames->segments[i].pool,
                       (size_t)frames->segments[i].count * frames->frame_bytes);
  }
  frames->env->release(frames->env, frames->segments);
  frames->env->release(frames->env, (void *)frames->slots);
  pthread_mutex_destroy(&frames->lock);
  frames->env = NULL;
}

static void frames_set(_Atomic uint32_t *to, uint32_t value) {
  atomic_store_explicit(to, value, memory_order_relaxed);
}

/* Under lock. */
static void frames_set_free(struct frames *frames, uint32_t n) {
  frames_set(&frames->free_count, n);
  frames->untouched = frames->untouched < n ? frames->untouched : n;
}

char *frames_take(struct frames *frames, uint32_t keep) {
  char *frame = NULL, *small = NULL;
  pthread_mutex_lock(&frames->lock);
  uint32_t left = frames_left(frames);
  if (left > keep || (left && EMB_SEED(SEED_RESERVED_FRAME_TAKEN))) {
    frame = frames->slots[left - 1];
    frames_set_free(frames, left - 1);
  }
  if (frame == frames->half && frame) {
    small = frames->pool;
    frames->half = NULL;
  }
  emb_assert(frames_valid(frames));
  pthread_mutex_unlock(&frames->lock);
  if (small) { /* the frame keeps its segment */
    frames->env->use_huge(frames->env, small, SMALL_BYTES, 1);
  }
  return frame;
}

void frames_give(struct frames *frames, char *frame) {
  pthread_mutex_lock(&frames->lock);
  uint32_t left = frames_left(frames);
  emb_assert(left < frames_made(frames));
  emb_check_some(16, !frames_is_free(frames, frame)); /* given back once */
  frames->slots[left] = frame;
  frames_set(&frames->free_count, left + 1);
  emb_assert(frames_valid(frames));
  pthread_mutex_unlock(&frames->lock);
}

/* While env->populate runs, another thread may take the frame, or the pool may
** release its memory: populating does not change the content. */
int frames_populate(struct frames *frames) {
  char *frame = NULL;
  pthread_mutex_lock(&frames->lock);
  uint32_t touched = frames_made(frames) - frames->untouched;
  uint32_t ahead = touched / 8, most = POPULATE_BYTES / frames->frame_bytes;
  ahead = ahead < most ? ahead : most;
  if (frames->untouched && frames_left(frames) - frames->untouched < ahead) {
    frame = frames->slots[--frames->untouched];
  }
  emb_assert(frames_valid(frames));
  pthread_mutex_unlock(&frames->lock);
  if (frame) {
    frames->env->populate(frames->env, frame, frames->frame_bytes);
  }
  return frame != NULL;
}

/* ---- growing ------------------------------------------------------------- */

static struct frames_segment *segment_of(struct frames *frames,
                                         const char *frame) {
  for (uint32_t i = 0;; i++) {
    struct frames_segment *segment = &frames->segments[i];
    if ((uintptr_t)frame - (uintptr_t)segment->pool <
        (size_t)segment->count * frames->frame_bytes) {
      return segment;
    }
  }
}

/* Makes room for one more segment, of `more` frames. */
static int frames_make_room(struct frames *frames, uint32_t more) {
  struct env *env = frames->env;
  uint32_t count = frames->slot_count;
  void *segments =
      env->resize(env, frames->segments,
                  (frames->segment_count + 1) * sizeof *frames->segments);
  if (!segments) {
    return EMB_NOMEM;
  }
  frames->segments = segments; /* no other thread reads these */
  char **old = frames->slots;
  char **slots = env->allocate(env, (size_t)(count + more) * sizeof *slots);
  if (!slots) {
    return EMB_NOMEM;
  }
  pthread_mutex_lock(&frames->lock);
  uint32_t left = frames_left(frames), retired = frames->retired_count;
  if (left) {
    memcpy((void *)slots, (void *)old, left * sizeof *slots);
  }
  if (retired) {
    memcpy((void *)(slots + count + more - retired),
           (void *)(old + count - retired), retired * sizeof *slots);
  }
  frames->slots = slots;
  frames->slot_count = count + more;
  pthread_mutex_unlock(&frames->lock);
  env->release(env, (void *)old);
  return EMB_OK;
}

/* Maps a segment.  Its frames are taken last, the lowest first, so that memory
** that is never needed is never touched. */
static int add_segment(struct frames *frames, uint32_t more) {
  struct env *env = frames->env;
  size_t bytes = (size_t)more * frames->frame_bytes;
  int is_first = frames->pool == NULL;
  size_t small = is_first ? SMALL_BYTES : 0;
  char *pool = env->map(env, bytes, 0);
  if (pool && bytes > small) {
    env->use_huge(env, pool + small, bytes - small, 0);
  }
  int rc = pool ? frames_make_room(frames, more) : EMB_NOMEM;
  if (rc) {
    if (pool) {
      env->unmap(env, pool, (size_t)more * frames->frame_bytes);
    }
    return rc;
  }
  frames->segments[frames->segment_count++] =
      (struct frames_segment){pool, more, 0};
  pthread_mutex_lock(&frames->lock);
  if (is_first) {
    size_t half = (SMALL_BYTES / 2 + frames->frame_bytes - 1) /
                  frames->frame_bytes * frames->frame_bytes;
    frames->pool = pool;
    frames->half = half < bytes && bytes >= SMALL_BYTES ? pool + half : NULL;
  }
  uint32_t left = frames_left(frames);
  memmove((void *)(frames->slots + more), (void *)frames->slots,
          left * sizeof *frames->slots);
  for (uint32_t i = 0; i < more; i++) {
    frames->slots[i] = pool + (size_t)(more - 1 - i) * frames->frame_bytes;
  }
  frames_set(&frames->free_count, left + more);
  frames->untouched += more;
  frames_set(&frames->made, frames_made(frames) + more);
  emb_assert(frames_valid(frames));
  pthread_mutex_unlock(&frames->lock);
  return EMB_OK;
}

/* Frees the last n retired frames for use again. */
static void frames_take_back(struct frames *frames, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    pthread_mutex_lock(&frames->lock);
    uint32_t left = frames_left(frames);
    char *frame = frames->slots[frames->slot_count - frames->retired_count--];
    segment_of(frames, frame)->retired--;
    frames->slots[left] = frame;
    frames_set(&frames->free_count, left + 1);
    frames_set(&frames->made, frames_made(frames) + 1);
    pthread_mutex_unlock(&frames->lock);
  }
}

int frames_resize(struct frames *frames, uint32_t count) {
  uint32_t made = frames_made(frames);
  uint32_t more = count > made ? count - made : 0;
  uint32_t back = more < frames->retired_count ? more : frames->retired_count;
  int rc = more > back ? add_segment(frames, more - back) : EMB_OK;
  if (rc == EMB_OK) {
    frames_take_back(frames, back);
    frames_set(&frames->count, count);
  }
  return rc;
}

/* ---- shrinking ----------------------------------------------------------- */

/* Unmaps a segment whose frames are all retired. */
static void drop_segment(struct frames *frames, struct frames_segment *gone) {
  struct frames_segment was = *gone;
  uint32_t end = frames->slot_count, to = end;
  pthread_mutex_lock(&frames->lock);
  for (uint32_t i = end; i > end - frames->retired_count; i--) {
    if (segment_of(frames, frames->slots[i - 1]) != gone) {
      frames->slots[--to] = frames->slots[i - 1];
    }
  }
  frames->retired_count -= was.count;
  memmove((void *)(frames->slots + end - was.count - frames->retired_count),
          (void *)(frames->slots + to),
          frames->retired_count * sizeof *frames->slots);
  frames->slot_count -= was.count;
  if (was.pool == frames->pool) {
    frames->half = NULL; /* another segment may reuse its addresses */
  }
  *gone = frames->segments[--frames->segment_count];
  emb_assert(frames_valid(frames));
  pthread_mutex_unlock(&frames->lock);
  frames->env->unmap(frames->env, was.pool,
                     (size_t)was.count * frames->frame_bytes);
}

/* Retires one free frame; 0: there is none to spare. */
static int retire_one(struct frames *frames, uint32_t keep) {
  char *frame = NULL;
  pthread_mutex_lock(&frames->lock);
  uint32_t left = frames_left(frames);
  if (left > keep && frames_excess(frames)) {
    frame = frames->slots[left - 1];
    frames_set_free(frames, left - 1);
    frames_set(&frames->made, frames_made(frames) - 1);
  }
  pthread_mutex_unlock(&frames->lock);
  if (!frame) {
    return 0;
  }
  frames->env->discard(frames->env, frame, frames->frame_bytes);
  pthread_mutex_lock(&frames->lock);
  frames->slots[frames->slot_count - ++frames->retired_count] = frame;
  pthread_mutex_unlock(&frames->lock);
  struct frames_segment *segment = segment_of(frames, frame);
  if (++segment->retired == segment->count) {
    drop_segment(frames, segment);
  }
  return 1;
}

uint32_t frames_retire(struct frames *frames, uint32_t keep, uint32_t most) {
  uint32_t n = 0;
  while (n < most && retire_one(frames, keep)) {
    n++;
  }
  return n;
}

void frames_discard(struct frames *frames) {
  pthread_mutex_lock(&frames->lock);
  uint32_t free_count = frames_left(frames);
  for (uint32_t i = 0; i < free_count; i++) {
    frames->env->discard(frames->env, frames->slots[i], frames->frame_bytes);
  }
  frames->untouched = free_count;
  pthread_mutex_unlock(&frames->lock);
}
