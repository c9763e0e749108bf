/* SPDX-License-Identifier: MIT
**
** task_rows.c -- background tasks that remove rows: expiry and eviction.
** forget.c does the same on request.
*/
#include "evict.h"
#include "engine/table/jobs/tasks.h"
#include "task.h"
#include "expire.h"
#include "engine/table/session/session.h"

#define EXPIRE_US UINT64_C(1000000)
#define EXPIRE_REST_US (60 * EXPIRE_US)

/* ---- expire -------------------------------------------------------------- */

struct expire_state {
  uint64_t none_us;      /* when nothing was due */
  uint64_t number, time; /* the extent of this pass and its time; 0: none */
};
_Static_assert(sizeof(struct expire_state) <= TASK_STATE * 8, "state");

/* Looks for the extent whose rows must expire now: at most once a second,
** except in step mode, where the caller decides when. */
static int expire_wakes(struct pass *pass) {
  struct expire_state *state = pass->state;
  struct core *core = &pass->store->core;
  uint64_t us = core->env->now_us(core->env);
  state->number = 0;
  if (!ttl_any(&core->schema.ttl) ||
      (!core->step_mode && us - state->none_us < EXPIRE_US)) {
    return 0;
  }
  uint32_t now = core_time(core);
  state->time = now;
  state->number = expire__choose(core, now, expire__slack(core));
  if (!state->number) {
    state->none_us = us;
  }
  return state->number != 0;
}

static int expire_due(struct pass *pass) {
  return ((const struct expire_state *)pass->state)->number != 0;
}

static int expire_run(struct pass *pass, enum outcome *did, emb_err *err) {
  const struct expire_state *state = pass->state;
  struct core *core = &pass->store->core;
  uint32_t now = (uint32_t)state->time;
  struct expire_pass extent = {.extent = state->number,
                               .now = now,
                               .retry = now - expire__slack(core) + 1};
  int rc = expire__extent(core, pass->store->work_slot, &extent, err);
  *did = rc ? PIECE_NONE : PIECE_MORE;
  return rc;
}

/* Rests for a limited time, because the clock may be set. */
static uint64_t expire_rest(struct pass *pass) {
  struct core *core = &pass->store->core;
  uint32_t first, now = core_time(core);
  if (!ttl_any(&core->schema.ttl) || !expire__first(core, &first)) {
    return TASKS_NEVER;
  }
  first += expire__slack(core);
  uint64_t us = first > now ? (first - now) * UINT64_C(1000000) : EXPIRE_US;
  return us < EXPIRE_REST_US ? us : EXPIRE_REST_US;
}

const struct task task_expire = {
    TASK_NAMED("expire"), .lane = LANE_WORK, .wakes = expire_wakes,
    .due = expire_due,    .run = expire_run, .rest = expire_rest,
};

/* ---- evict --------------------------------------------------------------- */

struct evict_state { /* when a round found nothing to remove */
  uint64_t version, first_page;
};
_Static_assert(sizeof(struct evict_state) <= TASK_STATE * 8, "state");

static struct evict_state evict_moment(const struct core *core) {
  return (struct evict_state){atomic_load(&core->version),
                              atomic_load(&core->txn_first_page)};
}

/* Must a round begin or continue?  After a round that found nothing to remove,
** the next begins when a row was written or deleted, or a transaction began or
** ended. */
static int evict_due(struct pass *pass) {
  const struct evict_state *idle = pass->state;
  emb_store *store = pass->store;
  if (evict_of(store)->count) {
    return 1;
  }
  if (!evict__over(&store->core, 0)) {
    return 0;
  }
  struct evict_state now = evict_moment(&store->core);
  return idle->version != now.version || idle->first_page != now.first_page;
}

static int evict_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  struct evict *round = evict_of(store);
  struct evict_state now = evict_moment(&store->core);
  uint64_t removed = 0;
  int in_vain;
  int rc = evict__piece(&store->core, store->work_slot, round, &removed,
                        &in_vain, err);
  *(struct evict_state *)pass->state =
      in_vain ? now : (struct evict_state){0, 0};
  *did = rc ? PIECE_NONE : PIECE_MORE;
  return rc;
}

const struct task task_evict = {
    TASK_NAMED("evict"), .lane = LANE_WORK, .wakes = evict_due,
    .due = evict_due,    .run = evict_run,
};
