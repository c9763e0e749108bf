/* SPDX-License-Identifier: MIT
**
** make.c -- creates a store, or reads the layout of an existing one.
**
** A store is a directory with the files manifest, log, index-* and lock
** (FORMAT.md).  A directory without a manifest is left by an interrupted
** creation, and counts as absent.
*/
#include "make.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dir.h"
#include "engine/storage/kernel/log_head.h"

int make_open_log(emb_store *store, int flags, emb_err *err) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, FILE_LOG, err);
  if (rc) {
    return rc;
  }
  int os =
      core->env->open(core->env, path, flags | ENV_DIRECT, &core->log.file);
  if ((os == EACCES || os == EROFS) && !(flags & ENV_CREATE)) {
    os = core->env->open(core->env, path, ENV_READ | ENV_DIRECT,
                         &core->log.file);
    atomic_store(&store->own.readonly, STORE_CANNOT_WRITE);
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", path) : EMB_OK;
}

static void parent_of(const char *dir, char *parent, size_t size) {
  snprintf(parent, size, "%s", dir);
  char *slash = strrchr(parent, '/');
  if (slash == parent) {
    slash[1] = 0;
  } else if (slash) {
    *slash = 0;
  } else {
    snprintf(parent, size, ".");
  }
}

static int sync_path(struct env *env, const char *path) {
  struct env_dir *dir;
  int os = env->open_dir(env, path, &dir);
  if (!os) {
    os = env->sync_dir(env, dir);
    env->close_dir(env, dir);
  }
  return os;
}

/* Creates the directory and, if need be, its parent.  Both names are made
** durable even if the parent existed: its creator may have died. */
static int make_dirs(struct env *env, const char *dir, emb_err *err) {
  char parent[PATH_BYTES], above[PATH_BYTES];
  parent_of(dir, parent, sizeof parent);
  parent_of(parent, above, sizeof above);
  int os = env->make_dir(env, dir);
  if (os == ENOENT) {
    os = env->make_dir(env, parent);
    os = os && os != EEXIST ? os : env->make_dir(env, dir);
  }
  if (os == EEXIST) {
    os = 0; /* left by an interrupted creation */
  }
  os = os ? os : sync_path(env, parent);
  if (!os) {
    os = sync_path(env, above);
    os = os == EACCES ? 0 : os; /* it may be unreadable */
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", dir) : EMB_OK;
}

static int create_manifest(emb_store *store, struct manifest *m, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  struct env_dir *names;
  int os = env->open_dir(env, core->dir, &names);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", core->dir);
  }
  int rc = manifest_create(env, core->dir, names, m, err);
  env->close_dir(env, names);
  return rc;
}

int make_files(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  int os = env->random(env, core->uuid, sizeof core->uuid);
  if (os) {
    return err_os(err, EMB_IOERR, os, "no random numbers");
  }
  core->salt = hash_salt(core->uuid);
  int rc = make_open_log(store, ENV_WRITE | ENV_CREATE, err);
  if (rc) {
    return rc;
  }
  char gone[PATH_BYTES];
  rc = path_join(gone, sizeof gone, core->dir, MANIFEST_GONE, err);
  if (rc) {
    return rc;
  }
  /* An interrupted creation has left no more than the head; an interrupted
  ** removal has left the renamed manifest. */
  uint64_t bytes = 0, id[2];
  os = env->size(env, core->log.file, &bytes);
  if (!os && bytes > LOG_FILE_HEAD && env->identity(env, gone, id) == ENOENT) {
    return err_set(err, EMB_CORRUPT,
                   "%s/manifest is missing, but %s/log holds records; "
                   "destroy the store to make a new one",
                   core->dir, core->dir);
  }
  os = env->truncate(env, core->log.file, 0);
  rc = os ? err_os(err, EMB_IOERR, os, "cannot empty %s/log", core->dir)
          : core_log_head(&store->core, 1, err);
  if (rc || core->temporary) {
    return rc;
  }
  os = env->sync(env, core->log.file);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot sync %s/log", core->dir);
  }
  os = env->unlink(env, gone);
  if (os && os != ENOENT) {
    return err_os(err, EMB_IOERR, os, "cannot remove %s", gone);
  }
  struct manifest m;
  memset(&m, 0, sizeof m);
  memcpy(m.uuid, core->uuid, sizeof m.uuid);
  m.clean = 1;
  checkpoint_describe(core, &m);
  m.replay = m.tail = core->layout.extent_pages;
  rc = create_manifest(store, &m, err);
  store->checkpoint.manifest = m;
  return rc;
}

/* A temporary store's log has no name: it disappears with the process. */
int make_temporary(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  char path[PATH_BYTES];
  uint64_t name;
  int os = env->random(env, &name, sizeof name);
  os = os ? os : env->random(env, core->uuid, sizeof core->uuid);
  if (os) {
    return err_os(err, EMB_IOERR, os, "no random numbers");
  }
  core->salt = hash_salt(core->uuid);
  snprintf(path, sizeof path, "%s/emb-%016llx", core->dir,
           (unsigned long long)name);
  os = env->open(env, path, ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT,
                 &core->log.file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot create %s", path);
  }
  env->unlink(env, path);
  atomic_store(&store->own.is_owner, 1);
  return core_log_head(&store->core, 1, err);
}

/* ---- parts of a store ---------------------------------------------------- */

