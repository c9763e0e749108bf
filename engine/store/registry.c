/* SPDX-License-Identifier: MIT
**
** registry.c -- one store object per directory and process.
**
** SQLite destroys and makes its table objects at every change of a schema, and
** several connections use one store; so a store is found by device and inode
** of its directory, and counted.  A child after fork() does not use its
** parent's stores: it makes its own, and finds them owned.
**
** THREADS  One mutex, held while a store is opened or closed.  A child may have
**          inherited it from a thread that it has not, so it begins with a new
**          one, and with an empty list.
*/
#include "registry.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "../ckpt/manifest.h"
#include "../ckpt/seen.h"
#include "../ckpt/snapshot.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emb_store *stores;
static struct env *environment = &env_posix;

/* Whose lock and stores these are; below 0: being made anew.
** Acquire, release. */
static _Atomic int64_t process;

void registry_set_env(struct env *env) { environment = env; }
struct env *registry_env(void) {
  return environment;
}

static void enter(void) {
  int64_t now = environment->process(environment);
  int64_t was = atomic_load(&process);
  if (was != now && was != -now &&
      atomic_compare_exchange_strong(&process, &was, -now)) {
    pthread_mutex_init(&lock, NULL);
    stores = NULL;
    atomic_store(&process, now);
  }
  while (atomic_load(&process) != now) {
    sched_yield();
  }
  pthread_mutex_lock(&lock);
}

static emb_store *find(const uint64_t id[2]) {
  for (emb_store *s = stores; s; s = s->next) {
    if (!s->core.temporary &&
        memcmp(s->identity, id, sizeof s->identity) == 0) {
      return s;
    }
  }
  return NULL;
}

/* A store that is open already: may this caller share it? */
static int share(emb_store *store, const emb_config *c, emb_err *err) {
  struct schema schema = store->core.schema;
  int rc = schema_accept(&schema, c, store->core.dir, err);
  if (rc) {
    return rc;
  }
  char here[SCHEMA_TEXT_BYTES], asked[SCHEMA_TEXT_BYTES];
  rc = schema_print(&store->core.schema, here, err);
  rc = rc ? rc : schema_print(&schema, asked, err);
  if (rc) {
    return rc;
  }
  if (strcmp(here, asked) != 0) {
    return err_set(err, EMB_MISMATCH,
                   "%s is open with other optimizers or initializers",
                   store->core.dir);
  }
  if ((c->flags & EMB_OPEN_BOUNDED) && c->staleness > EMB_STALENESS_MAX) {
    return err_set(err, EMB_RANGE, "staleness must be between 0 and %d, got %u",
                   EMB_STALENESS_MAX, c->staleness);
  }
  if ((c->flags & EMB_OPEN_BOUNDED) && core_bounded(&store->core) &&
      c->staleness != store->core.staleness) {
    return err_set(err, EMB_MISMATCH, "%s is open with staleness %u, not %u",
                   store->core.dir, store->core.staleness, c->staleness);
  }
  if ((c->flags & EMB_OPEN_BOUNDED) && !core_bounded(&store->core)) {
    store->core.staleness = c->staleness;
    atomic_store(&store->core.bounded, 1);
  }
  if (!(c->flags & EMB_OPEN_READONLY)) {
    store->config.flags &= ~(uint32_t)EMB_OPEN_READONLY;
  }
  store->references++;
  return EMB_OK;
}

/* *there: whether something is at this path, and what.  Not to know is an
** error: a store that is open must not be opened beside itself. */
static int identify(const char *dir, uint64_t id[2], int *there, emb_err *err) {
  int os = environment->identity(environment, dir, id);
  *there = os == 0;
  return os == 0 || os == ENOENT || os == ENOTDIR
             ? EMB_OK
             : err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir);
}

static int destroy(const char *dir, emb_err *err);

