/* SPDX-License-Identifier: MIT
**
** route.c -- see route.h.
**
** STATES of a process that has a store open, and what each call finds
**
**   owner     its calls are its own, and it serves others [server.c]
**   reader    nobody owns the store, it was closed in peace: the checkpoint
**             in memory is what there is.  Each call looks at the manifest
**             first, so a process that has become the owner is noticed
**   client    another process owns it: its sessions are linked to that one,
**             each when it makes its next call [link.c]
**
**   reader -> owner    its first write                       [store_own]
**   reader -> client   another process was first             [route_session]
**   client -> client   the owner has gone, and another process was first to
**                      take the lock                         [route_session]
**   client -> owner    the owner has gone: the first call that writes takes
**                      the lock, and so does any that finds that it died
**                                            [store_own, store_refresh]
**   client -> reader   the owner has closed the store, and this call reads
**
** There is never a second owner, because only who has the lock writes, and
** the lock goes with its process.  A socket says nothing about that: it may
** be left by a process that has died.  An owner begins in this order: lock,
** state of the files, manifest, socket, first write; so who sees the manifest
** changed finds the lock held.  It ends so: sessions of clients, checkpoint,
** the sign in their slots, socket, lock.  tests/model/owner.pml explores both.
*/
#include "route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../session/dir.h"
#include "../session/own.h"
#include "../session/patience.h"
#include "link.h"
#include "orphan.h"
#include "served.h"
#include "server.h"
#include "stat_row.h"
#include "stat_text.h"

#define TRY_US 2000
#define CONTROL_US 100 /* between two looks at control_lock */
#define MOMENT_US 20000
#define OWNERS_TRIED 100
#define DECISIONS_TRIED 20
#define DECIDED_US 500

/* An owner may have come and gone since this process looked a moment ago, and
** what it acknowledged is to be read. */
static void look_again(emb_store *store) {
  if (!EMB_SEED(SEED_SHORT_OWNER_OVERLOOKED)) {
    atomic_store(&store->look, 1);
  }
}

static int gives_no_answer(emb_session *s, enum env_lock_state state,
                           int64_t holder) {
  return state == ENV_LOCK_UNSETTLED
             ? own_recovering(s->core->dir, &s->err)
             : session_error(s, EMB_BUSY, LINK_SILENT, s->core->dir,
                             link__name(holder).text);
}

/* Links the session to the owner, if there is one that serves; waits while it
** begins or ends.  EMB_OK also without: then nobody has the lock, or its holder
** is alone. */
static int find_owner(emb_session *s) {
  emb_store *store = s->store;
  uint64_t waited = 0, left = patience_left_us(s);
  for (;;) {
    int64_t holder;
    if (atomic_load(&store->owner)) {
      return EMB_OK;
    }
    enum env_lock_state state;
    int rc = link__lock_of(store, &state, &holder, &s->err);
    if (rc) {
      return rc;
    }
    if (state != ENV_LOCK_FREE && holder && patience_is_over(s, holder)) {
      return gives_no_answer(s, state, holder);
    }
    enum link_trial trial =
        state == ENV_LOCK_FREE ? LINK_NOBODY : link__open(s, left);
    if (trial == LINK_MADE) {
      err_clear(&s->err);
      s->sought = 0;
      own_unload(store);
      return EMB_OK;
    }
    if (trial == LINK_REFUSED) {
      return s->err.code;
    }
    err_clear(&s->err);
    if (state == ENV_LOCK_FREE || state == ENV_LOCK_ALONE ||
        (trial == LINK_NOBODY &&
         EMB_SEED(SEED_CHECKPOINT_SHOWN_BESIDE_OWNER))) {
      look_again(store);
      return EMB_OK;
    }
    rc = session_interrupted(s);
    if (rc) {
      return rc;
    }
    if (waited >= left) {
      patience_spend(s, holder, waited);
      return gives_no_answer(s, state, holder);
    }
    session_sleep(s, TRY_US, &waited);
  }
}

