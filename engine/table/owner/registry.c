/* SPDX-License-Identifier: MIT
**
** registry.c -- one store object per directory and process.
**
** SQLite destroys and recreates its table objects at every schema change, and
** several connections use one store.  A store is therefore looked up by the
** device and inode of its directory, and reference-counted (api/stores.c).  A
** child after fork() does not use its parent's stores: it opens its own, and
** finds them owned.
**
** THREADS  One mutex, held while a store is looked up, created or closed.  An
**          existing store is opened without it, as that may wait for another
**          process or read a long log: its directory is listed as being opened,
**          and whoever wants the same one waits.  A child may have inherited
**          the mutex locked by a thread that does not exist in the child, so
**          the child starts with a new mutex and empty lists.
*/
#include "registry.h"
#include "engine/table/store/dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct process_lock registry_lock = {PTHREAD_MUTEX_INITIALIZER, 0};
static emb_store *registry_stores;               /* registry_lock */
static struct registry_opening *registry_opened; /* registry_lock */

static void forget_parent(void) {
  registry_stores = NULL;
  registry_opened = NULL;
}

void registry_enter(void) {
  if (process_lock_enter(&registry_lock, env_default())) {
    forget_parent();
  }
}

int registry_try_enter(void) {
  int is_new;
  int is_mine = process_lock_try(&registry_lock, env_default(), &is_new);
  if (is_new) {
    forget_parent();
  }
  return is_mine;
}

void registry_leave(void) { process_lock_leave(&registry_lock); }

emb_store *registry_find(const uint64_t id[2]) {
  for (emb_store *s = registry_stores; s; s = s->registered.next) {
    if (!s->core.temporary && memcmp(s->registered.identity, id,
                                     sizeof s->registered.identity) == 0) {
      return s;
    }
  }
  return NULL;
}

int registry_is_opening(const uint64_t id[2]) {
  struct registry_opening *o = registry_opened;
  while (o && memcmp(o->id, id, sizeof o->id) != 0) {
    o = o->next;
  }
  return o != NULL;
}

void registry_begin_opening(struct registry_opening *opening) {
  emb_assert(!registry_is_opening(opening->id));
  opening->next = registry_opened;
  registry_opened = opening;
}

void registry_end_opening(struct registry_opening *opening) {
  struct registry_opening **at = &registry_opened;
  while (*at && *at != opening) {
    at = &(*at)->next;
  }
  emb_assert(*at);
  if (*at) {
    *at = opening->next;
  }
}

void registry_each(void (*visit)(void *arg, emb_store *store), void *arg) {
  registry_enter();
  for (emb_store *s = registry_stores; s; s = s->registered.next) {
    visit(arg, s);
  }
  registry_leave();
}

void registry_add(emb_store *store) {
  emb_assert(store->registered.references > 0);
  store->registered.next = registry_stores;
  registry_stores = store;
}

void registry_remove(emb_store *store) {
  emb_store **at = &registry_stores;
  emb_assert(store->registered.references == 0);
  while (*at && *at != store) {
    at = &(*at)->registered.next;
  }
  emb_assert(*at);
  if (*at) {
    *at = store->registered.next;
  }
}

/* A directory with a longer path could be opened, but some of its files could
** not. */
int registry_check_path(const char *dir, emb_err *err) {
  size_t n = strlen(dir);
  return n > EMB_PATH_MAX
             ? err_set(err, EMB_CANTOPEN,
                       "path too long: that of a store has at most %d bytes, "
                       "this one has %zu: %s",
                       EMB_PATH_MAX, n, dir)
             : EMB_OK;
}

/* *there: whether something is at this path; id identifies it.  It is an error
** if that cannot be determined: an open store must not be opened a second time
** in this process. */
int registry_identify(const char *dir, uint64_t id[2], int *there,
                      emb_err *err) {
  int rc = registry_check_path(dir, err);
  *there = 0;
  if (rc) {
    return rc;
  }
  int os = env_default()->identity(env_default(), dir, id);
  *there = os == 0;
  return os == 0 || os == ENOENT || os == ENOTDIR
             ? EMB_OK
             : err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir);
}

/* ---- destroying ---------------------------------------------------------- */

int registry_remove_dir(const char *dir) {
  int os = env_default()->remove_dir(env_default(), dir);
  return os == ENOTEMPTY || os == EEXIST ? 0 : os; /* foreign files stay */
}

int registry_cannot_remove(const char *dir, int os, emb_err *err) {
  return os ? err_os(err, EMB_IOERR, os, "cannot remove %s", dir) : EMB_OK;
}

/* *there = 0: the store no longer exists. */
int registry__lock_dir(const char *dir, struct env_lock **held, int *there,
                       emb_err *err) {
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, dir, FILE_LOCK, err);
  if (rc) {
    return rc;
  }
  int os = env_default()->lock(env_default(), path, held);
  *there = os != ENOENT;
  if (os == EAGAIN || os == EACCES) {
    return err_set(err, EMB_BUSY, "%s is owned by another process", dir);
  }
  if (os) {
    *held = NULL; /* it may be a directory of another kind */
  }
  return EMB_OK;
}

int registry_destroy(const char *dir, emb_err *err) {
  struct env_lock *held = NULL;
  int there;
  int rc = registry__lock_dir(dir, &held, &there, err);
  if (rc || !there) {
    return rc;
  }
  int os = dir_remove(env_default(), dir);
  if (held) {
    env_default()->unlock(env_default(), held);
  }
  return registry_cannot_remove(dir, os ? os : registry_remove_dir(dir), err);
}

int emb_destroy(const char *dir, emb_err *err) {
  uint64_t id[2];
  int there;
  err_clear(err);
  registry_enter();
  int rc = registry_identify(dir, id, &there, err);
  if (there) {
    rc = registry_find(id) || registry_is_opening(id)
             ? err_set(err, EMB_LOCKED, "%s is open", dir)
             : registry_destroy(dir, err);
  }
  registry_leave();
  return rc;
}
