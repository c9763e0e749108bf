/* SPDX-License-Identifier: MIT
**
** frames.c -- tests of engine/base/mem/frames.c: no frame is given out twice,
** and some can be kept back.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/base/mem/frames.h"

#include <pthread.h>
#include <string.h>

enum { FRAME_BYTES = 8192, COUNT = 37 };

TEST(every_frame_once_and_low_ones_first) {
  struct frames frames;
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  CHECK_EQ_INT(frames_left(&frames), COUNT);
  for (int i = 0; i < COUNT; i++) {
    char *frame = frames_take(&frames, 0);
    CHECK(frame == frames.pool + (size_t)i * FRAME_BYTES);
    CHECK((uintptr_t)frame % 4096 == 0);
    CHECK_EQ_INT(frames_left(&frames), COUNT - 1 - i);
  }
  CHECK(frames_take(&frames, 0) == NULL);
  frames_free(&frames);
}

TEST(frames_are_kept_back) {
  struct frames frames;
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  for (int i = 0; i < COUNT - 5; i++)
    CHECK(frames_take(&frames, 5) != NULL);
  CHECK(frames_take(&frames, 5) == NULL);
  CHECK(frames_take(&frames, 100) == NULL);
  CHECK_EQ_INT(frames_left(&frames), 5);
  for (int i = 0; i < 5; i++)
    CHECK(frames_take(&frames, 0) != NULL);
  CHECK(frames_take(&frames, 0) == NULL);
  frames_free(&frames);
}

static uint32_t populate_all(struct frames *frames) {
  uint32_t n = 0;
  while (frames_populate(frames))
    n++;
  return n;
}

/* As many as an eighth of the frames ever taken, while there are frames. */
TEST(frames_are_made_resident_ahead) {
  struct frames frames;
  char *taken[COUNT];
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  CHECK_EQ_INT(populate_all(&frames), 0);
  for (int i = 0; i < 16; i++) {
    taken[i] = frames_take(&frames, 0);
    memset(taken[i], i + 1, FRAME_BYTES);
  }
  CHECK_EQ_INT(populate_all(&frames), 2);
  CHECK_EQ_INT(frames.untouched, COUNT - 18);
  for (int i = 0; i < 16; i++) { /* the taken frames are unchanged */
    CHECK_EQ_INT(taken[i][FRAME_BYTES - 1], i + 1);
    frames_give(&frames, taken[i]);
  }
  CHECK_EQ_INT(populate_all(&frames), 0); /* there are enough again */
  CHECK_EQ_INT(frames_resize(&frames, COUNT + 4), 0);
  CHECK_EQ_INT(frames.untouched, COUNT - 18 + 4);
  while (frames_take(&frames, 0) != NULL)
    ;
  CHECK_EQ_INT(frames.untouched, 0);
  CHECK_EQ_INT(populate_all(&frames), 0);
  frames_free(&frames);
}

TEST(random_taking_and_giving) {
  struct frames frames;
  char *taken[COUNT];
  uint32_t n = 0;
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  for (int i = 0; i < 20000; i++) {
    if (n == 0 || test_random() % 2) {
      uint32_t keep = (uint32_t)(test_random() % 4);
      char *frame = frames_take(&frames, keep);
      CHECK_EQ_INT(frame != NULL, COUNT - n > keep);
      if (frame) {
        for (uint32_t k = 0; k < n; k++)
          CHECK(taken[k] != frame);
        taken[n++] = frame;
      }
    } else {
      uint32_t at = (uint32_t)(test_random() % n);
      frames_give(&frames, taken[at]);
      taken[at] = taken[--n];
    }
    CHECK_EQ_INT(frames_left(&frames), COUNT - n);
  }
  frames_free(&frames);
}

static struct frames shared;
static _Atomic uint32_t in_use[COUNT];

