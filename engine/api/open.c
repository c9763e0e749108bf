/* SPDX-License-Identifier: MIT
**
** open.c -- making, opening and closing a store.
**
** A store is a directory with the files manifest, log, index-* and lock
** (FORMAT.md).  A directory without a manifest is one whose creation was cut
** off: it counts as absent.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/storage/ckpt/identity.h"
#include "engine/storage/ckpt/readers.h"
#include "engine/storage/kernel/log_head.h"
#include "engine/features/retention/compact.h"
#include "engine/features/retention/shorten.h"
#include "engine/remote/serve/route.h"
#include "engine/features/memory/budget.h"
#include "engine/table/store/dir.h"
#include "features.h"
#include "engine/table/owner/own.h"
#include "open.h"
#include "engine/table/jobs/job.h"
#include "step.h"

/* ---- files ------------------------------------------------------------- */

static int open_log(emb_store *store, int flags, emb_err *err) {
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
    atomic_store(&store->readonly, STORE_CANNOT_WRITE);
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

/* The directory and, if need be, the one above it.  Both names are made durable
** even if the latter was there: a process may have made it and died. */
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
    os = 0; /* a creation that was cut off */
  }
  os = os ? os : sync_path(env, parent);
  if (!os) {
    os = sync_path(env, above);
    os = os == EACCES ? 0 : os; /* it need not be readable */
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

static int create_files(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  int os = env->random(env, core->uuid, sizeof core->uuid);
  if (os) {
    return err_os(err, EMB_IOERR, os, "no random numbers");
  }
  core->salt = hash_salt(core->uuid);
  int rc = open_log(store, ENV_WRITE | ENV_CREATE, err);
  if (rc) {
    return rc;
  }
  char gone[PATH_BYTES];
  rc = path_join(gone, sizeof gone, core->dir, MANIFEST_GONE, err);
  if (rc) {
    return rc;
  }
  /* A creation that was cut off has left no more than the head; a deletion has
  ** left its sign. */
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
static int create_temporary(emb_store *store, emb_err *err) {
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
  atomic_store(&store->owner, 1);
  return core_log_head(&store->core, 1, err);
}

/* ---- parts ------------------------------------------------------------- */

static int check_config(const emb_config *c, emb_err *err) {
  if (c->io > EMB_IO_PREAD) {
    return err_set(err, EMB_RANGE, "unknown io kind %u", c->io);
  }
  if (c->io_depth_min > EMB_IO_DEPTH_MAX ||
      c->io_depth_max > EMB_IO_DEPTH_MAX) {
    return err_set(err, EMB_RANGE, "io depth must be at most %d",
                   EMB_IO_DEPTH_MAX);
  }
  if (c->io_workers_min > EMB_IO_WORKERS_MAX ||
      c->io_workers_max > EMB_IO_WORKERS_MAX) {
    return err_set(err, EMB_RANGE, "io workers must be at most %d",
                   EMB_IO_WORKERS_MAX);
  }
  if ((c->flags & EMB_OPEN_BOUNDED) && c->staleness > EMB_STALENESS_MAX) {
    return err_set(err, EMB_RANGE, "staleness must be between 0 and %d, got %u",
                   EMB_STALENESS_MAX, c->staleness);
  }
  return emb_check_gradients(c->gradients, err);
}

int emb_check_config(const emb_store *store, const emb_config *c,
                     emb_err *err) {
  struct schema schema = store->core.schema;
  char text[SCHEMA_TEXT_BYTES]; /* it must fit */
  int rc = check_config(c, err);
  rc = rc ? rc : budget__check(store->core.env, c->memory_bytes, err);
  rc = rc ? rc : schema_accept(&schema, c, store->core.dir, err);
  return rc ? rc : schema_print(&schema, text, err);
}

static void init_locks(emb_store *store) {
  struct core *core = &store->core;
  pthread_condattr_t clock;
  pthread_mutex_init(&core->ckpt_lock, NULL);
  pthread_mutex_init(&core->flush_lock, NULL);
  pthread_mutex_init(&core->scan_lock, NULL);
  watch_init(core);
  pthread_mutex_init(&core->wake_lock, NULL);
  pthread_mutex_init(&store->own_lock, NULL);
  pthread_mutex_init(&store->control_lock, NULL);
  atomic_init(&store->control_owner, -1);
  pthread_mutex_init(&store->budget_lock, NULL);
  pthread_mutex_init(&store->advice.lock, NULL);
  pthread_mutex_init(&store->session_lock, NULL);
  pthread_mutex_init(&store->txn_lock, NULL);
  pthread_mutex_init(&store->settle_lock, NULL);
  pthread_mutex_init(&store->snapshots->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&core->stopped, &clock);
  pthread_cond_init(&core->room, &clock);
  pthread_cond_init(&core->released, &clock);
  pthread_condattr_destroy(&clock);
}

static int init_memory(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t bytes = store->config.memory_bytes ? store->config.memory_bytes
                                              : EMB_MEMORY_DEFAULT;
  uint32_t frames = budget__frames(&core->layout, bytes);
  epoch_init(&core->epoch, env);
  int rc = index_init(&core->index, env, &core->epoch, INDEX_PART_BITS_MAX);
  rc = rc ? rc : index_init(&store->txn_map, env, NULL, 6);
  rc = rc ? rc
          : frames_init(&core->frames, env, core->layout.extent_bytes, frames);
  rc = rc ? rc
          : log_init(&core->log, env, &core->epoch, &core->frames,
                     &core->layout);
  rc = rc ? rc : cache_init(&core->cache, env, &core->layout, frames);
  rc = rc ? rc : ghosts_init(&core->ghosts, env);
  rc = rc ? rc : admission_init(&core->admission, env, &core->schema.admission);
  store->flush_slot = rc ? NULL : epoch_join(&core->epoch);
  store->work_slot = rc ? NULL : epoch_join(&core->epoch);
  if (rc || !store->flush_slot || !store->work_slot) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  budget__sample(core);
  core->log.salt = core->salt;
  core->log.no_sync = core->temporary;
  core->log.keep = core->log.keep_min = LOG_KEEP_MIN;
  return EMB_OK;
}

/* Finds out how the disk can be accessed here. */
static int init_queue(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  struct process_queue q;
  int kind =
      store->config.io == EMB_IO_PREAD ? ENV_QUEUE_POOL : ENV_QUEUE_URING;
  int os = process_queue_take(core->process, kind, FLUSH_DEPTH, &q);
  if (!os && q.kind != kind) { /* why is there no ring? */
    process_queue_give(core->process, &q);
    q = (struct process_queue){NULL, kind, FLUSH_DEPTH};
    os = env->queue_open(env, kind, FLUSH_DEPTH, &q.queue);
  }
  if (os == ENOSYS && store->config.io == EMB_IO_AUTO) {
    os = process_queue_take(core->process, ENV_QUEUE_POOL, FLUSH_DEPTH, &q);
  }
  core->queue_kind = q.kind;
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot start disk access (%s)",
                  q.kind == ENV_QUEUE_URING ? "io_uring" : "pread");
  }
  process_queue_give(core->process, &q);
  return EMB_OK;
}