int route_session(emb_session *s) {
  emb_store *store = s->store;
  int rc = session_begin(s);
  s->routes = own_may_ask(store);
  rc = rc ? rc : session_owed(s);
  if (rc || !own_may_ask(store) || s->txn || atomic_load(&store->dropped)) {
    return rc;
  }
  if (s->lost_txn) {
    return session_error(s, EMB_LOST,
                         "the transaction was lost with the process that "
                         "owned %s: roll it back",
                         s->core->dir);
  }
  return own_is_current(store) ? EMB_OK : find_owner(s);
}

int route_again(emb_session *s) {
  emb_store *store = s->store;
  uint64_t waited = 0, left = 0;
  int64_t holder = 0;
  int reads = s->recovering;
  s->recovering = 0;
  for (;;) {
    int rc = find_owner(s);
    if (rc || s->link || atomic_load(&store->owner)) {
      return rc;
    }
    enum env_lock_state state;
    rc = link__lock_of(store, &state, &holder, &s->err);
    if (rc) {
      return rc;
    }
    if (state == ENV_LOCK_FREE || (reads && state == ENV_LOCK_ALONE)) {
      return EMB_OK; /* what it saved can be read */
    }
    rc = session_interrupted(s);
    if (rc) {
      return rc;
    }
    left = left ? left : patience_left_us(s);
    if (waited >= left) {
      patience_spend(s, holder, waited);
      return reads ? gives_no_answer(s, state, holder)
                   : session_error(s, EMB_BUSY,
                                   "%s is owned by another process%s",
                                   s->core->dir,
                                   holder ? ", which does not serve it" : "");
    }
    session_sleep(s, TRY_US, &waited);
  }
}

int route_decide(emb_session *s, int *rc, struct deciding *d) {
  uint64_t number = s->met_doubt;
  int is_orphan = s->met_orphan;
  emb_err met = s->err;
  if (!number || !s->decides || number == s->doubt_seen) {
    return 0;
  }
  int said = s->decides(s->decides_arg, number, is_orphan);
  s->err = met;
  s->met_doubt = number;
  if (said == EMB_DECIDE_PAST) {
    s->doubt_seen = number;
    return 1;
  }
  if (said != EMB_DECIDE_AGAIN || (is_orphan && ++d->tries > DECISIONS_TRIED)) {
    return 0;
  }
  if (!is_orphan) { /* its session says so in a moment */
    *rc = session_interrupted(s);
    if (!*rc && d->waited_us >= session_timeout_us(s)) {
      *rc = session_error(s, EMB_BUSY,
                          "%s: transaction %llu is committed, and the process "
                          "that does that has not said so yet; try again",
                          s->core->dir, (unsigned long long)number);
    }
    if (*rc) {
      return 0;
    }
    session_sleep(s, DECIDED_US, &d->waited_us);
  }
  return 1;
}

/* The next owner may die, too.  If none is found in time, what is in doubt is
** decided as the coordinator says by who uses the store next: for a commit that
** is no error, since it cannot fail. */
int route_decided(emb_session *s, int commit) {
  emb_store *store = s->store;
  emb_err err = {EMB_OK, ""};
  int rc = EMB_LOST;
  int (*decides)(void *, uint64_t, int) = s->decides;
  s->lost_prepared = s->lost_txn = 0;
  s->decides = NULL; /* it has decided */
  for (int tries = 0; rc == EMB_LOST && tries < OWNERS_TRIED; tries++) {
    rc = emb_own(s);
    if (rc == EMB_LOCKED || rc == EMB_OK) {
      rc = emb_resolve(store, s->prepared_number, commit, &err);
    }
  }
  s->decides = decides;
  err_clear(&s->err);
  s->owed.code = EMB_OK;
  if (rc && !commit) {
    s->err = err;
  }
  return commit ? EMB_OK : rc;
}

/* ---- the store's own session --------------------------------------------- */

static void wait_with(emb_session *s, emb_patience *patience) {
  s->patience = patience;
  s->interrupt = patience ? patience->interrupt : NULL;
  s->interrupt_arg = patience ? patience->interrupt_arg : NULL;
}