static void *take_and_give(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  for (int i = 0; i < 20000; i++) {
    char *frame = frames_take(&shared, (uint32_t)(i % 3));
    if (!frame)
      continue;
    size_t at = (size_t)(frame - shared.pool) / FRAME_BYTES;
    CHECK_EQ_INT(atomic_fetch_add(&in_use[at], 1), 0);
    frame[test_random_from(&random) % FRAME_BYTES] = 1; /* ours alone */
    atomic_fetch_sub(&in_use[at], 1);
    frames_give(&shared, frame);
  }
  return NULL;
}

TEST(threads_never_share_a_frame) {
  pthread_t threads[4];
  CHECK_EQ_INT(frames_init(&shared, &env_posix, FRAME_BYTES, 5), 0);
  for (uintptr_t i = 0; i < 4; i++)
    CHECK_EQ_INT(
        pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  CHECK_EQ_INT(frames_left(&shared), 5);
  frames_free(&shared);
}

/* ---- resizing ------------------------------------------------------------ */

/* Takes all available frames, distinct and writable; they stay taken. */
static void take_all(struct frames *frames, char **taken, uint32_t want) {
  uint32_t n = 0;
  for (char *frame; (frame = frames_take(frames, 0)) != NULL; n++) {
    if (!CHECK(n < want))
      return;
    for (uint32_t i = 0; i < n; i++)
      CHECK(taken[i] != frame);
    memset(frame, 1 + (int)(n & 63), FRAME_BYTES);
    taken[n] = frame;
  }
  CHECK_EQ_INT(n, want);
  for (uint32_t i = 0; i < n; i++)
    CHECK(taken[i][0] == 1 + (int)(i & 63) &&
          taken[i][FRAME_BYTES - 1] == taken[i][0]);
}

static void check_balance(const struct frames *frames, uint32_t taken) {
  CHECK_EQ_INT(frames_made(frames), frames_left(frames) + taken);
  CHECK(frames->retired_count + frames_made(frames) == frames->slot_count);
}

TEST(more_frames_and_fewer) {
  struct frames frames;
  char *taken[300];
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  CHECK_EQ_INT(frames_resize(&frames, 100), 0);
  CHECK_EQ_INT(frames_left(&frames), 100);
  take_all(&frames, taken, 100);
  /* Fewer: taken frames stay until they are given back. */
  CHECK_EQ_INT(frames_resize(&frames, 10), 0);
  CHECK_EQ_INT(frames_excess(&frames), 90);
  CHECK_EQ_INT(frames_retire(&frames, 0, 1000), 0);
  for (int i = 0; i < 50; i++)
    frames_give(&frames, taken[i]);
  CHECK_EQ_INT(frames_retire(&frames, 5, 20), 20);
  CHECK_EQ_INT(frames_retire(&frames, 5, 1000), 25);
  CHECK_EQ_INT(frames_left(&frames), 5);
  check_balance(&frames, 50);
  for (int i = 50; i < 100; i++)
    frames_give(&frames, taken[i]);
  CHECK_EQ_INT(frames_retire(&frames, 0, 1000), 45);
  CHECK_EQ_INT(frames_excess(&frames), 0);
  CHECK_EQ_INT(frames_left(&frames), 10);
  check_balance(&frames, 0);
  /* And more again, from the existing addresses and beyond. */
  CHECK_EQ_INT(frames_resize(&frames, 60), 0);
  take_all(&frames, taken, 60);
  for (int i = 0; i < 60; i++)
    frames_give(&frames, taken[i]);
  CHECK_EQ_INT(frames_resize(&frames, 300), 0);
  take_all(&frames, taken, 300);
  check_balance(&frames, 300);
  frames_free(&frames);
}

TEST(a_segment_that_is_not_used_goes) {
  struct frames frames;
  char *taken[90];
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, 30), 0);
  CHECK_EQ_INT(frames_resize(&frames, 60), 0);
  CHECK_EQ_INT(frames_resize(&frames, 90), 0);
  CHECK_EQ_INT(frames.segment_count, 3);
  take_all(&frames, taken, 90);
  CHECK_EQ_INT(frames_resize(&frames, 16), 0);
  /* The middle segment first, then parts of both others. */
  const char *middle = frames.segments[1].pool;
  for (int i = 0; i < 90; i++)
    if ((size_t)(taken[i] - middle) < (size_t)30 * FRAME_BYTES) {
      frames_give(&frames, taken[i]);
      taken[i] = NULL;
    }
  CHECK_EQ_INT(frames_retire(&frames, 0, 1000), 30);
  CHECK_EQ_INT(frames.segment_count, 2);
  CHECK_EQ_INT(frames.slot_count, 60);
  check_balance(&frames, 60);
  for (int i = 0; i < 90; i++)
    if (taken[i])
      frames_give(&frames, taken[i]);
  CHECK_EQ_INT(frames_retire(&frames, 0, 1000), 44);
  check_balance(&frames, 0);
  take_all(&frames, taken, 16);
  frames_free(&frames);
}

