/* SPDX-License-Identifier: MIT
**
** control.c -- see control.h.
**
** IDLE      The cached session disconnects from its owner when unused for a
**           while, and reconnects at the next question.  Of hundreds of tables
**           few are in use at a time, and a link costs a descriptor at each
**           end; the more links there are, the sooner each is closed.  This is
**           a task of LANE_AFTER.
*/
#include "control.h"
#include "engine/table/jobs/tasks.h"

#include "engine/table/owner/own.h"
#include "engine/table/session/patience.h"
#include "route.h"
#include "stat_text.h"

/* How long an unresponsive owner may delay the opening of a store. */
#define MOMENT_US 20000
#define QUESTIONS_TRIED 3
#define IDLE_US UINT64_C(3000000)
/* Rechecked this often: other sessions may shorten the wait. */
#define LOOK_US UINT64_C(200000)

/* ---- the sessions -------------------------------------------------------- */

static void control_wait_with(emb_session *s, emb_patience *patience) {
  s->waits.patience = patience;
  s->waits.interrupt = patience ? patience->interrupt : NULL;
  s->waits.interrupt_arg = patience ? patience->interrupt_arg : NULL;
}

/* Takes the cached session, or NULL. */
static emb_session *control_take_kept(emb_store *store) {
  pthread_mutex_lock(&store->control.lock);
  emb_session *s = store->control.session;
  store->control.session = NULL;
  pthread_mutex_unlock(&store->control.lock);
  return s;
}

/* The session waits according to the patience of the caller's thread. */
static int control_take(emb_store *store, emb_patience *patience,
                        emb_session **s, emb_err *err) {
  int rc = EMB_OK;
  *s = NULL;
  if (!own_may_ask(store)) {
    return CALL_ELSEWHERE;
  }
  *s = control_take_kept(store);
  if (!*s) {
    rc = session_new(store, s, err);
  }
  if (!rc) {
    (*s)->route.is_control = 1;
    control_wait_with(*s, patience);
  }
  return rc;
}

static void control_free(emb_session *s) {
  link__close(s);
  session_free(s);
}

static void control_give(emb_session *s) {
  emb_store *store = s->store;
  struct env *env = store->core.env;
  uint64_t used = s->link ? env->now_us(env) : 0;
  control_wait_with(s, NULL);
  pthread_mutex_lock(&store->control.lock);
  int is_kept = !store->control.session;
  if (is_kept) {
    store->control.session = s;
  }
  pthread_mutex_unlock(&store->control.lock);
  if (!is_kept) {
    control_free(s);
    return;
  }
  uint64_t before =
      atomic_exchange_explicit(&store->control.us, used, memory_order_relaxed);
  if (used && !before) {
    core_changed(&store->core); /* so that it gets closed again */
  }
}

void route_close(emb_store *store) {
  emb_session *s = control_take_kept(store);
  stat__text_free(store);
  if (s) {
    control_free(s);
  }
}

/* ---- its owner ----------------------------------------------------------- */

/* See route_open. */
static int control_link(emb_session *s, int *is_served, emb_err *err) {
  emb_patience *p = s->waits.patience, *opens = s->store->config.patience;
  emb_patience moment = {.limit_us = MOMENT_US};
  link__close(s);
  if (opens) {
    moment.interrupt = opens->interrupt;
    moment.interrupt_arg = opens->interrupt_arg;
    /* No time is left if a wait for that process has just failed. */
    moment.spent_us = opens->spent_us;
    moment.is_silent = opens->is_silent;
    moment.process = opens->process;
    control_wait_with(s, &moment);
  }
  int rc = route__find_owner(s);
  control_wait_with(s, p);
  if (rc == EMB_BUSY && moment.is_silent) {
    *is_served = 1;
    return EMB_OK;
  }
  *is_served = s->link != NULL;
  if (rc && err) {
    *err = s->err;
  }
  return rc;
}

int route_open(emb_store *store, int *is_served, emb_err *err) {
  emb_session *s;
  int rc = control_take(store, NULL, &s, err);
  *is_served = 0;
  if (rc) {
    return rc == CALL_ELSEWHERE ? EMB_OK : rc;
  }
  rc = control_link(s, is_served, err);
  control_give(s);
  return rc;
}

int route_recovered(emb_store *store) {
  emb_session *s;
  if (control_take(store, NULL, &s, NULL)) {
    return 0;
  }
  link__close(s);
  int is_made = link__open(s, MOMENT_US) == LINK_MADE;
  err_clear(&s->err);
  control_give(s);
  return is_made;
}

