/* SPDX-License-Identifier: MIT
**
** idle.c -- the store's own session (store.control) leaves its owner when
** nothing was asked by it for a while.
**
** It asks what concerns the store and no connection, and is linked again at the
** next such question.  Of hundreds of tables few are asked at a time, and a
** link is a descriptor here and one there.
**
** THREADS   A task of LANE_AFTER; what asks at the time holds control_lock, and
**           then nothing is closed.
*/
#include "link.h"

#define IDLE_US UINT64_C(3000000)

static int64_t idle_left_us(emb_store *store) {
  struct env *env = store->core.env;
  uint64_t used =
      atomic_load_explicit(&store->control_us, memory_order_relaxed);
  return (int64_t)(used + IDLE_US - env->now_us(env));
}

static int idle_due(struct pass *pass) {
  emb_store *store = pass->store;
  return atomic_load_explicit(&store->control_us, memory_order_relaxed) &&
         (!pass->by_thread || idle_left_us(store) <= 0);
}

static int idle_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  (void)err;
  *did = PIECE_NONE;
  if (pthread_mutex_trylock(&store->control_lock)) {
    return EMB_OK;
  }
  if (!pass->by_thread || idle_left_us(store) <= 0) {
    atomic_store_explicit(&store->control_us, 0, memory_order_relaxed);
    if (store->control && store->control->link) {
      link__close(store->control);
      *did = PIECE_DONE;
    }
  }
  pthread_mutex_unlock(&store->control_lock);
  return EMB_OK;
}

static uint64_t idle_rest(struct pass *pass) {
  emb_store *store = pass->store;
  if (!atomic_load_explicit(&store->control_us, memory_order_relaxed)) {
    return TASKS_NEVER;
  }
  int64_t left = idle_left_us(store);
  return left > 0 ? (uint64_t)left : 0;
}

const struct task task_control = {
    TASK_NAMED("control"), .lane = LANE_AFTER, .due = idle_due,
    .rest = idle_rest,     .run = idle_run,
};