TEST(random_resizing) {
  struct frames frames;
  char *taken[200];
  uint32_t n = 0;
  CHECK_EQ_INT(frames_init(&frames, &env_posix, FRAME_BYTES, COUNT), 0);
  for (int i = 0; i < 20000; i++) {
    uint64_t what = test_random() % 8;
    if (what == 0)
      CHECK_EQ_INT(frames_resize(&frames, 16 + (uint32_t)(test_random() % 184)),
                   0);
    if (what <= 1)
      (void)frames_retire(&frames, (uint32_t)(test_random() % 8),
                          (uint32_t)(test_random() % 64));
    for (uint64_t k = test_random() % 16; what > 4 && k > 0; k--) {
      char *frame = n < 200 ? frames_take(&frames, 0) : NULL;
      if (frame) {
        memset(frame, 7, FRAME_BYTES);
        taken[n++] = frame;
      }
    }
    for (uint64_t k = test_random() % 16; what <= 4 && n > 0 && k > 0; k--) {
      uint32_t at = (uint32_t)(test_random() % n);
      CHECK(taken[at][FRAME_BYTES - 1] == 7);
      frames_give(&frames, taken[at]);
      taken[at] = taken[--n];
    }
    check_balance(&frames, n);
  }
  frames_free(&frames);
}

static int calls_left;
static void *failing_allocate(struct env *env, size_t bytes) {
  return calls_left-- > 0 ? env_posix.allocate(env, bytes) : NULL;
}
static void *failing_map(struct env *env, size_t bytes, int huge) {
  return calls_left-- > 0 ? env_posix.map(env, bytes, huge) : NULL;
}

TEST(no_memory) {
  struct env env = env_posix;
  env.allocate = failing_allocate;
  env.map = failing_map;
  for (int calls = 0; calls < 2; calls++) {
    struct frames frames;
    calls_left = calls;
    CHECK_EQ_INT(frames_init(&frames, &env, FRAME_BYTES, COUNT), EMB_NOMEM);
    frames_free(&frames); /* harmless */
  }
}

static void *failing_resize(struct env *env, void *old, size_t bytes) {
  return calls_left-- > 0 ? env_posix.resize(env, old, bytes) : NULL;
}

TEST(no_memory_for_more) {
  struct env env = env_posix;
  struct frames frames;
  char *taken[80];
  env.allocate = failing_allocate;
  env.map = failing_map;
  env.resize = failing_resize;
  calls_left = 100;
  CHECK_EQ_INT(frames_init(&frames, &env, FRAME_BYTES, COUNT), 0);
  for (int calls = 0; calls < 3; calls++) {
    calls_left = calls;
    CHECK_EQ_INT(frames_resize(&frames, 80), EMB_NOMEM);
    CHECK_EQ_INT(frames_count(&frames), COUNT);
    check_balance(&frames, 0);
  }
  calls_left = 3;
  CHECK_EQ_INT(frames_resize(&frames, 80), 0);
  take_all(&frames, taken, 80);
  frames_free(&frames);
}