static void stop_background(emb_store *store) {
  struct core *core = &store->core;
  pthread_mutex_lock(&core->wake_lock);
  core->stopping = 1;
  pthread_cond_broadcast(&core->stopped);
  pthread_mutex_unlock(&core->wake_lock);
  background_end(&core->work); /* which may wait for the other */
  background_end(&core->flush);
}

void open__free(emb_store *store) {
  struct core *core = &store->core;
  struct env *env = core->env;
  route_leave(store);
  route_left(store, store->closed_in_peace);
  route_close(store);
  jobs_stop(store);
  stop_background(store);
  tasks_free(store);
  warm_free(store);
  nearest_free(store);
  bank_free(store);
  sampling_free(store);
  emb_check(store_valid(store) && core_valid(core));
  recovery_free(store->doubt);
  snapshots_free(core, store->snapshots);
  own_unlock(store); /* nothing is written any more */
  log_free(&core->log);
  cache_free(&core->cache);
  ghosts_free(&core->ghosts);
  admission_free(&core->admission);
  frames_free(&core->frames);
  index_free(&core->index);
  index_free(&store->txn_map);
  epoch_free(&core->epoch);
  consumers_free(&store->consumers);
  readers_free(core);
  identity_free(core);
  if (store->manifest) {
    env->close(env, store->manifest);
  }
  env->release(env, core->dir);
  if (core->process) {
    process_leave(core->process);
  }
  env->release(env, store);
}

/* ---- opening ----------------------------------------------------------- */

