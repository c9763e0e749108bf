/* SPDX-License-Identifier: MIT
**
** drop.c -- deletes the files of an open store.
*/
#include "drop.h"

#include "engine/table/store/dir.h"
#include "registry.h"

/* Takes the locks under which files are created, but does not wait for them:
** every open and close would have to wait, too. */
int drop_store(emb_store *store, int *soon, emb_err *err) {
  struct core *core = &store->core;
  struct env_lock *held = NULL;
  int rc = EMB_LOCKED, os = 0, there = 1;
  emb_assert(!atomic_load(&store->dropped)); /* the caller has looked */
  *soon = 1;
  if (pthread_mutex_trylock(&store->own.lock)) {
    return err_set(err, EMB_LOCKED, "%s is in use", core->dir);
  }
  if (pthread_mutex_trylock(&core->ckpt_lock) == 0) {
    pthread_mutex_lock(&store->txn.lock);
    int written = store->txn.owner != NULL;
    if (!written) { /* from now on no transaction begins */
      atomic_store(&store->dropped, 1);
    }
    pthread_mutex_unlock(&store->txn.lock);
    *soon = !written;
    if (!written) {
      rc = atomic_load(&store->own.is_owner)
               ? EMB_OK
               : registry__lock_dir(core->dir, &held, &there, err);
    }
    if (!rc && there) {
      os = dir_remove(env_default(), core->dir);
    }
    if (held) {
      env_default()->unlock(env_default(), held);
    }
    if (rc || os) {
      atomic_store(&store->dropped, 0);
    } else if (store->remote.tell) {
      store->remote.tell(store);
    }
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  pthread_mutex_unlock(&store->own.lock);
  if (rc == EMB_LOCKED) {
    return err_set(err, EMB_LOCKED, "%s is in use", core->dir);
  }
  return rc ? rc : registry_cannot_remove(core->dir, os, err);
}

/* For a client.  The process itself may be closing the store, and waiting for
** its clients' calls to end, so the wait is bounded. */
int local_drop(emb_store *store, emb_err *err) {
  struct env *env = env_default();
  for (int tries = 0;; tries++) {
    int soon = 1, rc = EMB_LOCKED;
    if (registry_try_enter()) {
      rc =
          atomic_load(&store->dropped) ? EMB_OK : drop_store(store, &soon, err);
      store->registered.drop_owed |= rc == EMB_LOCKED;
      registry_leave();
    } else {
      err_set(err, EMB_LOCKED, "%s is in use", store->core.dir);
    }
    if (rc != EMB_LOCKED || !soon || tries == DROP_TRIES) {
      return rc;
    }
    env->sleep_us(env, DROP_TRY_US);
  }
}

int local_is_dropped(const emb_store *store) {
  return atomic_load(&store->dropped);
}
