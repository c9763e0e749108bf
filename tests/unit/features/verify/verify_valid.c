/* SPDX-License-Identifier: MIT
**
** verify_valid.c -- emb_verify notices that it lost the lock under which it
** compares.
*/
#include "engine/table/session/session.h"

#include "death.h"
#include "store_help.h"

enum { DIM = 60, ROWS = 3000 };

static emb_store *store;
static emb_session *s;

static int begin(void) {
  return help_open_filled(DIM, ROWS, &store, &s) && CHECK(help_verify(s));
}

/* A caller that should not do this. */
static void unlock(void *arg, const char *line) {
  (void)arg;
  (void)line;
  pthread_mutex_unlock(&store->core.ckpt_lock);
}

/* Makes emb_verify report the extent, and lose the lock then. */
static void lose_lock_at(uint64_t extent) {
  atomic_fetch_add(&log_extent(&store->core.log, extent)->live, 1);
  emb_verify(s, unlock, NULL);
}

static uint64_t last_extent(void) {
  const struct core *core = &store->core;
  return (atomic_load(&core->log.tail) - 1) >> core->layout.extent_bits;
}

static void lose_lock_at_the_index(void) {
  atomic_fetch_add(&store->core.count, 1);
  emb_verify(s, unlock, NULL);
}

/* A store that was open before a fork cannot be read in the child. */
TEST(a_lost_lock) {
  CHECK_FIRES(begin(); lose_lock_at(store->core.log.first));
  CHECK_FIRES(begin(); lose_lock_at(last_extent()));
  CHECK_FIRES(begin(); lose_lock_at_the_index());
  CHECK_ALL_FIRED("engine/features/verify/verify.c");
}
