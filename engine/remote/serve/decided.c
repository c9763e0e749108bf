/* SPDX-License-Identifier: MIT
**
** decided.c -- tells the next owner how a prepared transaction ended whose
** owner has gone.
*/
#include "route.h"
#include "remote_calls.h"

#define OWNERS_TRIED 100

/* The next owner may die, too.  If no owner is found in time, the next user of
** the store decides the transaction in doubt as the coordinator says.  For a
** commit that is no error, since a commit cannot fail. */
int route_decided(emb_session *s, int commit) {
  emb_store *store = s->store;
  emb_err err = {EMB_OK, ""};
  int rc = EMB_LOST;
  int (*decides)(void *, uint64_t, int) = s->doubt.decides;
  s->route.lost_prepared = s->route.lost_txn = 0;
  s->doubt.decides = NULL; /* the coordinator has decided */
  for (int tries = 0; rc == EMB_LOST && tries < OWNERS_TRIED; tries++) {
    ROUTE(s, rc, EMB_OK, remote_own(s), local_own(s));
    if (rc == EMB_LOCKED || rc == EMB_OK) {
      rc = route_is_elsewhere(store)
               ? remote_resolve(store, s->route.prepared_number, commit, &err)
               : local_resolve(store, s->route.prepared_number, commit, &err);
    }
  }
  s->doubt.decides = decides;
  err_clear(&s->err);
  s->route.owed.code = EMB_OK;
  if (rc && !commit) {
    s->err = err;
  }
  return commit ? EMB_OK : rc;
}
