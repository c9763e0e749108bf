/* SPDX-License-Identifier: MIT
**
** evict_valid.c -- each assertion about a round of eviction fires.
*/
#include "engine/features/retention/evict.h"

#include "death.h"
#include "forget_help.h"
#include "engine/table/session/session.h"

enum { DIM = 30, CAPACITY = 3200, ROWS = CAPACITY + CAPACITY / 20 };

static emb_store *store;
static emb_session *s;
static struct evict round_of_test;

/* Opens a table with some rows too many, in several extents, and begins a
** round.  Leaves ckpt_lock held. */
static int begin_round(void) {
  emb_config c = forget_config(DIM);
  static float vector[DIM];
  uint64_t removed = 0;
  int in_vain;
  c.capacity = CAPACITY;
  c.evict = EMB_EVICT_LRU;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  for (int64_t key = 1; key <= ROWS; key++) {
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  pthread_mutex_lock(&store->core.ckpt_lock);
  CHECK_EQ_INT(evict__piece(&store->core, store->work_slot, &round_of_test,
                            &removed, &in_vain, NULL),
               EMB_OK);
  return CHECK(round_of_test.count > 1 && !in_vain);
}

static void end_round(void) {
  pthread_mutex_unlock(&store->core.ckpt_lock);
  help_close(store, s);
}

static void next_piece(void) {
  uint64_t removed = 0;
  int in_vain;
  evict__piece(&store->core, store->work_slot, &round_of_test, &removed,
               &in_vain, NULL);
}

TEST(a_round) {
  struct evict *round = &round_of_test;
  const struct core *core = NULL;
  if (!begin_round()) {
    return;
  }
  core = &store->core;
  struct evict_stratum *first = &round->strata[0];
  CHECK(evict_valid(core, round));
  CHECK_FIRES(round->count = EVICT_STRATA + 1; evict_valid(core, round));
  CHECK_FIRES(round->at = round->count; evict_valid(core, round));
  CHECK_FIRES(round->next = first->end + 1; evict_valid(core, round));
  CHECK_FIRES(round->most = core->schema.capacity + 1;
              evict_valid(core, round));
  CHECK_FIRES(first->low = 0; evict_valid(core, round));
  CHECK_FIRES(first[1].from = first[1].end + 1; evict_valid(core, round));
  CHECK_FIRES(first->low = first->seen + 1; evict_valid(core, round));
  CHECK_FIRES(first[0].low = 1; first[0].seen = 9; first[1].low = 5;
              first[1].seen = 9; evict_valid(core, round));
  CHECK_ALL_FIRED("engine/features/retention/evict_valid.c");
  end_round();
}

TEST(a_piece) {
  if (!begin_round()) {
    return;
  }
  CHECK_FIRES(epoch_enter(&store->core.epoch, store->work_slot); next_piece());
  CHECK_FIRES(pthread_mutex_unlock(&store->core.ckpt_lock); next_piece());
  CHECK_FIRES(round_of_test.next = UINT64_MAX; next_piece());
  next_piece();
  CHECK(evict_valid(&store->core, &round_of_test));
  end_round();
}