static int control_find_link(emb_session *s, emb_err *err) {
  emb_store *store = s->store;
  int is_served = 0;
  unsigned age = atomic_load(&store->control.age);
  if (s->route.control_age != age) {
    link__close(s);
  }
  s->route.control_age = age;
  if (s->link) {
    return EMB_OK;
  }
  int rc = control_link(s, &is_served, err);
  while (!rc && !is_served && !atomic_load(&store->own.is_owner)) {
    s->route.may_ask = own_may_ask(store);
    rc = local_refresh(s);
    if (rc != CALL_ELSEWHERE) {
      break;
    }
    rc = route_again(s);
    is_served = s->link != NULL;
  }
  return rc || is_served ? rc : CALL_ELSEWHERE;
}

/* Links the session to the current owner. */
static int control_find(emb_session *s, emb_err *err) {
  emb_store *store = s->store;
  int rc = control_find_link(s, err);
  atomic_store_explicit(&store->control.owner,
                        !rc && s->link ? s->link->owner.process : -1,
                        memory_order_relaxed);
  atomic_store_explicit(&store->control.is_near, rc || s->link->is_near,
                        memory_order_relaxed);
  return rc;
}

/* ---- questions ----------------------------------------------------------- */

int control__ask(const emb_store *store_, int call, void *args,
                 uint64_t *result, emb_err *err) {
  emb_store *store = (emb_store *)(uintptr_t)store_;
  emb_session *s;
  int rc = store_check(store, err);
  *result = 0;
  rc = rc ? rc : control_take(store, patience_of_thread(), &s, err);
  if (rc) {
    return rc;
  }
  for (int tries = 0; tries < QUESTIONS_TRIED; tries++) {
    rc = control_find(s, err);
    if (rc) {
      break;
    }
    err_clear(&s->err);
    rc = link__ask(s, call, 0, args, result);
    if (rc != CALL_ELSEWHERE && rc != EMB_LOST) {
      break;
    }
  }
  if (err) {
    *err = s->err;
  }
  control_give(s);
  return rc;
}

uint64_t control__look(const emb_store *store_, enum control_word which) {
  emb_store *store = (emb_store *)(uintptr_t)store_;
  emb_session *s;
  uint64_t value = 0;
  int rc = store_check(store, NULL);
  if (rc) {
    return 0;
  }
  rc = control_take(store, patience_of_thread(), &s, NULL);
  if (!rc) {
    rc = control_find(s, NULL);
  }
  if (!rc) {
    const struct link_slot *slot = s->link->slot;
    value = which == CONTROL_DROPPED ? atomic_load(&slot->dropped)
                                     : atomic_load(&slot->in_doubt);
  } else {
    value = which == CONTROL_DROPPED ? (uint64_t)local_is_dropped(store)
                                     : local_in_doubt(store);
  }
  if (s) {
    control_give(s);
  }
  return value;
}

int64_t control__owner(const emb_store *store, int *is_near) {
  *is_near =
      atomic_load_explicit(&store->control.is_near, memory_order_relaxed);
  return atomic_load_explicit(&store->control.owner, memory_order_relaxed);
}

/* ---- the task that closes ------------------------------------------------ */

static int64_t idle_left_us(emb_store *store) {
  struct env *env = store->core.env;
  uint64_t used =
      atomic_load_explicit(&store->control.us, memory_order_relaxed);
  uint64_t keeps =
      process_keeps_us(store->core.process, PROCESS_LINKS, IDLE_US);
  return (int64_t)(used + keeps - env->now_us(env));
}

static int idle_due(struct pass *pass) {
  emb_store *store = pass->store;
  return atomic_load_explicit(&store->control.us, memory_order_relaxed) &&
         (!pass->by_thread || idle_left_us(store) <= 0);
}

static int idle_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  emb_session *s = control_take_kept(store);
  (void)err;
  *did = PIECE_NONE;
  if (s) {
    *did = s->link ? PIECE_DONE : PIECE_NONE;
    link__close(s);
    control_give(s);
  } else { /* the cached session is in use */
    struct env *env = store->core.env;
    atomic_store_explicit(&store->control.us, env->now_us(env),
                          memory_order_relaxed);
  }
  return EMB_OK;
}

static uint64_t idle_rest(struct pass *pass) {
  emb_store *store = pass->store;
  if (!atomic_load_explicit(&store->control.us, memory_order_relaxed)) {
    return TASKS_NEVER;
  }
  int64_t left = idle_left_us(store);
  return left <= 0 ? 0 : (uint64_t)left < LOOK_US ? (uint64_t)left : LOOK_US;
}

const struct task task_control = {
    TASK_NAMED("control"), .lane = LANE_AFTER, .due = idle_due,
    .rest = idle_rest,     .run = idle_run,
};