static int load_existing(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : open_log(store, ENV_WRITE, err);
  rc = rc ? rc : core_log_head(&store->core, 0, err);
  if (rc) {
    return rc;
  }
  int damaged;
  if (manifest_check(core->env, core->dir, &damaged, NULL) == EMB_OK &&
      damaged >= 0) {
    count_add(&core->counters.manifest_damaged, 1);
  }
  store->checkpoint.manifest = m;
  store->checkpoint.manifest.generation = 0; /* nothing is loaded yet */
  rc = own_take_if_dead(store, &m, err);
  /* What is in doubt there may be for this process to decide. */
  int is_served = rc == OWN_RECOVERING && route_recovered(store);
  if (rc == EMB_BUSY || (rc == OWN_SERVED && !is_served)) {
    rc = m.clean ? EMB_OK : route_open(store, &is_served, err);
    rc = rc || is_served ? rc : own_load_newest(store, &m, err);
  }
  if (is_served) { /* what is asked need not be loaded */
    atomic_store(&store->unloaded, 1);
    return EMB_OK;
  }
  return rc;
}

/* The manifest, or *create: there is none and one is asked for.  One that
** cannot be opened now may well be there. */
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
    schema_layout(&core->schema, &core->layout);
  }
  return rc;
}

/* Dimension and type come from the store where there is one. */
static int decide_layout(emb_store *store, int *create, emb_err *err) {
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
      schema_layout(&core->schema, &core->layout);
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
    return err_set(err, EMB_NOTADB, "%s: pages of %u bytes are not known",
                   core->dir, m.page_bytes);
  }
  memcpy(core->uuid, m.uuid, sizeof core->uuid);
  core->salt = hash_salt(core->uuid);
  return EMB_OK;
}

/* The lock under which a store is made, or none and the manifest is there. */
static int lock_creation(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  char path[PATH_BYTES];
  const emb_patience *p = store->config.patience;
  uint64_t before = env->now_us(env);
  int rc = path_join(path, sizeof path, core->dir, FILE_LOCK, err);
  while (!rc && !store->lock) {
    int os = env->lock(env, path, &store->lock);
    if (!os) {
      break;
    }
    store->lock = NULL;
    if (os != EAGAIN && os != EACCES) {
      rc = err_os(err, EMB_CANTOPEN, os, "cannot lock %s", path);
    } else if (!manifest_is_missing(env, core->dir)) {
      break;
    } else if (env->now_us(env) - before >= core->timeout_ms * 1000) {
      rc = err_set(err, EMB_BUSY, "%s is being made by another process",
                   core->dir);
    } else if (p && p->interrupt && p->interrupt(p->interrupt_arg)) {
      rc = err_set(err, EMB_INTERRUPT, "interrupted");
    } else {
      env->sleep_us(env, 1000);
    }
  }
  return rc;
}

/* The files of a store are made under the owner's lock: two processes would
** write them under the same names.  *create: no other process has made them
** meanwhile. */
static int begin_creation(emb_store *store, int *create, emb_err *err) {
  int rc = make_dirs(store->core.env, store->core.dir, err);
  do {
    rc = rc || EMB_SEED(SEED_CREATION_NOT_LOCKED) ? rc
                                                  : lock_creation(store, err);
    rc = rc ? rc : decide_layout(store, create, err);
  } while (!rc && *create && !store->lock &&
           !EMB_SEED(SEED_CREATION_NOT_LOCKED));
  return rc;
}

static void end_creation(emb_store *store) {
  if (store->lock) {
    store->core.env->unlock(store->core.env, store->lock);
    store->lock = NULL;
  }
}

static int store_open_store(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int create;
  int rc = budget__check(core->env, store->config.memory_bytes, err);
  rc = rc ? rc : decide_layout(store, &create, err);
  if (!rc && create && !core->temporary) {
    rc = begin_creation(store, &create, err);
    if (!create) {
      end_creation(store);
    }
  }
  rc = rc ? rc : init_memory(store, err);
  rc = rc ? rc : init_queue(store, err);
  if (rc) {
    return rc;
  }
  bank_begin(store);
  if (core->temporary) {
    rc = create_temporary(store, err);
  } else if (create) {
    rc = create_files(store, err);
    end_creation(store);
  } else {
    rc = load_existing(store, err);
  }
  core->log.salt = core->salt;
  return rc ? rc : step__start(store, err);
}

