/* SPDX-License-Identifier: MIT
**
** frames.c -- tests of engine/io/frames: no frame is given out twice, and some
** can be kept back.
*/
#include "test.h"

#include "../../engine/emb.h"
#include "../../engine/io/frames.h"

#include <pthread.h>

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
