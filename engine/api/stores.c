/* SPDX-License-Identifier: MIT
**
** stores.c -- opening, closing and deleting stores that several callers of a
** process share (owner/registry.c).
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/manifest.h"
#include "engine/table/owner/drop.h"
#include "engine/table/store/budget.h"
#include "engine/table/store/dir.h"
#include "open.h"
#include "engine/table/owner/own.h"
#include "engine/table/session/patience.h"
#include "engine/table/owner/registry.h"
#include "engine/remote/serve/remote_calls.h"
#include "engine/remote/serve/share.h"

int emb_check_memory(uint64_t bytes, emb_err *err) {
  return budget_check(env_default(), bytes, err);
}

int emb_check_index(const char *text, emb_err *err) {
  const emb_config config = {.dim = 1, .index = text};
  struct schema schema;
  return schema_init(&schema, &config, err);
}

/* May this caller share a store that is already open? */
static int share_open_store(emb_store *store, const emb_config *c,
                            emb_err *err) {
  struct schema schema = store->core.schema;
  int rc = emb_check_gradients(c->gradients, err);
  rc = rc ? rc : schema_accept(&schema, c, store->core.dir, err);
  if (rc) {
    return rc;
  }
  char asked[SCHEMA_TEXT_BYTES];
  rc = schema_print(&schema, asked, err);
  rc = rc ? rc
          : share_store(store, asked, (c->flags & EMB_OPEN_BOUNDED) != 0,
                        c->staleness, err);
  if (rc) {
    return rc;
  }
  emb_assert(store->registered.references > 0);
  if (!(c->flags & EMB_OPEN_READONLY) &&
      !EMB_SEED(SEED_SHARED_STORE_READONLY)) {
    int only_reads = STORE_ONLY_READS;
    (void)atomic_compare_exchange_strong(&store->own.readonly, &only_reads,
                                         STORE_WRITES);
  }
  store->registered.references++;
  return EMB_OK;
}

/* How often to look whether another thread has opened or closed a store. */
#define OPENING_TRY_US 1000

static int is_open_interrupted(const emb_config *config) {
  const emb_patience *p = config ? config->patience : NULL;
  return p && p->interrupt && p->interrupt(p->interrupt_arg);
}

static uint64_t open_limit_us(const emb_config *config) {
  const emb_patience *p = config->patience;
  return p && p->limit_us ? p->limit_us : config->timeout_ms * 1000;
}

/* Enters the registry.  With a patience the wait can be interrupted: another
** thread may hold it while it closes a store. */
static int enter_patiently(const emb_config *config, emb_err *err) {
  struct env *env = env_default();
  if (!config || !config->patience) {
    registry_enter();
    return EMB_OK;
  }
  while (!registry_try_enter()) {
    if (is_open_interrupted(config)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    env->sleep_us(env, OPENING_TRY_US);
  }
  return EMB_OK;
}

/* Enters the registry when no other thread opens the store at dir; id and
** *there as of registry_identify.  The lock is not held after an error. */
static int enter_for(const char *dir, const emb_config *config, uint64_t id[2],
                     int *there, emb_err *err) {
  struct env *env = env_default();
  for (;;) {
    int rc = enter_patiently(config, err);
    if (rc) {
      return rc;
    }
    rc = registry_identify(dir, id, there, err);
    if (!rc && (!*there || !registry_is_opening(id))) {
      return EMB_OK;
    }
    registry_leave();
    if (!rc && is_open_interrupted(config)) {
      rc = err_set(err, EMB_INTERRUPT, "interrupted");
    }
    if (rc) {
      return rc;
    }
    env->sleep_us(env, OPENING_TRY_US);
  }
}

/* Opens the store at dir, which is not open here, and registers it.  Under the
** registry's lock, which it leaves meanwhile if a directory is there.
** OWN_RECOVERING: another directory has taken its place meanwhile. */
static int open_and_add(const char *dir, const emb_config *config,
                        const uint64_t id[2], int there, emb_store **store,
                        emb_err *err) {
  struct env *env = env_default();
  struct registry_opening opening = {{id[0], id[1]}, NULL};
  if (there) {
    registry_begin_opening(&opening);
    registry_leave();
  }
  int rc = open__make(env, dir, config, store, err);
  if (there) {
    registry_enter();
    registry_end_opening(&opening);
  }
  if (!rc && !(config->flags & EMB_OPEN_TEMPORARY)) {
    uint64_t *now = (*store)->registered.identity;
    int os = env->identity(env, dir, now);
    rc = os ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir)
         : there && memcmp(now, id, sizeof opening.id) != 0 ? OWN_RECOVERING
                                                            : EMB_OK;
    if (rc) {
      open__free(*store);
    }
  }
  if (!rc) {
    (*store)->registered.references = 1;
    registry_add(*store);
  }
  return rc;
}

static int open_once(const char *dir, const emb_config *config,
                     emb_store **store, emb_err *err) {
  uint64_t id[2] = {0, 0};
  int rc = EMB_OK, there = 0;
  err_clear(err);
  *store = NULL;
  if (config->flags & EMB_OPEN_TEMPORARY) {
    rc = registry_check_path(dir, err);
    rc = rc ? rc : enter_patiently(config, err);
  } else {
    rc = enter_for(dir, config, id, &there, err);
  }
  if (rc) {
    return rc;
  }
  if (there) {
    *store = registry_find(id);
    if (*store && atomic_load(&(*store)->dropped)) {
      rc = err_set(err, EMB_CANTOPEN, "%s is being deleted", dir);
    } else if (*store && (config->flags & EMB_OPEN_EXCLUSIVE)) {
      rc = err_set(err, EMB_LOCKED, "%s is open", dir);
    } else if (*store) {
      rc = share_open_store(*store, config, err);
    } else if (config->flags & EMB_OPEN_EXCLUSIVE) {
      rc = registry_destroy(dir, err);
      there = 0; /* it is made anew */
    }
  }
  if (!rc && !*store) {
    rc = open_and_add(dir, config, id, there, store, err);
  }
  if (rc) {
    *store = NULL;
  }
  registry_leave();
  return rc;
}