int emb_open(const char *dir, const emb_config *config, emb_store **store,
             emb_err *err) {
  struct env *env = environment;
  uint64_t id[2];
  int rc = EMB_OK, there = 0;
  err_clear(err);
  *store = NULL;
  int temporary = (config->flags & EMB_OPEN_TEMPORARY) != 0;
  enter();
  if (!temporary) {
    rc = identify(dir, id, &there, err);
  }
  if (there) {
    *store = find(id);
    if (*store && (config->flags & EMB_OPEN_EXCLUSIVE)) {
      rc = err_set(err, EMB_LOCKED, "%s is open", dir);
    } else if (*store) {
      rc = share(*store, config, err);
    } else if (config->flags & EMB_OPEN_EXCLUSIVE) {
      rc = destroy(dir, err);
    }
  }
  if (!rc && !*store) {
    rc = store_new(env, dir, config, store, err);
    if (!rc && !temporary) {
      int os = env->identity(env, dir, (*store)->identity);
      if (os) {
        rc = err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir);
        store_free(*store);
      }
    }
    if (!rc) {
      (*store)->references = 1;
      (*store)->next = stores;
      stores = *store;
    }
  }
  if (rc) {
    *store = NULL;
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

int emb_close(emb_store *store, emb_err *err) {
  int rc = EMB_OK;
  err_clear(err);
  if (!store) {
    return EMB_OK;
  }
  if (environment->process(environment) != store->process) {
    return EMB_OK; /* the parent's; nothing of it is ours to touch */
  }
  enter();
  if (store->references == 1 && atomic_load(&store->sessions) > 0) {
    rc = err_set(err, EMB_MISUSE, "%s: a session is still open",
                 store->core.dir);
  } else if (--store->references == 0) {
    for (emb_store **at = &stores; *at; at = &(*at)->next) {
      if (*at == store) {
        *at = store->next;
        break;
      }
    }
    rc = store_close(store, err);
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

/* ---- destroying -------------------------------------------------------- */

struct removal {
  struct env *env;
  const char *dir;
  int os;
};

/* All but MANIFEST_GONE, which goes last. */
static int ours(const char *name) {
  return strcmp(name, "log") == 0 || strcmp(name, "manifest") == 0 ||
         strcmp(name, "manifest-new") == 0 || strcmp(name, "lock") == 0 ||
         strncmp(name, "index-", 6) == 0 || strncmp(name, "spill-", 6) == 0 ||
         strcmp(name, SEEN_NAME) == 0 || strcmp(name, SEEN_NEW) == 0 ||
         strcmp(name, CHAIN_NAME) == 0 || strcmp(name, CHAIN_NEW_NAME) == 0 ||
         strncmp(name, SNAPSHOT_PREFIX, 5) == 0 ||
         strncmp(name, SNAPSHOT_NEW_PREFIX, 8) == 0 || consumer_is_file(name) ||
         strcmp(name, POSITION_FILE) == 0 || strcmp(name, POSITION_NEW) == 0;
}

static void remove_one(void *arg, const char *name) {
  struct removal *r = arg;
  char path[PATH_BYTES];
  if (ours(name) && path_join(path, sizeof path, r->dir, name, NULL) == 0) {
    int os = r->env->unlink(r->env, path);
    if (os && os != ENOENT && !r->os) {
      r->os = os;
    }
  }
}

static int destroy(const char *dir, emb_err *err) {
  struct env *env = environment;
  char path[PATH_BYTES];
  struct env_lock *held = NULL;
  int rc = path_join(path, sizeof path, dir, "lock", err);
  if (rc) {
    return rc;
  }
  int os = env->lock(env, path, &held);
  if (os == EAGAIN || os == EACCES) {
    return err_set(err, EMB_BUSY, "%s is owned by another process", dir);
  }
  if (os == ENOENT) {
    return EMB_OK;
  }
  /* First what makes it a store: a removal that is cut off leaves none, and a
  ** log without a manifest is known not to have lost it. */
  char gone[PATH_BYTES];
  snprintf(path, sizeof path, "%s/manifest", dir);
  snprintf(gone, sizeof gone, "%s/" MANIFEST_GONE, dir);
  os = env->rename(env, path, gone);
  if (os == ENOENT) {
    os = 0;
  }
  os = os ? os : env->sync_dir(env, dir);
  struct removal r = {env, dir, os};
  if (!os) {
    os = env->list_dir(env, dir, remove_one, &r);
    os = os ? os : r.os;
  }
  os = os ? os : env->sync_dir(env, dir);
  os = os ? os : env->unlink(env, gone);
  os = os == ENOENT ? 0 : os;
  if (held) {
    env->unlock(env, held);
  }
  if (!os) {
    os = env->remove_dir(env, dir);
    if (os == ENOTEMPTY || os == EEXIST) {
      os = 0; /* somebody else's files stay */
    }
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot remove %s", dir) : EMB_OK;
}

int emb_destroy(const char *dir, emb_err *err) {
  uint64_t id[2];
  int there;
  err_clear(err);
  enter();
  int rc = identify(dir, id, &there, err);
  if (there) {
    rc = find(id) ? err_set(err, EMB_LOCKED, "%s is open", dir)
                  : destroy(dir, err);
  }
  pthread_mutex_unlock(&lock);
  return rc;
}
