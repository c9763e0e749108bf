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

#include "../life/compact.h"
#include "../life/shorten.h"
#include "own.h"
#include "registry.h"
#include "job.h"
#include "step.h"

#define MEMORY_MIN (UINT64_C(4) << 20)
#define FRAMES_MIN 16

struct log_head {    /* first block of the log file */
  uint64_t sum;      /* 00-07 hash_sum of bytes 8..4095, salt and position 0 */
  char magic[8];     /* 08-15 "embstlog" */
  uint32_t format;   /* 16-19 */
  uint32_t reserved; /* 20-23 zero */
  uint8_t uuid[16];  /* 24-39 */
  uint8_t zero[LOG_FILE_HEAD - 40];
};
_Static_assert(sizeof(struct log_head) == LOG_FILE_HEAD, "log head");
#define LOG_FORMAT 1
static const char log_magic[8] = {'e', 'm', 'b', 's', 't', 'l', 'o', 'g'};

/* ---- files ------------------------------------------------------------- */

static int open_log(emb_store *store, int flags, emb_err *err) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, "log", err);
  if (rc) {
    return rc;
  }
  int os =
      core->env->open(core->env, path, flags | ENV_DIRECT, &core->log.file);
  if ((os == EACCES || os == EROFS) && !(flags & ENV_CREATE)) {
    os = core->env->open(core->env, path, ENV_READ | ENV_DIRECT,
                         &core->log.file);
    store->config.flags |= EMB_OPEN_READONLY;
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", path) : EMB_OK;
}

int store_log_head(emb_store *store, int write, emb_err *err) {
  struct core *core = &store->core;
  struct log_head *head = core->env->map(core->env, LOG_FILE_HEAD, 0);
  int os = 0, rc = EMB_OK;
  if (!head) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  if (write) {
    memcpy(head->magic, log_magic, sizeof log_magic);
    head->format = LOG_FORMAT;
    memcpy(head->uuid, core->uuid, 16);
    head->sum = hash_sum((char *)head + 8, LOG_FILE_HEAD - 8, 0, 0);
    os = core->env->write(core->env, core->log.file, head, LOG_FILE_HEAD, 0);
  } else {
    os = core->env->read(core->env, core->log.file, head, LOG_FILE_HEAD, 0);
    if (!os &&
        (memcmp(head->magic, log_magic, sizeof log_magic) != 0 ||
         head->sum != hash_sum((char *)head + 8, LOG_FILE_HEAD - 8, 0, 0) ||
         memcmp(head->uuid, core->uuid, 16) != 0)) {
      rc = err_set(err, EMB_CORRUPT,
                   "%s/log: the head does not belong to the manifest",
                   core->dir);
    }
  }
  core->env->unmap(core->env, head, LOG_FILE_HEAD);
  return os ? err_os(err, EMB_IOERR, os, "cannot access %s/log", core->dir)
            : rc;
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
  if (!os) {
    os = env->sync_dir(env, parent);
  }
  if (!os) {
    os = env->sync_dir(env, above);
    os = os == EACCES ? 0 : os; /* it need not be readable */
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", dir) : EMB_OK;
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
          : store_log_head(store, 1, err);
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
  rc = manifest_create(env, core->dir, &m, err);
  store->checkpoint.manifest = m;
  return rc;
}

/* A temporary store's log has no name: it is gone with the process. */
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
  return store_log_head(store, 1, err);
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
  return EMB_OK;
}

static void init_locks(emb_store *store) {
  struct core *core = &store->core;
  pthread_condattr_t clock;
  pthread_mutex_init(&core->ckpt_lock, NULL);
  pthread_mutex_init(&core->flush_lock, NULL);
  pthread_mutex_init(&core->scan_lock, NULL);
  pthread_mutex_init(&core->wake_lock, NULL);
  pthread_mutex_init(&store->own_lock, NULL);
  pthread_mutex_init(&store->session_lock, NULL);
  pthread_mutex_init(&store->txn_lock, NULL);
  pthread_mutex_init(&store->settle_lock, NULL);
  pthread_mutex_init(&store->snapshots.lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&core->wake, &clock);
  pthread_cond_init(&core->work, &clock);
  pthread_cond_init(&core->room, &clock);
  pthread_cond_init(&core->given, &clock);
  pthread_condattr_destroy(&clock);
}

