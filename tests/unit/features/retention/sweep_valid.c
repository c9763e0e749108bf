/* SPDX-License-Identifier: MIT
**
** sweep_valid.c -- each assertion about a pass over records fires, and those of
** the callers that work under ckpt_lock, outside any epoch.
*/
#include "engine/features/retention/sweep.h"

#include "death.h"
#include "forget_help.h"
#include "engine/features/retention/compact.h"
#include "engine/features/retention/expire.h"
#include "engine/features/retention/shorten.h"
#include "engine/table/session/session.h"

enum { DIM = 30, ROWS = 300 };

static emb_store *store;
static emb_session *s;
static struct core *core;
static struct sweep sweep;

static int look_at_none(struct sweep *w, const struct rec *rec, int64_t key,
                        uint64_t address) {
  (void)w;
  (void)rec;
  (void)key;
  (void)address;
  return EMB_OK;
}

static int begin(void) {
  emb_config c = forget_config(DIM);
  static float vector[DIM];
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  core = &store->core;
  for (int64_t key = 1; key <= ROWS; key++) {
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  sweep = (struct sweep){.look = look_at_none};
  return CHECK_EQ_INT(sweep__init(&sweep, core, store->work_slot, NULL),
                      EMB_OK);
}

static void end(void) {
  sweep__free(&sweep);
  help_close(store, s);
}

/* Goes through the first extent, from disk. */
static void go_through(void) {
  uint64_t first = core->log.first << core->layout.extent_bits;
  CHECK_EQ_INT(
      sweep__pages(&sweep, first, first + core->layout.extent_pages, NULL),
      EMB_OK);
}

TEST(a_sweep) {
  if (!begin()) {
    return;
  }
  go_through();
  CHECK(sweep_valid(&sweep));
  CHECK_FIRES(sweep.value = NULL; sweep_valid(&sweep));
  CHECK_FIRES(sweep.from = sweep.end + 1; sweep_valid(&sweep));
  CHECK_FIRES(sweep.end = sweep.from + core->layout.extent_pages + 1;
              sweep_valid(&sweep));
  CHECK_FIRES(sweep.buffer = NULL; sweep.end = sweep.from + 1;
              sweep_valid(&sweep));
  CHECK_ALL_FIRED("engine/features/retention/sweep_valid.c");
  end();
}

TEST(more_pages_than_the_buffer_holds) {
  if (!begin()) {
    return;
  }
  uint64_t pages = core->layout.extent_pages;
  uint64_t first = core->log.first << core->layout.extent_bits;
  CHECK_FIRES(sweep__pages(&sweep, first + 1, first + 1 + pages, NULL));
  CHECK_FIRES(sweep__pages(&sweep, first, first, NULL));
  end();
}

TEST(a_removal) {
  static const struct rec none;
  int outcome;
  if (!begin()) {
    return;
  }
  sweep.reason = PAGE_EXPIRED;
  CHECK_FIRES(sweep__remove(&sweep, &none, 1, 1, &outcome));
  CHECK_FIRES(epoch_enter(&core->epoch, store->work_slot); sweep.reason = 0;
              sweep__remove(&sweep, &none, 1, 1, &outcome));
  epoch_enter(&core->epoch, store->work_slot);
  CHECK_EQ_INT(sweep__remove(&sweep, &none, ROWS + 1, 1, &outcome), EMB_OK);
  epoch_leave(store->work_slot);
  CHECK_EQ_INT(outcome, SWEEP_GONE);
  end();
}

static void compact(void) {
  int did;
  compact__one(core, store->work_slot, 1, &did, NULL);
}

static void expire(void) {
  struct expire_pass pass = {.extent = core->log.first};
  expire__extent(core, store->work_slot, &pass, NULL);
}

static void shorten(void) {
  uint32_t moved;
  shorten__file(core, 0, 1, &moved, NULL);
}

static void under_the_lock(void (*call)(void)) {
  CHECK_FIRES(call());
  CHECK(strstr(death_text(), "ckpt_lock") != NULL);
  CHECK_FIRES(pthread_mutex_lock(&core->ckpt_lock);
              epoch_enter(&core->epoch, store->work_slot); call());
  CHECK(strstr(death_text(), "epoch_outside") != NULL);
}

TEST(work_under_ckpt_lock_and_outside_any_epoch) {
  if (!begin()) {
    return;
  }
  under_the_lock(compact);
  under_the_lock(expire);
  under_the_lock(shorten);
  CHECK_ALL_FIRED("engine/features/retention/compact.c");
  CHECK_ALL_FIRED("engine/features/retention/shorten.c");
  CHECK_ALL_FIRED("engine/features/retention/expire.c");
  end();
}
