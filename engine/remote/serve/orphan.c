/* SPDX-License-Identifier: MIT
**
** orphan.c -- see orphan.h.
*/
#include "orphan.h"

#include "engine/table/owner/own.h"
#include "engine/table/txn/txn.h"
#include "leave.h"

/* A store has one open transaction at a time, so there is at most one
** orphan. */
void orphan__adopt(emb_session *s, uint64_t number) {
  emb_store *store = s->store;
  emb_assert(s->txn && s->txn->prepared && s->txn->number == number);
  pthread_mutex_lock(&store->own.lock);
  emb_assert(!store->remote.orphan);
  store->remote.orphan = s;
  atomic_store(&store->own.in_doubt, number);
  pthread_mutex_unlock(&store->own.lock);
}

/* number 0: any. */
static emb_session *orphan_take(emb_store *store, uint64_t number) {
  pthread_mutex_lock(&store->own.lock);
  emb_session *s = store->remote.orphan;
  if (s && number && atomic_load(&store->own.in_doubt) != number) {
    s = NULL;
  } else {
    store->remote.orphan = NULL;
  }
  pthread_mutex_unlock(&store->own.lock);
  return s;
}

void orphan__abandon(emb_store *store) {
  emb_session *s = orphan_take(store, 0);
  if (s) {
    s->txn->was_prepared = 0; /* write no abort page */
    leave_session(s);
  }
}

int local_resolve(emb_store *store, uint64_t number, int commit, emb_err *err) {
  int rc = store_check(store, err);
  emb_session *s = rc ? NULL : orphan_take(store, number);
  if (s) {
    emb_assert(s->txn && s->txn->prepared);
    if (commit) {
      rc = local_commit(s);
      emb_assert(!rc); /* a prepared transaction cannot fail to commit */
    } else {
      local_rollback(s);
    }
    atomic_store(&store->own.in_doubt, 0);
    leave_session(s);
  } else if (!rc) {
    rc = own_resolve(store, number, commit, err);
  }
  if (store->remote.tell) {
    store->remote.tell(store);
  }
  return rc;
}