/* Reads the manifest, or sets *create: there is none and the caller asks for
** one.  A manifest that cannot be opened now may well exist. */
static int find_manifest(emb_store *store, struct manifest *m, int *create,
                         emb_err *err) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  uint64_t id[2];
  int rc = core->temporary ? EMB_CANTOPEN
                           : manifest_read(core->env, core->dir, m, err);
  *create = core->temporary;
  if (rc == EMB_CANTOPEN && !core->temporary &&
      (store->config.flags & EMB_OPEN_CREATE) &&
      path_join(path, sizeof path, core->dir, MANIFEST_NAME, NULL) == EMB_OK) {
    int os = core->env->identity(core->env, path, id);
    if (!os &&
        !EMB_SEED(SEED_UNREADABLE_STORE_REMADE)) { /* or was made since */
      return manifest_read(core->env, core->dir, m, err);
    }
    *create =
        os == ENOENT || os == ENOTDIR || EMB_SEED(SEED_UNREADABLE_STORE_REMADE);
    if (os && !*create) {
      err_os(err, rc, os, "cannot open %s", path);
    }
  }
  if (*create) {
    err_clear(err);
    rc = EMB_OK;
  }
  return rc;
}

/* What follows from the schema. */
static void make_sizes(struct core *core) {
  schema_layout(&core->schema, &core->layout);
  schema_types(&core->schema, core->types);
}

static int read_schema(emb_store *store, const struct manifest *m,
                       emb_err *err) {
  struct core *core = &store->core;
  int rc = EMB_OK;
  if (m->dim < 1 || m->dim > EMB_DIM_MAX || m->type > EMB_F16) {
    return err_set(err, EMB_CORRUPT, "%s/manifest: dimension %u, type %u",
                   core->dir, m->dim, m->type);
  }
  if (m->schema[0]) {
    rc = schema_parse(&core->schema, m->schema, err);
  } else {
    schema_plain(&core->schema, m->dim, m->type);
  }
  if (!rc && core->schema.dim != m->dim) {
    rc = err_set(err, EMB_CORRUPT, "%s/manifest: dimension %u, but %u together",
                 core->dir, m->dim, core->schema.dim);
  }
  if (!rc) {
    make_sizes(core);
  }
  return rc;
}

/* Dimension and type come from the store if it exists. */
int make_layout(emb_store *store, int *create, emb_err *err) {
  struct core *core = &store->core;
  const emb_config *c = &store->config;
  struct manifest m;
  char text[SCHEMA_TEXT_BYTES]; /* it must fit */
  int rc = find_manifest(store, &m, create, err);
  if (rc) {
    return rc;
  }
  if (*create) {
    rc = schema_init(&core->schema, c, err);
    rc = rc ? rc : schema_print(&core->schema, text, err);
    if (!rc) {
      make_sizes(core);
    }
    return rc;
  }
  rc = read_schema(store, &m, err);
  rc = rc ? rc : schema_accept(&core->schema, c, core->dir, err);
  rc = rc ? rc : schema_print(&core->schema, text, err);
  if (rc) {
    return rc;
  }
  if (m.page_bytes != core->layout.page_bytes ||
      m.extent_bytes != core->layout.extent_bytes) {
    return err_set(err, EMB_NOTADB, "%s: pages of %u bytes are not supported",
                   core->dir, m.page_bytes);
  }
  memcpy(core->uuid, m.uuid, sizeof core->uuid);
  core->salt = hash_salt(core->uuid);
  return EMB_OK;
}

/* Takes the lock under which a store is made; none if the manifest exists. */
static int lock_creation(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  char path[PATH_BYTES];
  const emb_patience *p = store->config.patience;
  uint64_t before = env->now_us(env);
  int rc = path_join(path, sizeof path, core->dir, FILE_LOCK, err);
  while (!rc && !store->own.file) {
    int os = env->lock(env, path, &store->own.file);
    if (!os) {
      break;
    }
    store->own.file = NULL;
    if (os != EAGAIN && os != EACCES) {
      rc = err_os(err, EMB_CANTOPEN, os, "cannot lock %s", path);
    } else if (!manifest_is_missing(env, core->dir)) {
      break;
    } else if (env->now_us(env) - before >= core->timeout_ms * 1000) {
      rc = err_set(err, EMB_BUSY, "%s is being created by another process",
                   core->dir);
    } else if (p && p->interrupt && p->interrupt(p->interrupt_arg)) {
      rc = err_set(err, EMB_INTERRUPT, "interrupted");
    } else {
      env->sleep_us(env, 1000);
    }
  }
  return rc;
}

/* The files of a store are made under the owner's lock, because two processes
** would write them under the same names.  *create: no other process has made
** them by then. */
int make_begin(emb_store *store, int *create, emb_err *err) {
  int rc = make_dirs(store->core.env, store->core.dir, err);
  do {
    rc = rc || EMB_SEED(SEED_CREATION_NOT_LOCKED) ? rc
                                                  : lock_creation(store, err);
    rc = rc ? rc : make_layout(store, create, err);
  } while (!rc && *create && !store->own.file &&
           !EMB_SEED(SEED_CREATION_NOT_LOCKED));
  return rc;
}

void make_end(emb_store *store) {
  if (store->own.file) {
    store->core.env->unlock(store->core.env, store->own.file);
    store->own.file = NULL;
  }
}
