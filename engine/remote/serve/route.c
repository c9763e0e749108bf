/* SPDX-License-Identifier: MIT
**
** route.c -- see route.h.
**
** STATES of a process that has a store open, as each call finds them
**
**   owner     carries out its own calls, and serves others [server.c]
**   reader    no process owns the store, which was closed cleanly: the
**             checkpoint in memory is the newest state.  Each call reads the
**             manifest first, and so notices a new owner
**   client    another process owns the store.  Each session is linked to that
**             process at its next call [link.c]
**
**   reader -> owner    its first write                       [own_claim]
**   reader -> client   another process was first             [route_session]
**   client -> client   the owner has gone, and another process was first to
**                      take the lock                         [route_session]
**   client -> owner    the owner has gone: the first call that writes takes
**                      the lock, and so does any that finds that it died
**                                            [own_claim, own_refresh]
**   client -> reader   the owner has closed the store, and this call reads
**
** There is never a second owner, because only the holder of the lock writes,
** and the lock dies with its process.  A socket proves nothing: it may be left
** from a dead process.  An owner starts in this order: lock, state of the
** files, manifest, socket, first write; so a process that sees the manifest
** changed finds the lock held.  It stops in this order: sessions of clients,
** checkpoint, the sign in their slots, socket, lock.  tests/model/owner.pml
** explores both.
*/
#include "route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/table/store/dir.h"
#include "engine/table/owner/own.h"
#include "engine/table/session/patience.h"
#include "control.h"
#include "orphan.h"
#include "remote_calls.h"
#include "server.h"
#include "stat_row.h"
#include "stat_text.h"

#define TRY_US 2000
#define DECISIONS_TRIED 20
#define DECIDED_US 500

/* Forces a new look at the store: an owner may have come and gone since this
** process looked, and what it acknowledged must be visible. */
static void look_again(emb_store *store) {
  if (!EMB_SEED(SEED_SHORT_OWNER_OVERLOOKED)) {
    atomic_store(&store->own.look, 1);
  }
}

static int gives_no_answer(emb_session *s, enum env_lock_state state,
                           int64_t holder) {
  return state == ENV_LOCK_UNSETTLED
             ? own_recovering(s->core->dir, &s->err)
             : session_error(s, EMB_BUSY, LINK_SILENT, s->core->dir,
                             link__name(holder).text);
}

int route__find_owner(emb_session *s) {
  emb_store *store = s->store;
  uint64_t waited = 0, left = patience_left_us(s);
  for (;;) {
    int64_t holder;
    if (atomic_load(&store->own.is_owner)) {
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
      s->route.sought = 0;
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
    rc = session_poll_waiting(s, waited);
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
  s->route.may_ask = own_may_ask(store);
  rc = rc ? rc : session_owed(s);
  if (rc || !own_may_ask(store) || s->txn || atomic_load(&store->dropped)) {
    return rc;
  }
  if (s->route.lost_txn) {
    return session_error(s, EMB_LOST,
                         "the transaction was lost with the process that "
                         "owned %s: roll it back",
                         s->core->dir);
  }
  return own_is_current(store) ? EMB_OK : route__find_owner(s);
}

int route_again(emb_session *s) {
  emb_store *store = s->store;
  uint64_t waited = 0, left = 0;
  int64_t holder = 0;
  int reads = s->route.recovering;
  s->route.recovering = 0;
  for (;;) {
    int rc = route__find_owner(s);
    if (rc || s->link || atomic_load(&store->own.is_owner)) {
      return rc;
    }
    enum env_lock_state state;
    rc = link__lock_of(store, &state, &holder, &s->err);
    if (rc) {
      return rc;
    }
    if (state == ENV_LOCK_FREE || (reads && state == ENV_LOCK_ALONE)) {
      return EMB_OK; /* its checkpoint can be read */
    }
    rc = session_poll_waiting(s, waited);
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
  uint64_t number = s->doubt.met;
  int is_orphan = s->doubt.is_orphan;
  emb_err met = s->err;
  if (!number || !s->doubt.decides || number == s->doubt.seen) {
    return 0;
  }
  int said = s->doubt.decides(s->doubt.arg, number, is_orphan);
  s->err = met;
  s->doubt.met = number;
  if (said == EMB_DECIDE_PAST) {
    s->doubt.seen = number;
    return 1;
  }
  if (said != EMB_DECIDE_AGAIN || (is_orphan && ++d->tries > DECISIONS_TRIED)) {
    return 0;
  }
  if (!is_orphan) { /* its session decides in a moment */
    *rc = session_poll_waiting(s, d->waited_us);
    if (!*rc && d->waited_us >= session_timeout_us(s)) {
      *rc = session_error(s, EMB_BUSY,
                          "%s: transaction %llu of another connection is being "
                          "committed, and its outcome is not known yet; try "
                          "again",
                          s->core->dir, (unsigned long long)number);
    }
    if (*rc) {
      return 0;
    }
    session_sleep(s, DECIDED_US, &d->waited_us);
  }
  return 1;
}

/* ---- the owner begins and ends ------------------------------------------- */

/* Removes the name of a socket that no process listens on. */
static void remove_socket(emb_store *store) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  if (path_join(path, sizeof path, core->dir, FILE_SOCKET, NULL) == EMB_OK) {
    (void)core->env->unlink(core->env, path);
  }
}

void route__own(emb_store *store) {
  store->remote.owner_since = store->core.env->wall_s(store->core.env);
  if (own_may_ask(store) && !store->remote.server) {
    (void)server__start(store, &store->remote.server,
                        &store->remote.not_served);
  }
  if (!store->remote.server && !store->core.temporary) {
    remove_socket(store); /* left by an owner that has died */
  }
}

int route__is_owned(emb_store *store, int64_t *holder) {
  enum env_lock_state state = ENV_LOCK_FREE;
  *holder = 0;
  if (!store->core.temporary) {
    (void)link__lock_of(store, &state, holder, NULL);
  }
  return state != ENV_LOCK_FREE;
}

int route_is_dropped(const emb_session *s) {
  return (int)atomic_load_explicit(&s->link->slot->dropped,
                                   memory_order_acquire);
}

void route__tell(emb_store *store) {
  if (store->remote.server) {
    server__tell(store->remote.server);
  }
}

void route_leave(emb_store *store) {
  if (store->remote.server) {
    server__stop(store->remote.server);
  }
  orphan__abandon(store);
}

void route_left(emb_store *store, int in_peace) {
  if (store->remote.server) {
    remove_socket(store);
    server__end(store->remote.server, in_peace);
    store->remote.server = NULL;
  }
}