int route_open(emb_store *store, int *is_served, emb_err *err) {
  *is_served = 0;
  if (!own_may_ask(store)) {
    return EMB_OK;
  }
  int rc = store->control ? EMB_OK : session_new(store, &store->control, err);
  if (rc) {
    return rc;
  }
  store->control->link = NULL;
  emb_patience *p = store->control->patience, *opens = store->config.patience;
  emb_patience moment = {.limit_us = MOMENT_US};
  if (opens) {
    moment.interrupt = opens->interrupt;
    moment.interrupt_arg = opens->interrupt_arg;
    /* Of a process that was just waited for in vain it is over. */
    moment.spent_us = opens->spent_us;
    moment.is_silent = opens->is_silent;
    moment.process = opens->process;
    wait_with(store->control, &moment);
  }
  rc = find_owner(store->control);
  wait_with(store->control, p);
  if (rc == EMB_BUSY && moment.is_silent) {
    *is_served = 1;
    return EMB_OK;
  }
  *is_served = store->control->link != NULL;
  if (rc && err) {
    *err = store->control->err;
  }
  return rc;
}

int route_recovered(emb_store *store) {
  emb_session *s = store->control;
  if (!own_may_ask(store) ||
      (!s && session_new(store, &store->control, NULL) != EMB_OK)) {
    return 0;
  }
  s = store->control;
  s->link = NULL;
  int is_made = link__open(s, MOMENT_US) == LINK_MADE;
  err_clear(&s->err);
  return is_made;
}

void route_close(emb_store *store) {
  stat__text_free(store);
  if (store->control) {
    link__close(store->control);
    session_free(store->control);
    store->control = NULL;
  }
}

/* The name of a socket that nobody has any more. */
static void remove_socket(emb_store *store) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  if (path_join(path, sizeof path, core->dir, FILE_SOCKET, NULL) == EMB_OK) {
    (void)core->env->unlink(core->env, path);
  }
}

void route_own(emb_store *store) {
  store->owner_since = store->core.env->wall_s(store->core.env);
  if (own_may_ask(store) && !store->server) {
    (void)server__start(store, &store->server, &store->not_served);
  }
  if (!store->server && !store->core.temporary) {
    remove_socket(store); /* of an owner that has died */
  }
}

int route_is_owned(emb_store *store, int64_t *holder) {
  enum env_lock_state state = ENV_LOCK_FREE;
  *holder = 0;
  if (!store->core.temporary) {
    (void)link__lock_of(store, &state, holder, NULL);
  }
  return state != ENV_LOCK_FREE;
}

void route_tell(emb_store *store) {
  if (store->server) {
    server__tell(store->server);
  }
}

void route_leave(emb_store *store) {
  if (store->server) {
    server__stop(store->server);
  }
  orphan__abandon(store);
}

void route_left(emb_store *store, int in_peace) {
  if (store->server) {
    remove_socket(store);
    server__end(store->server, in_peace);
    store->server = NULL;
  }
}

