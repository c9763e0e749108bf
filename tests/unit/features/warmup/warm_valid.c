/* SPDX-License-Identifier: MIT
**
** warm_valid.c -- each assertion about a warm-up, and about a hot set being
** read, fires.
*/
#include "engine/features/warmup/warm.h"

#include "death.h"
#include "store_help.h"

enum { DIM = 64, ROWS = 20000 };

static emb_store *store;
static emb_session *s;
static struct warm *warm;

/* Opens a store that fits into memory, and steps to where the warm-up knows
** what to read, and has read a part of it. */
static int begin(void) {
  emb_config c = {.dim = DIM,
                  .memory_bytes = 32 << 20,
                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static float vector[DIM];
  int more;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  for (int64_t key = 1; key <= ROWS; key++) {
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  if (!help_close(store, s) || !help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  warm = warm_of(store);
  CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  pthread_mutex_lock(&warm->lock);
  return CHECK(warm->planned && warm->next && warm->next + 2 < warm->count) &&
         CHECK(warm_valid(store));
}

static void end(void) {
  pthread_mutex_unlock(&warm->lock);
  OK(s, emb_warm(s));
  pthread_mutex_lock(&warm->lock);
  CHECK(warm_valid(store));
  pthread_mutex_unlock(&warm->lock);
  help_close(store, s);
}

TEST(a_warm_up) {
  if (!begin()) {
    return;
  }
  struct warm_item *item = &warm->items[warm->next];
  CHECK_FIRES(pthread_mutex_unlock(&warm->lock); warm_valid(store));
  CHECK_FIRES(atomic_store(&warm->state, WARM_DONE); warm_valid(store));
  CHECK_FIRES(warm->planned = 0; warm_valid(store));
  CHECK_FIRES(warm->next = warm->count + 1; warm_valid(store));
  CHECK_FIRES(warm->queue = NULL; warm_valid(store));
  CHECK_FIRES(item->to = item->from; warm_valid(store));
  CHECK_FIRES(item->phys = item[1].phys + 1; warm_valid(store));
  CHECK_FIRES(item->kind = ITEM_LIST; warm_valid(store));
  end();
}

TEST(a_hot_set) {
  static struct block block;
  if (!begin()) {
    return;
  }
  struct warm_item *item = &warm->items[warm->next];
  struct hot_reading *hot = &warm->hot, before = *hot;
  uint32_t heat = warm->heat, kind = item->kind;
  hot->file = store->core.log.file;
  hot->block = &block;
  hot->next = 1;
  warm->heat = 1;
  item->kind = ITEM_LIST;
  CHECK(warm_valid(store));
  CHECK_FIRES(warm->heat = 4; warm_valid(store));
  CHECK_FIRES(hot->block = NULL; warm_valid(store));
  CHECK_FIRES(hot->next = 2; hot__next(hot));
  CHECK_FIRES(item->last = HOT_BLOCK_WORDS + 1; warm_valid(store));
  *hot = before;
  warm->heat = heat;
  item->kind = kind;
  CHECK_ALL_FIRED("engine/features/warmup/warm_valid.c");
  end();
}
