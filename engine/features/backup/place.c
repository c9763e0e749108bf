/* SPDX-License-Identifier: MIT
**
** place.c -- directories of stores that a backup makes, renames and removes;
** none of the stores is open.
*/
#include "engine/storage/pack/emb_file.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/table/store/dir.h"
#include "place.h"
#include "engine/table/owner/registry.h"

/* Under the registry's lock. */
static int lock_place(const char *dir, struct env_lock **held, emb_err *err) {
  struct env *env = env_default();
  char path[PATH_BYTES];
  uint64_t id[2];
  int there;
  *held = NULL;
  int rc = registry_identify(dir, id, &there, err);
  if (rc || !there) {
    return rc;
  }
  if (registry_find(id) || registry_is_opening(id)) {
    return err_set(err, EMB_LOCKED, "%s is open", dir);
  }
  rc = path_join(path, sizeof path, dir, FILE_LOCK, err);
  int os = rc ? 0 : env->lock(env, path, held);
  if (os) {
    *held = NULL;
    rc = os == EAGAIN || os == EACCES
             ? err_set(err, EMB_BUSY, "%s is owned by another process", dir)
             : err_os(err, EMB_CANTOPEN, os, "cannot lock %s", path);
  }
  return rc;
}

int place__hold(const char *dir, struct env_lock **held, emb_err *err) {
  registry_enter();
  int rc = lock_place(dir, held, err);
  registry_leave();
  return rc;
}

void place__let_go(struct env_lock *held) {
  if (held) {
    env_default()->unlock(env_default(), held);
  }
}