/* Takes control_lock: another thread may be waiting for the owner under it. */
static int control_enter(emb_store *store, emb_patience *patience,
                         emb_err *err) {
  struct env *env = store->core.env;
  uint64_t start = env->now_us(env);
  uint64_t left = patience_left_of(&store->core, patience);
  while (pthread_mutex_trylock(&store->control_lock)) {
    uint64_t waited = env->now_us(env) - start;
    if (patience && patience->interrupt &&
        patience->interrupt(patience->interrupt_arg)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    if (patience && waited >= left) {
      patience_spend_of(&store->core, patience, 0, waited);
      return err_set(err, EMB_BUSY, LINK_SILENT, store->core.dir,
                     "another process");
    }
    env->sleep_us(env, CONTROL_US);
  }
  if (!store->control && own_may_ask(store)) {
    (void)session_new(store, &store->control,
                      NULL); /* else it is tried again */
  }
  if (store->control) {
    wait_with(store->control, patience);
  }
  return EMB_OK;
}

static void control_leave(emb_store *store) {
  struct env *env = store->core.env;
  int is_linked = 0;
  if (store->control) {
    wait_with(store->control, NULL);
    is_linked = store->control->link != NULL;
  }
  uint64_t before = atomic_exchange_explicit(&store->control_us,
                                             is_linked ? env->now_us(env) : 0,
                                             memory_order_relaxed);
  pthread_mutex_unlock(&store->control_lock);
  if (is_linked && !before) {
    core_changed(&store->core); /* it is to be closed again [idle.c] */
  }
}

/* The store's own session is linked to the present owner, or what is in this
** process is the newest there is: then CALL_ELSEWHERE.  Under control_lock. */
static int find_control(emb_store *store, emb_err *err) {
  int is_served = 0;
  if (atomic_exchange(&store->is_control_stale, 0) && store->control) {
    link__close(store->control);
  }
  if (store->control && store->control->link) {
    return EMB_OK;
  }
  int rc = route_open(store, &is_served, err);
  while (!rc && !is_served && store->control && !atomic_load(&store->owner)) {
    store->control->routes = own_may_ask(store);
    rc = local_exists(store->control, NULL, 0, NULL);
    if (rc != CALL_ELSEWHERE) {
      break;
    }
    rc = route_again(store->control);
    is_served = store->control->link != NULL;
  }
  return rc || is_served ? rc : CALL_ELSEWHERE;
}

/* Asks by the store's own session; *result is 0 where there is no answer. */
static int ask_store(const emb_store *store_, int call, const union word *w,
                     uint64_t *result, emb_err *err) {
  emb_store *store = (emb_store *)(uintptr_t)store_;
  emb_patience *patience = patience_of_thread();
  int rc = store_check(store, err);
  *result = 0;
  rc = rc ? rc : control_enter(store, patience, err);
  if (rc) {
    return rc;
  }
  for (int tries = 0; tries < 3; tries++) {
    rc = find_control(store, err);
    if (rc) {
      break;
    }
    err_clear(&store->control->err);
    rc = link__ask(store->control, call, 0, w, result);
    if (rc != CALL_ELSEWHERE && rc != EMB_LOST) {
      break;
    }
  }
  if (err && store->control) {
    *err = store->control->err;
  }
  control_leave(store);
  return rc;
}

/* A word that the owner writes into the slot of the store's own session. */
static uint64_t look_at_slot(const emb_store *store_, int dropped) {
  emb_store *store = (emb_store *)(uintptr_t)store_;
  uint64_t value = 0;
  if (store_check(store, NULL) ||
      control_enter(store, patience_of_thread(), NULL)) {
    return 0;
  }
  if (find_control(store, NULL) == EMB_OK) {
    struct link_slot *slot = store->control->link->slot;
    value =
        dropped ? atomic_load(&slot->dropped) : atomic_load(&slot->in_doubt);
  } else {
    value = dropped ? (uint64_t)local_is_dropped(store) : local_in_doubt(store);
  }
  control_leave(store);
  return value;
}

int served_is_owner(const emb_store *store) {
  return store_check(store, NULL) == EMB_OK && atomic_load(&store->served) > 0;
}

int served_is_dropped(const emb_store *store) {
  return look_at_slot(store, 1) != 0;
}

uint64_t served_in_doubt(const emb_store *store) {
  return look_at_slot(store, 0);
}

uint64_t served_memory_least(const emb_store *store) {
  uint64_t result;
  return ask_store(store, CALL_memory_least, NULL, &result, NULL)
             ? local_memory_least(store)
             : result;
}

int served_resolve(emb_store *store, uint64_t number, int commit,
                   emb_err *err) {
  const union word w[REQUEST_ARGS] = {{.u = number}, {.u = commit != 0}};
  uint64_t result;
  int rc = ask_store(store, CALL_resolve, w, &result, err);
  return rc == CALL_ELSEWHERE ? local_resolve(store, number, commit, err)
         : rc                 ? rc
                              : (int)(uint32_t)result;
}

uint64_t served_committed(const emb_store *store) {
  uint64_t result;
  return ask_store(store, CALL_committed, NULL, &result, NULL)
             ? local_committed(store)
             : result;
}

void served_state(const emb_store *store, uint64_t state[2]) {
  const union word w[REQUEST_ARGS] = {{.p = state}};
  uint64_t result;
  if (ask_store(store, CALL_state, w, &result, NULL)) {
    local_state(store, state);
  }
}

/* The owner's number, as it is seen from here; *is_near: so are the others that
** it names.  -1: it was not asked. */
static int64_t seen_owner(emb_store *store, int *is_near) {
  int64_t process = -1;
  pthread_mutex_lock(&store->control_lock);
  if (store->control && store->control->link) {
    process = store->control->link->owner.process;
    *is_near = store->control->link->is_near;
  }
  pthread_mutex_unlock(&store->control_lock);
  return process;
}

/* What is this process's own, also where another one is the owner. */
static int is_own_stat(const char *name) {
  return strcmp(name, "owner") == 0 || strcmp(name, "directory") == 0;
}

static void take_stat(emb_store *store, emb_stat *stat, struct stat_row *row) {
  row->text[sizeof row->text - 1] = 0;
  if (!stat->text) {
    stat->value = row->value;
  } else {
    stat->text = stat__text_keep(store, row->text);
  }
}

/* Of an owner that does not answer nothing else is known: what this process
** counts itself would be taken for the owner's. */
static size_t keep_owner_pid(emb_stat *stats, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(stats[i].name, "owner_pid") == 0) {
      stats[0] = stats[i];
      return 1;
    }
  }
  return 0;
}

