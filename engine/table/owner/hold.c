/* SPDX-License-Identifier: MIT
**
** hold.c -- keeps the records that a reader needs in place.
**
** A process that does not own the store reads records at the places named by
** the checkpoint it has loaded.  A call that must find all of them there (a
** scan, a verification, a batch of Gets that has found some replaced) holds the
** checkpoint: the process locks its number, which the owner sees
** (ckpt/readers.h), and loads no other checkpoint until the last hold ends.
** The owner's own calls are only counted.
**
** FAILURE   On a file system without byte locks, records may be replaced while
**           they are read: a Get looks again, a scan ends with EMB_BUSY.
*/
#include "own.h"
#include "hold.h"

/* Locks the loaded checkpoint, or the one that has replaced it. */
static int hold_lock_byte(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  for (;;) {
    uint64_t loaded = store->checkpoint.manifest.index_generation;
    struct manifest m;
    if (core->env->byte_lock(core->env, core->log.file, loaded,
                             ENV_BYTE_SHARED)) {
      return EMB_OK;
    }
    int rc = manifest_read(core->env, core->dir, &m, err);
    if (!rc && m.index_generation == loaded) {
      store->own.locked = loaded + 1;
      return EMB_OK;
    }
    core->env->byte_lock(core->env, core->log.file, loaded, ENV_BYTE_NONE);
    rc = rc ? rc : own_load_newest(store, &m, err);
    if (rc) {
      return rc;
    }
  }
}

static void unlock_byte(emb_store *store) {
  if (store->own.locked) {
    struct env *env = store->core.env;
    env->byte_lock(env, store->core.log.file, store->own.locked - 1,
                   ENV_BYTE_NONE);
    store->own.locked = 0;
  }
}

int hold_begin(emb_session *s, int *held) {
  emb_store *store = s->store;
  int rc = EMB_OK;
  *held = 0;
  if (!atomic_load_explicit(&store->own.is_owner, memory_order_acquire)) {
    pthread_mutex_lock(&store->own.lock);
    if (!atomic_load(&store->own.is_owner) && !atomic_load(&store->dropped)) {
      /* The owner did not wait for a lock on another checkpoint:
      ** its holders have noticed by now. */
      if (store->own.locked !=
          store->checkpoint.manifest.index_generation + 1) {
        unlock_byte(store);
        rc = hold_lock_byte(store, &s->err);
      }
      store->own.holders += !rc;
      *held = !rc;
    }
    if (!rc) {
      atomic_fetch_add(&store->sessions.scans, 1);
    }
    emb_check(own_valid(store));
    pthread_mutex_unlock(&store->own.lock);
  } else {
    atomic_fetch_add(&store->sessions.scans, 1);
  }
  return rc;
}

void hold_end(emb_session *s, int held) {
  emb_store *store = s->store;
  if (held) {
    pthread_mutex_lock(&store->own.lock);
    emb_assert(store->own.holders > 0);
    if (--store->own.holders == 0) {
      unlock_byte(store);
    }
    pthread_mutex_unlock(&store->own.lock);
  }
  emb_assert(atomic_load(&store->sessions.scans) > 0);
  atomic_fetch_sub(&store->sessions.scans, 1);
  own_unload(store);
}