int open__make(struct env *env, const char *dir, const emb_config *config,
               emb_store **out, emb_err *err) {
  int rc = check_config(config, err);
  if (rc) {
    return rc;
  }
  emb_store *store = features__new_store(env);
  if (!store) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  struct core *core = &store->core;
  core->env = env;
  size_t length = strlen(dir);
  while (length > 1 && dir[length - 1] == '/') {
    length--;
  }
  core->dir = env->allocate(env, length + 1);
  init_locks(store);
  store->config = *config;
  store->readonly =
      config->flags & EMB_OPEN_READONLY ? STORE_ONLY_READS : STORE_WRITES;
  jobs_init(store);
  tasks_init(store);
  consumers_init(&store->consumers, core);
  core->temporary = (config->flags & EMB_OPEN_TEMPORARY) != 0;
  core->step_mode = (config->flags & EMB_OPEN_STEP) != 0;
  store->is_alone = (config->flags & EMB_OPEN_ALONE) != 0;
  store->checkpoint.save = dir_save;
  store->serve = route_own;
  store->tell = route_tell;
  core->step = step__once;
  core->relieve = step__relieve;
  core->timeout_ms = config->timeout_ms;
  core->staleness = config->staleness;
  atomic_store(&core->bounded, (config->flags & EMB_OPEN_BOUNDED) != 0);
  warm_init(store);
  nearest_init(store);
  sampling_init(store);
  core->vec = vec_best();
  store->process = env->process(env);
  if (!core->dir || process_join(env, &core->process)) {
    rc = err_set(err, EMB_NOMEM, "out of memory");
  } else {
    memcpy(core->dir, dir, length);
    rc = bank_init(store, config->gradients, err);
    rc = rc ? rc : store_open_store(store, err);
  }
  /* The caller's; the schema has all that they say. */
  store->config.optimizer = store->config.initializer = NULL;
  store->config.ttl = store->config.admission = NULL;
  store->config.patience = NULL;
  store->config.metric = store->config.index = NULL;
  store->config.gradients = NULL;
  store->config.segments = NULL;
  store->config.segment_count = 0;
  if (rc) {
    open__free(store);
    return rc;
  }
  *out = store;
  return EMB_OK;
}

/* ---- closing ----------------------------------------------------------- */

/* What is damaged stays where it is; and where there is no space for what would
** be compact, the checkpoint counts. */
static int forgive(const struct core *core, int rc) {
  return rc == EMB_CORRUPT ||
                 (rc == EMB_FULL && !atomic_load(&core->log.failed))
             ? EMB_OK
             : rc;
}

/* Leaves the files compact and complete. */
static int settle_files(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct space space;
  int did = 1, rc = EMB_OK;
  pthread_mutex_lock(&core->ckpt_lock);
  while (!rc && did) {
    space_measure(core, &space);
    did = 0;
    if (space_wasted(core, &space)) {
      rc = core_flush_all(core, 0, NULL, err);
      rc = rc ? rc : compact_one(core, store->work_slot, 0, &did, err);
      if (!rc && did && space_freeable(core, &space)) {
        rc =
            checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
      }
    }
  }
  rc = forgive(core, rc);
  space_measure(core, &space);
  if (!rc && shorten_due(core, space.dead)) {
    /* Frees what is dead first, so that there is somewhere to move to. */
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    for (did = !rc; !rc && did;) {
      did = 0;
      rc = shorten_space(store, &did, err);
    }
    rc = forgive(core, rc);
  }
  rc = rc ? rc
          : checkpoint_take(core, store->work_slot, &store->checkpoint, 1, err);
  pthread_mutex_unlock(&core->ckpt_lock);
  if (!rc) {
    pthread_mutex_lock(&core->flush_lock);
    log_trim(&core->log, 1, NULL);
    pthread_mutex_unlock(&core->flush_lock);
  }
  return rc;
}

int open__close(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int rc = EMB_OK;
  route_leave(store);
  int kept = bank_close(store, err); /* what cannot be applied is lost */
  stop_background(store);
  if (atomic_load(&store->owner) && !core->temporary &&
      !atomic_load(&store->dropped) && !atomic_load(&store->owed) &&
      !atomic_load(&store->in_doubt)) {
    rc = identity_check(core, err);
    rc = rc ? rc : settle_files(store, err);
    if (!rc) {
      nearest_close(store);
    }
    store->closed_in_peace = !rc && !kept;
  } else if (atomic_load(&store->owner) && atomic_load(&store->in_doubt) &&
             !atomic_load(&store->dropped)) {
    /* The next owner finds in the log what is acknowledged, and decides. */
    store->closed_in_peace = core_flush_all(core, 0, NULL, NULL) == EMB_OK;
    warm_leave(store);
  } else {
    warm_leave(store);
  }
  open__free(store);
  return rc ? rc : kept;
}

void emb_uuid(const emb_store *store, uint8_t uuid[16]) {
  memcpy(uuid, store->core.uuid, 16);
}
const char *emb_directory(const emb_store *store) { return store->core.dir; }
uint32_t emb_dim(const emb_store *store) { return store->core.layout.dim; }
uint32_t emb_type(const emb_store *store) { return store->core.layout.type; }
int emb_averages(const emb_store *store) { return store->averages; }
uint32_t emb_tracking(const emb_store *store) {
  return store->core.schema.track;
}