/* Opens the parent directory, to sync it after a rename. */
static int open_above(const char *path, struct env_dir **names, emb_err *err) {
  char above[PATH_BYTES];
  snprintf(above, sizeof above, "%s", path);
  char *slash = strrchr(above, '/');
  if (!slash) {
    snprintf(above, sizeof above, ".");
  } else {
    slash[slash == above] = 0;
  }
  int os = env_default()->open_dir(env_default(), above, names);
  if (os) {
    *names = NULL;
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", above) : EMB_OK;
}

static void close_above(struct env_dir *names) {
  if (names) {
    env_default()->close_dir(env_default(), names);
  }
}

/* Opens all the descriptors it needs before the name changes.  If `back`,
** undoes a rename that cannot be made durable. */
static int rename_durably(const char *from, const char *to, int back,
                          emb_err *err) {
  struct env *env = env_default();
  struct env_dir *old = NULL, *new = NULL;
  int rc = open_above(from, &old, err);
  rc = rc ? rc : open_above(to, &new, err);
  int os = rc ? 0 : env->rename(env, from, to);
  if (os) {
    rc = err_os(err, EMB_IOERR, os, "cannot rename %s to %s", from, to);
  }
  if (!rc) {
    os = env->sync_dir(env, new);
    os = os ? os : env->sync_dir(env, old);
    if (os) {
      rc = err_os(err, EMB_IOERR, os, "cannot sync the parent directory of %s",
                  to);
      if (back) {
        env->rename(env, to, from);
      }
    }
  }
  close_above(old);
  close_above(new);
  return rc;
}

int emb_place_make(const char *dir, emb_err *err) {
  err_clear(err);
  int os = env_default()->make_dir(env_default(), dir);
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", dir) : EMB_OK;
}

int emb_file_rename(const char *from, const char *to, int replace,
                    emb_err *err) {
  struct env *env = env_default();
  uint64_t id[2];
  err_clear(err);
  int os = replace ? ENOENT : env->identity(env, to, id);
  if (os != ENOENT) {
    return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", to)
              : err_set(err, EMB_CANTOPEN, "%s exists", to);
  }
  return rename_durably(from, to, !replace, err);
}

/* Under the registry's lock. */
static int rename_dir(const char *from, const char *to, emb_err *err) {
  struct env *env = env_default();
  uint64_t id[2];
  int os = env->identity(env, to, id);
  if (os != ENOENT) {
    return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", to)
              : err_set(err, EMB_CANTOPEN, "%s exists", to);
  }
  return rename_durably(from, to, 1, err);
}

int emb_store_rename(const char *from, const char *to, emb_err *err) {
  struct env_lock *held;
  err_clear(err);
  registry_enter();
  int rc = lock_place(from, &held, err);
  rc = rc ? rc : rename_dir(from, to, err);
  if (held) {
    env_default()->unlock(env_default(), held);
  }
  registry_leave();
  return rc;
}

/* The locks of all stores in a directory. */
struct stores {
  const char *dir;
  struct env_lock **locks;
  size_t n, room;
  int rc;
  emb_err *err;
};

static void lock_one(void *arg, const char *name) {
  struct stores *s = arg;
  struct env *env = env_default();
  char path[PATH_BYTES];
  struct env_lock *held = NULL;
  s->rc = s->rc ? s->rc : path_join(path, sizeof path, s->dir, name, s->err);
  if (s->rc) {
    return;
  }
  if (manifest_is_missing(env, path)) {
    return; /* not a store */
  }
  if (s->n == s->room) {
    size_t room = s->room * 2 + 16;
    void *larger = env->resize(env, (void *)s->locks, room * sizeof *s->locks);
    if (!larger) {
      s->rc = err_set(s->err, EMB_NOMEM, "out of memory");
      return;
    }
    s->locks = larger;
    s->room = room;
  }
  s->rc = lock_place(path, &held, s->err);
  if (!s->rc && held) {
    s->locks[s->n++] = held;
  }
}

int emb_place_rename(const char *from, const char *to, emb_err *err) {
  struct env *env = env_default();
  struct stores s = {from, NULL, 0, 0, EMB_OK, err};
  err_clear(err);
  registry_enter();
  int os = env->list_dir(env, from, lock_one, &s);
  int rc = os ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", from) : s.rc;
  rc = rc ? rc : rename_dir(from, to, err);
  while (s.n) {
    env->unlock(env, s.locks[--s.n]);
  }
  env->release(env, (void *)s.locks);
  registry_leave();
  return rc;
}

struct registry_names { /* copied, as listed names are removed */
  char (*names)[256];
  size_t n, room;
  int failed;
};

static void note_name(void *arg, const char *name) {
  struct registry_names *l = arg;
  struct env *env = env_default();
  if (l->n == l->room) {
    size_t room = l->room * 2 + 16;
    void *larger = env->resize(env, (void *)l->names, room * sizeof *l->names);
    l->failed |= larger == NULL;
    l->names = larger ? larger : l->names;
    l->room = larger ? room : l->room;
  }
  if (l->n < l->room) {
    snprintf(l->names[l->n++], sizeof *l->names, "%s", name);
  }
}

/* Is it a directory?  A file has no entry "." in it. */
static int is_directory(const char *path) {
  char dot[PATH_BYTES];
  uint64_t id[2];
  return path_join(dot, sizeof dot, path, ".", NULL) == EMB_OK &&
         env_default()->identity(env_default(), dot, id) == 0;
}

static int is_among(const char *name, const char *const *names, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(name, names[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* *there: does the directory exist? */
static int remove_stores(const char *dir, const char *const *keep, size_t n,
                         int *there, emb_err *err) {
  struct env *env = env_default();
  struct registry_names l = {NULL, 0, 0, 0};
  char path[PATH_BYTES];
  err_clear(err);
  int os = env->list_dir(env, dir, note_name, &l);
  *there = os != ENOENT;
  int rc = os && *there ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir)
           : l.failed   ? err_set(err, EMB_NOMEM, "out of memory")
                        : EMB_OK;
  for (size_t i = 0; i < l.n; i++) { /* removes as many as it can */
    emb_err error;
    int one = path_join(path, sizeof path, dir, l.names[i], &error);
    if (!one && !is_among(l.names[i], keep, n) && is_directory(path)) {
      one = emb_destroy(path, &error);
    } else if (!one && strncmp(l.names[i], "spill-", 6) == 0) {
      env->unlink(env, path); /* of a backup (snapshot_start) */
    }
    if (one && !rc) {
      rc = err_set(err, one, "%s", error.text);
    }
  }
  env->release(env, (void *)l.names);
  return rc;
}

int emb_place_remove_others(const char *dir, const char *const *keep, size_t n,
                            emb_err *err) {
  int there;
  return remove_stores(dir, keep, n, &there, err);
}

int emb_place_remove(const char *dir, emb_err *err) {
  struct env *env = env_default();
  int there;
  int rc = remove_stores(dir, NULL, 0, &there, err);
  int os = rc || !there ? 0 : env->remove_dir(env, dir);
  return os && os != ENOTEMPTY && os != EEXIST && os != ENOENT
             ? err_os(err, EMB_IOERR, os, "cannot remove %s", dir)
             : rc;
}

int emb_place_sync(const char *dir, emb_err *err) {
  err_clear(err);
  struct env_dir *names;
  int os = env_default()->open_dir(env_default(), dir, &names);
  if (!os) {
    os = env_default()->sync_dir(env_default(), names);
    env_default()->close_dir(env_default(), names);
  }
  return os == 0 || os == ENOENT
             ? EMB_OK
             : err_os(err, EMB_IOERR, os, "cannot sync %s", dir);
}
