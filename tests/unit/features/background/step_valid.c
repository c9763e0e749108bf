/* SPDX-License-Identifier: MIT
**
** step_valid.c -- each assertion about the beginning and the end of background
** work fires.
*/
#include "engine/features/background/step.h"

#include "death.h"
#include "store_help.h"

TEST(background_work) {
  emb_config c = {
      .dim = 4, .memory_bytes = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  int more;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return;
  }
  struct core *core = &store->core;
  CHECK_FIRES(core->step_mode = 0; core->step(core, &more, NULL));
  CHECK_FIRES(core->step_mode = 0; core->stopping = 1; step_start(store, NULL));
  CHECK_FIRES(core->step_mode = 0; step_of(store)->has_begun = 1;
              step_start(store, NULL));
  CHECK_FIRES(epoch_enter(&core->epoch, store->work_slot); step_stop(store));
  CHECK_ALL_FIRED("engine/features/background/step.c");
  help_close(store, s);
}
