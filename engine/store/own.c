/* SPDX-License-Identifier: MIT
**
** own.c -- which process may write, and which state the others see.
**
** STATES  reader  the checkpoint of some manifest is loaded, no lock is held
**         owner   this process holds the lock file, and the manifest says so
**                 (clean = 0), from its first write to its close
**
**   reader -> reader  the manifest has a newer generation      [store_refresh]
**                     or the owner has put something else where a record was
**                     to be read                               [store_reload]
**   reader -> owner   first write                              [store_own]
**   reader -> owner   the owner died: recovery is needed       [store_refresh]
**
** A store that was closed cleanly is opened as reader, so that several
** processes may look at it and the first that writes owns it.  The lock dies
** with the process.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "own.h"

#define REFRESH_US 5000

/* Empties index, cache and log; nobody is inside the epoch. */
static void give_frame(void *arg, char *frame) { frames_give(arg, frame); }

static void reset(struct core *core) {
  index_clear(&core->index);
  cache_reset(&core->cache, give_frame, &core->frames);
  log_reset(&core->log);
  atomic_store(&core->count, 0);
}

int own_load(emb_store *store, const struct manifest *m, int replay,
             emb_err *err) {
  struct core *core = &store->core;
  struct recovery *doubt = NULL;
  watch_abort(core, NULL);
  pthread_mutex_lock(&core->flush_lock); /* no eviction meanwhile */
  epoch_close(&core->epoch);
  recovery_free(store->doubt);
  store->doubt = NULL;
  atomic_store(&store->in_doubt, 0);
  reset(core);
  store->checkpoint.manifest = *m;
  int rc = recover(core, &store->checkpoint.manifest, replay, &doubt, err);
  atomic_store(&store->unloaded, rc != 0);
  if (rc) {
    reset(core);
    /* No manifest is like this one: the next look loads what it finds. */
    store->checkpoint.manifest.generation = 0;
    store->checkpoint.manifest.tail = 0;
  } else if (doubt) {
    store->doubt = doubt;
    atomic_store(&store->in_doubt, doubt->in_doubt);
  }
  epoch_open(&core->epoch);
  pthread_mutex_unlock(&core->flush_lock);
  return rc;
}

static int same_store(emb_store *store, const struct manifest *m,
                      emb_err *err) {
  struct core *core = &store->core;
  if (memcmp(m->uuid, core->uuid, sizeof m->uuid) != 0 ||
      m->dim != core->schema.dim || m->type != core->schema.segments[0].type) {
    return err_set(err, EMB_CORRUPT, "%s was replaced by another store",
                   core->dir);
  }
  return EMB_OK;
}

struct leftover {
  struct core *core;
  char keep[40]; /* name of the valid index file */
};

static void remove_leftover(void *arg, const char *name) {
  struct leftover *l = arg;
  char path[PATH_BYTES];
  int index = strncmp(name, "index-", 6) == 0 && strcmp(name, l->keep) != 0;
  if ((index || strncmp(name, "spill-", 6) == 0 ||
       strncmp(name, SNAPSHOT_NEW_PREFIX, 8) == 0 ||
       strcmp(name, SEEN_NEW) == 0 || strcmp(name, CHAIN_NEW_NAME) == 0 ||
       strcmp(name, CONSUMER_NEW) == 0 || strcmp(name, POSITION_NEW) == 0) &&
      path_join(path, sizeof path, l->core->dir, name, NULL) == EMB_OK) {
    l->core->env->unlink(l->core->env, path);
  }
}

/* Files of a checkpoint that was cut off, or that was replaced and not yet
** removed when its process died. */
static void remove_leftovers(emb_store *store) {
  struct leftover l = {&store->core, ""};
  snprintf(l.keep, sizeof l.keep, "index-%016llx",
           (unsigned long long)store->checkpoint.manifest.index_generation);
  store->core.env->list_dir(store->core.env, store->core.dir, remove_leftover,
                            &l);
}

