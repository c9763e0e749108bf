/* SPDX-License-Identifier: MIT
**
** flush.c -- when the task that keeps frames free is behind: the rows that were
** put are counted here, without the store.
*/
#include "store_help.h"

#include "engine/table/store/store.h"

enum { DIM = 64, FRAMES = 64, FRAME_BYTES = 256 << 10, BATCH = 960 };

/* 64 pages of 15 records are an extent, and a batch. */
static void put_extent(emb_session *s, int64_t first) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  for (int i = 0; i < BATCH; i++)
    keys[i] = first + i;
  OK(s, emb_put(s, keys, BATCH, vectors, NULL));
}

/* The task is behind once more than three quarters of the log are mutable, long
** before frames are short; and after its work no more. */
TEST(behind_when_most_of_the_log_is_mutable) {
  emb_config c = {.dim = DIM,
                  .memory_bytes = (uint64_t)FRAMES * FRAME_BYTES,
                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  struct core *core = &store->core;
  CHECK_EQ_INT(frames_count(&core->frames), FRAMES);
  int64_t key = 1;
  uint64_t sealed = atomic_load(&core->log.read_only);
  int extents = 0;
  for (; extents < FRAMES * 3 / 4; extents++, key += BATCH) {
    CHECK(!core_is_behind(core));
    put_extent(s, key);
  }
  put_extent(s, key); /* the 49th */
  put_extent(s, key + BATCH);
  CHECK(frames_left(&core->frames) >= core_low_water(core));
  CHECK_EQ_INT(atomic_load(&core->log.read_only), sealed);
  CHECK(core_is_behind(core));
  CHECK(help_settle(store));
  CHECK(atomic_load(&core->log.read_only) > sealed);
  CHECK(!core_is_behind(core));
  CHECK(help_close(store, s));
}
