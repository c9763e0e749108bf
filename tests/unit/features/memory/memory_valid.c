/* SPDX-License-Identifier: MIT
**
** memory_valid.c -- each assertion about a changed budget fires.
*/
#include "engine/features/memory/advice.h"

#include "death.h"
#include "store_help.h"

TEST(a_changed_budget) {
  emb_config c = {.dim = 4,
                  .memory_bytes = 4 << 20,
                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return;
  }
  OK(s, emb_set_memory(s, 8 << 20));
  CHECK_FIRES(memory_valid(store));
  pthread_mutex_lock(&store->budget_lock);
  CHECK(memory_valid(store));
  CHECK_FIRES(store->core.cache.frames_max = 1; memory_valid(store));
  pthread_mutex_unlock(&store->budget_lock);
  CHECK_ALL_FIRED("engine/features/memory/memory_valid.c");
  help_close(store, s);
}