/* The owner's values under the names that this process has for them. */
size_t served_stats(emb_store *store, emb_stat *stats, size_t max) {
  size_t n = local_stats(store, stats, max);
  if (!max || !n) {
    return n;
  }
  struct env *env = store->core.env;
  struct stat_row *rows = env->allocate(env, n * sizeof *rows);
  const union word w[REQUEST_ARGS] = {{.p = rows}, {.u = n}};
  uint64_t got = 0;
  int rc = rows ? ask_store(store, CALL_stats, w, &got, NULL) : EMB_NOMEM;
  got = rc ? 0 : got;
  n = rc == EMB_BUSY ? keep_owner_pid(stats, n) : n;
  int is_near;
  int64_t owner = seen_owner(store, &is_near);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < got && k < n; k++) {
      if (strncmp(stats[i].name, rows[k].name, sizeof rows[k].name) == 0 &&
          !stats[i].text == !rows[k].has_text && !is_own_stat(stats[i].name)) {
        take_stat(store, &stats[i], &rows[k]);
        break;
      }
    }
    if (owner >= 0 && strcmp(stats[i].name, "owner_pid") == 0) {
      stats[i].value = owner;
    }
  }
  env->release(env, rows);
  return n;
}

size_t served_clients(emb_store *store, emb_client *clients, size_t max) {
  const union word w[REQUEST_ARGS] = {{.p = max ? clients : NULL}, {.u = max}};
  uint64_t n = 0;
  int is_near = 1;
  if (ask_store(store, CALL_clients, w, &n, NULL)) {
    return local_clients(store, clients, max);
  }
  int64_t owner = seen_owner(store, &is_near);
  for (size_t i = 0; i < max && i < n; i++) {
    clients[i].process = clients[i].is_owner && owner >= 0 ? owner
                         : is_near                         ? clients[i].process
                                                           : 0;
  }
  return (size_t)n;
}

size_t served_progress_of(emb_store *store, emb_progress *list, size_t max) {
  const union word w[REQUEST_ARGS] = {{.p = max ? list : NULL}, {.u = max}};
  uint64_t n = 0;
  int is_near = 1;
  if (ask_store(store, CALL_progress_of, w, &n, NULL)) {
    return local_progress_of(store, list, max);
  }
  (void)seen_owner(store, &is_near);
  for (size_t i = 0; i < max && i < n; i++) {
    progress_name(&list[i], store); /* there it may have another path */
    list[i].process = is_near ? list[i].process : 0;
  }
  return (size_t)n;
}

int served_drop(emb_store *store, emb_err *err) {
  uint64_t result;
  int rc = ask_store(store, CALL_drop, NULL, &result, err);
  return rc == CALL_ELSEWHERE
             ? err_set(err, EMB_BUSY, "%s is owned by another process",
                       store->core.dir)
         : rc ? rc
              : (int)(uint32_t)result;
}