/* A store cannot be opened while another process recovers it; the lock is not
** held while waiting for the recovery. */
int emb_open(const char *dir, const emb_config *config, emb_store **store,
             emb_err *err) {
  struct env *env = env_default();
  uint64_t start = env->now_us(env);
  for (;;) {
    int rc = open_once(dir, config, store, err);
    if (rc != OWN_RECOVERING) {
      return rc;
    }
    if (is_open_interrupted(config)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    if (env->now_us(env) - start >= open_limit_us(config)) {
      return own_recovering(dir, err);
    }
    env->sleep_us(env, 2000);
  }
}

static int close_dropped(emb_store *store, emb_err *err);
static int close_owed(emb_store *store, emb_err *err);

int emb_close(emb_store *store, emb_err *err) {
  int rc = EMB_OK;
  err_clear(err);
  if (!store) {
    return EMB_OK;
  }
  if (env_default()->process(env_default()) != store->process) {
    return EMB_OK; /* the parent's store: must not be touched here */
  }
  registry_enter();
  emb_assert(store->registered.references > 0);
  if (store->registered.references == 1 &&
      atomic_load(&store->sessions.count) > 0) {
    rc = err_set(err, EMB_MISUSE, "%s: a session is still open",
                 store->core.dir);
  } else if (--store->registered.references == 0) {
    registry_remove(store);
    rc = atomic_load(&store->dropped)  ? close_dropped(store, err)
         : store->registered.drop_owed ? close_owed(store, err)
                                       : open__close(store, err);
  }
  registry_leave();
  return rc;
}

/* ---- an open store ------------------------------------------------------- */

/* Removes the directory last, so that no other store can take its name before;
** also removes what a call was writing when the store was dropped. */
static int close_dropped(emb_store *store, emb_err *err) {
  char dir[PATH_BYTES];
  snprintf(dir, sizeof dir, "%s", store->core.dir);
  int rc = open__close(store, err);
  int os = dir_remove(env_default(), dir);
  return rc ? rc
            : registry_cannot_remove(dir, os ? os : registry_remove_dir(dir),
                                     err);
}

/* Drops a store that was in use when emb_drop was called. */
static int close_owed(emb_store *store, emb_err *err) {
  char dir[PATH_BYTES];
  snprintf(dir, sizeof dir, "%s", store->core.dir);
  int rc = open__close(store, err);
  return rc ? rc : registry_destroy(dir, err);
}

static int drop_here(const char *dir, const uint8_t uuid[16],
                     const emb_config *config, int *soon, emb_err *err) {
  uint64_t id[2];
  struct manifest m;
  int there, rc = enter_for(dir, config, id, &there, err);
  *soon = 0;
  if (rc) {
    return rc;
  }
  emb_store *store = there ? registry_find(id) : NULL;
  emb_assert(!store || store->registered.references > 0);
  if (store && (!uuid || memcmp(store->core.uuid, uuid, 16) == 0)) {
    rc = atomic_load(&store->dropped) ? EMB_OK : drop_store(store, soon, err);
    store->registered.drop_owed |= rc == EMB_LOCKED;
  } else if (there && !store &&
             (!uuid || manifest_read(env_default(), dir, &m, NULL) ||
              memcmp(m.uuid, uuid, 16) == 0)) {
    rc = registry_destroy(dir, err);
  }
  registry_leave();
  return rc;
}

/* Waits for background work on the store: a table that was dropped must not
** remain in use because a checkpoint happened to be taken at that moment. */
static int drop_here_patiently(const char *dir, const uint8_t uuid[16],
                               const emb_config *config, emb_err *err) {
  struct env *env = env_default();
  const emb_patience *p = config->patience;
  uint64_t limit = (uint64_t)DROP_TRIES * DROP_TRY_US;
  limit = p && p->limit_us && p->limit_us < limit ? p->limit_us : limit;
  for (uint64_t waited = 0;; waited += DROP_TRY_US) {
    int soon, rc = drop_here(dir, uuid, config, &soon, err);
    if (rc != EMB_LOCKED || !soon || waited >= limit ||
        is_open_interrupted(config)) {
      return rc;
    }
    env->sleep_us(env, DROP_TRY_US);
  }
}

/* Another process owns the store, and removes its files itself. */
static int drop_there(const char *dir, const uint8_t uuid[16],
                      const emb_config *config, emb_err *err) {
  emb_store *store;
  int rc = emb_open(dir, config, &store, err);
  if (rc) {
    return rc;
  }
  if (!uuid || memcmp(store->core.uuid, uuid, 16) == 0) {
    if (atomic_load(&store->own.is_owner)) {
      rc = local_drop(store, err);
    } else {
      emb_wait_with(config->patience);
      rc = remote_drop(store, err);
    }
  }
  emb_close(store, NULL);
  return rc;
}

int emb_drop(const char *dir, const uint8_t uuid[16], emb_err *err) {
  const emb_config config = {.patience = patience_of_thread()};
  err_clear(err);
  int rc = drop_here_patiently(dir, uuid, &config, err);
  if (rc == EMB_BUSY) {
    err_clear(err);
    rc = drop_there(dir, uuid, &config, err);
  }
  return rc;
}