static int init_memory(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t bytes = store->config.memory_bytes ? store->config.memory_bytes
                                              : EMB_MEMORY_DEFAULT;
  bytes = bytes < MEMORY_MIN ? MEMORY_MIN : bytes;
  uint64_t frames = bytes / core->layout.extent_bytes;
  frames = frames < FRAMES_MIN ? FRAMES_MIN : frames;
  if (frames > UINT32_MAX / 4) {
    return err_set(err, EMB_RANGE, "memory of %llu bytes is too large",
                   (unsigned long long)bytes);
  }
  epoch_init(&core->epoch, env);
  int rc = index_init(&core->index, env, &core->epoch, INDEX_PART_BITS_MAX);
  rc = rc ? rc : index_init(&store->txn_map, env, NULL, 6);
  rc = rc ? rc
          : frames_init(&core->frames, env, core->layout.extent_bytes,
                        (uint32_t)frames);
  rc = rc ? rc
          : log_init(&core->log, env, &core->epoch, &core->frames,
                     &core->layout);
  rc = rc ? rc : cache_init(&core->cache, env, &core->layout, (uint32_t)frames);
  rc = rc ? rc : admission_init(&core->admission, env, &core->schema.admission);
  store->flush_slot = rc ? NULL : epoch_join(&core->epoch);
  store->work_slot = rc ? NULL : epoch_join(&core->epoch);
  if (rc || !store->flush_slot || !store->work_slot) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  core->log.salt = core->salt;
  core->log.no_sync = core->temporary;
  return EMB_OK;
}

static int init_queue(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  int kind =
      store->config.io == EMB_IO_PREAD ? ENV_QUEUE_POOL : ENV_QUEUE_URING;
  int os = env->queue_open(env, kind, 16, &core->flush_queue);
  if (os == ENOSYS && store->config.io == EMB_IO_AUTO) {
    kind = ENV_QUEUE_POOL;
    os = env->queue_open(env, kind, 16, &core->flush_queue);
  }
  core->queue_kind = kind;
  return os ? err_os(err, EMB_IOERR, os, "cannot start disk access (%s)",
                     kind == ENV_QUEUE_URING ? "io_uring" : "pread")
            : EMB_OK;
}

static int start_threads(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  void (*run[2])(void *) = {step_flush_thread, step_work_thread};
  if (core->step_mode) {
    return EMB_OK;
  }
  for (int i = 0; i < 2; i++) {
    int os = env->thread_start(env, run[i], store, &store->threads[i]);
    if (os) {
      store->threads[i] = NULL;
      return err_os(err, EMB_NOMEM, os, "cannot start a thread");
    }
  }
  return EMB_OK;
}

static void stop_threads(emb_store *store) {
  struct core *core = &store->core;
  pthread_mutex_lock(&core->wake_lock);
  core->stopping = 1;
  pthread_cond_broadcast(&core->wake);
  pthread_cond_broadcast(&core->work);
  pthread_mutex_unlock(&core->wake_lock);
  for (int i = 0; i < 2; i++) {
    if (store->threads[i]) {
      core->env->thread_join(core->env, store->threads[i]);
      store->threads[i] = NULL;
    }
  }
}

void store_free(emb_store *store) {
  struct core *core = &store->core;
  struct env *env = core->env;
  jobs_stop(store);
  stop_threads(store);
  recovery_free(store->doubt);
  snapshots_free(core, &store->snapshots);
  if (core->flush_queue) {
    env->queue_close(env, core->flush_queue);
  }
  log_free(&core->log);
  cache_free(&core->cache);
  admission_free(&core->admission);
  frames_free(&core->frames);
  index_free(&core->index);
  index_free(&store->txn_map);
  epoch_free(&core->epoch);
  if (store->lock) {
    env->unlock(env, store->lock);
  }
  consumers_free(&store->consumers);
  env->release(env, core->dir);
  env->release(env, store);
}