/* Of a file that cannot be used only the figure tells soon: the next checkpoint
** replaces it. */
static int resume_counts(struct core *core, emb_err *err) {
  int rc = seen_read(core, err);
  if (rc == EMB_NOMEM || rc == EMB_OK) {
    return rc;
  }
  err_clear(err);
  count_add(&core->counters.admission_damaged, 1);
  return EMB_OK;
}

/* The lock was just taken: loads what is newest, and says who writes. */
static int become_owner(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : same_store(store, &m, err);
  if (rc) {
    return rc;
  }
  int stale = m.generation != store->checkpoint.manifest.generation;
  if (stale || !m.clean) {
    rc = own_load(store, &m, !m.clean, err);
  }
  if (!rc && m.clean) {
    /* An open scan took the present tail for its end: no record may come to
    ** stand below it, so the log goes on in an extent of its own. */
    pthread_mutex_lock(&core->scan_lock);
    rc = watch_any(core) ? EMB_OK : log_resume(&core->log, m.tail, err);
    pthread_mutex_unlock(&core->scan_lock);
  }
  if (!rc) { /* before anything is freed */
    pthread_mutex_lock(&core->ckpt_lock);
    rc = snapshots_load(core, &store->snapshots, err);
    rc = rc ? rc : resume_counts(core, err);
    rc = rc ? rc : consumers_load(&store->consumers, core->log_end, err);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  if (rc) {
    return rc;
  }
  if (atomic_load(&store->in_doubt)) {
    return EMB_OK; /* what is durable must be decided first */
  }
  /* A store that was never written names no index file.  It must before its
  ** log is: a reader that falls back to this checkpoint, because the next one
  ** is damaged, sees by the missing file that extents may be missing, too. */
  if (!m.clean || m.index_blocks == 0) {
    pthread_mutex_lock(&core->ckpt_lock);
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  if (!rc && m.clean) {
    rc = checkpoint_claim(core, &store->checkpoint, err);
  }
  if (!rc) {
    remove_leftovers(
        store); /* until now a slot of the manifest may name them */
  }
  return rc;
}

int own_take(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, "lock", err);
  if (rc) {
    return rc;
  }
  int os = env->lock(env, path, &store->lock);
  if (os) {
    store->lock = NULL;
    return os == EAGAIN || os == EACCES
               ? err_set(err, EMB_BUSY, "%s is owned by another process",
                         core->dir)
               : err_os(err, EMB_CANTOPEN, os, "cannot lock %s", path);
  }
  rc = become_owner(store, err);
  if (rc) {
    env->unlock(env, store->lock);
    store->lock = NULL;
    return rc;
  }
  atomic_store(&store->owner, 1);
  return EMB_OK;
}

int own_inherit(emb_store *store, const struct manifest *m, emb_err *err) {
  emb_err failure;
  if (m->clean || (store->config.flags & EMB_OPEN_READONLY)) {
    return EMB_BUSY;
  }
  int rc = own_take(store, &failure);
  if (rc && rc != EMB_BUSY && err) {
    *err = failure;
  }
  return rc;
}

int own_follow(emb_store *store, const struct manifest *manifest,
               emb_err *err) {
  struct core *core = &store->core;
  struct manifest m = *manifest, again;
  for (int tries = 0;; tries++) {
    int rc = own_load(store, &m, 0, err);
    if (!rc || tries == 20 ||
        manifest_read(core->env, core->dir, &again, NULL) ||
        again.generation == m.generation) {
      return rc;
    }
    m = again; /* a checkpoint replaced the files while we read them */
  }
}

int store_own(emb_session *s) {
  emb_store *store = s->store;
  if (store->config.flags & EMB_OPEN_READONLY) {
    return session_error(s, EMB_READONLY, "%s is open read-only", s->core->dir);
  }
  uint64_t waited = 0;
  while (!atomic_load_explicit(&store->owner, memory_order_acquire)) {
    pthread_mutex_lock(&store->own_lock);
    int rc = atomic_load(&store->owner) ? EMB_OK : own_take(store, &s->err);
    pthread_mutex_unlock(&store->own_lock);
    if (rc == EMB_BUSY && waited < s->core->timeout_ms * 1000) {
      rc = session_ask(s);
      if (!rc) {
        session_sleep(s, 2000, &waited);
        continue;
      }
    }
    if (rc) {
      return rc;
    }
    err_clear(&s->err);
  }
  if (atomic_load_explicit(&store->in_doubt, memory_order_relaxed)) {
    return session_error(
        s, EMB_LOCKED, "%s: transaction %llu is not decided yet", s->core->dir,
        (unsigned long long)atomic_load(&store->in_doubt));
  }
  return core_failed(s->core, &s->err);
}

int store_may_write(emb_session *s) {
  emb_store *store = s->store;
  if (store->config.flags & EMB_OPEN_READONLY) {
    return 0;
  }
  if (!atomic_load_explicit(&store->owner, memory_order_acquire)) {
    pthread_mutex_lock(&store->own_lock);
    if (!atomic_load(&store->owner)) {
      own_take(store, NULL);
    }
    pthread_mutex_unlock(&store->own_lock);
  }
  return atomic_load_explicit(&store->owner, memory_order_acquire);
}

int store_counts(emb_session *s) {
  return core_bounded(s->core) && store_may_write(s);
}

static int refresh(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : same_store(store, &m, err);
  if (rc) {
    return rc;
  }
  rc = own_inherit(store, &m, err);
  if (rc != EMB_BUSY) {
    return rc;
  }
  if (m.index_generation == store->checkpoint.manifest.index_generation &&
      m.tail == store->checkpoint.manifest.tail) {
    return EMB_OK; /* the same checkpoint */
  }
  return own_follow(store, &m, err);
}

int store_refresh(emb_session *s) {
  emb_store *store = s->store;
  if (atomic_load_explicit(&store->owner, memory_order_acquire)) {
    return EMB_OK;
  }
  struct env *env = s->core->env;
  uint64_t now = env->now_us(env);
  uint64_t then =
      atomic_load_explicit(&store->refreshed_us, memory_order_relaxed);
  if ((now - then < REFRESH_US || atomic_load(&store->scans)) &&
      !atomic_load(&store->unloaded)) {
    return EMB_OK;
  }
  pthread_mutex_lock(&store->own_lock);
  int rc = EMB_OK;
  if (!atomic_load(&store->owner)) {
    rc = refresh(store, &s->err);
    atomic_store(&store->refreshed_us, now);
  }
  pthread_mutex_unlock(&store->own_lock);
  return rc;
}

int store_reload(emb_session *s) {
  emb_store *store = s->store;
  int rc = EMB_OK;
  pthread_mutex_lock(&store->own_lock);
  if (!atomic_load(&store->owner)) {
    rc = refresh(store, &s->err);
  }
  pthread_mutex_unlock(&store->own_lock);
  return rc;
}

uint64_t emb_in_doubt(const emb_store *store) {
  return atomic_load(&store->in_doubt);
}

uint64_t emb_committed(const emb_store *store) {
  return atomic_load(&store->core.txn_committed);
}

int emb_is_owner(const emb_store *store) {
  return atomic_load(&store->owner) && store_check(store, NULL) == EMB_OK;
}

int emb_resolve(emb_store *store, int commit, emb_err *err) {
  struct core *core = &store->core;
  int rc = store_check(store, err);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&store->own_lock);
  if (store->doubt) {
    pthread_mutex_lock(&core->flush_lock);
    epoch_close(&core->epoch);
    if (commit) {
      rc = recover_commit(store->doubt, err);
    }
    epoch_open(&core->epoch);
    pthread_mutex_unlock(&core->flush_lock);
    /* Only a checkpoint that no longer replays it ends the doubt. */
    uint64_t first = atomic_exchange(&core->txn_first_page, 0);
    if (!rc) {
      pthread_mutex_lock(&core->ckpt_lock);
      rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
      pthread_mutex_unlock(&core->ckpt_lock);
    }
    if (!rc) {
      recovery_free(store->doubt);
      store->doubt = NULL;
      atomic_store(&store->in_doubt, 0);
      remove_leftovers(store);
    } else {
      atomic_store(&core->txn_first_page, first);
    }
  }
  pthread_mutex_unlock(&store->own_lock);
  return rc;
}