/* ---- opening ----------------------------------------------------------- */

static int load_existing(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : open_log(store, ENV_WRITE, err);
  rc = rc ? rc : store_log_head(store, 0, err);
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
  rc = own_inherit(store, &m, err);
  return rc == EMB_BUSY ? own_follow(store, &m, err) : rc;
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
      path_join(path, sizeof path, core->dir, "manifest", NULL) == EMB_OK) {
    int os = core->env->identity(core->env, path, id);
    *create = os == ENOENT || os == ENOTDIR || EMB_SEED(21);
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

static int open_store(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int create;
  int rc = decide_layout(store, &create, err);
  if (!rc && create && !core->temporary) {
    rc = make_dirs(core->env, core->dir, err);
  }
  rc = rc ? rc : init_memory(store, err);
  rc = rc ? rc : init_queue(store, err);
  if (rc) {
    return rc;
  }
  if (core->temporary) {
    rc = create_temporary(store, err);
  } else if (create) {
    rc = create_files(store, err);
  } else {
    rc = load_existing(store, err);
  }
  core->log.salt = core->salt;
  return rc ? rc : start_threads(store, err);
}

int store_new(struct env *env, const char *dir, const emb_config *config,
              emb_store **out, emb_err *err) {
  int rc = check_config(config, err);
  if (rc) {
    return rc;
  }
  emb_store *store = env->allocate(env, sizeof *store);
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
  jobs_init(store);
  consumers_init(&store->consumers, core);
  core->temporary = (config->flags & EMB_OPEN_TEMPORARY) != 0;
  core->step_mode = (config->flags & EMB_OPEN_STEP) != 0;
  core->step = step_once;
  core->timeout_ms = config->timeout_ms;
  core->staleness = config->staleness;
  atomic_store(&core->bounded, (config->flags & EMB_OPEN_BOUNDED) != 0);
  core->vec = vec_best();
  store->process = env->process(env);
  if (!core->dir) {
    rc = err_set(err, EMB_NOMEM, "out of memory");
  } else {
    memcpy(core->dir, dir, length);
    rc = open_store(store, err);
  }
  /* The caller's; the schema has all that they say. */
  store->config.optimizer = store->config.initializer = NULL;
  store->config.ttl = store->config.admission = NULL;
  store->config.segments = NULL;
  store->config.segment_count = 0;
  if (rc) {
    store_free(store);
    return rc;
  }
  *out = store;
  return EMB_OK;
}

/* ---- closing ----------------------------------------------------------- */

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
  if (rc == EMB_CORRUPT) {
    rc = EMB_OK; /* what is damaged stays where it is */
  }
  space_measure(core, &space);
  if (!rc && shorten_due(core, space.dead)) {
    /* Frees what is dead first, so that there is somewhere to move to. */
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    for (did = !rc; !rc && did;) {
      did = 0;
      rc = step_shorten(store, &did, err);
    }
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

int store_close(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int rc = EMB_OK;
  stop_threads(store);
  if (atomic_load(&store->owner) && !core->temporary &&
      !atomic_load(&store->in_doubt)) {
    rc = core_failed(core, err);
    rc = rc ? rc : settle_files(store, err);
  }
  store_free(store);
  return rc;
}

void emb_uuid(const emb_store *store, uint8_t uuid[16]) {
  memcpy(uuid, store->core.uuid, 16);
}
uint32_t emb_dim(const emb_store *store) { return store->core.layout.dim; }
uint32_t emb_type(const emb_store *store) { return store->core.layout.type; }
uint32_t emb_tracking(const emb_store *store) {
  return store->core.schema.track;
}
