/* SPDX-License-Identifier: MIT
**
** open.c -- creating, opening and closing a store.
**
** A store is a directory with the files manifest, log, index-* and lock
** (FORMAT.md).  A directory without a manifest is left from an interrupted
** creation, and counts as absent.
*/
#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/identity.h"
#include "engine/table/store/parts.h"
#include "engine/table/store/make.h"
#include "engine/features/background/step.h"
#include "engine/features/retention/settle.h"
#include "engine/storage/ckpt/readers.h"
#include "engine/remote/serve/route.h"
#include "engine/table/store/budget.h"
#include "engine/table/store/dir.h"
#include "engine/storage/kernel/log_head.h"
#include "features.h"
#include "engine/table/owner/own.h"
#include "open.h"
#include "engine/table/jobs/job.h"

/* ---- parts --------------------------------------------------------------- */

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
  char text[SCHEMA_TEXT_BYTES]; /* only to check that it fits */
  int rc = check_config(c, err);
  rc = rc ? rc : budget_check(store->core.env, c->memory_bytes, err);
  rc = rc ? rc : schema_accept(&schema, c, store->core.dir, err);
  return rc ? rc : schema_print(&schema, text, err);
}

void open__free(emb_store *store) {
  struct core *core = &store->core;
  struct env *env = core->env;
  route_leave(store);
  route_left(store, store->remote.closed_in_peace);
  route_close(store);
  jobs_stop(store);
  step_stop(store);
  features__free(store);
  /* No session is linked to another owner. */
  emb_assert(!atomic_load(&store->remote.links) &&
             !atomic_load(&store->remote.session_links));
  emb_check(store_valid(store) && core_valid(core));
  recovery_free(store->own.doubt);
  own_unlock(store); /* nothing more is written */
  log_free(&core->log);
  cache_free(&core->cache);
  ghosts_free(&core->ghosts);
  admission_free(&core->admission);
  frames_free(&core->frames);
  index_free(&core->index);
  index_free(&store->open_txn.map);
  epoch_free(&core->epoch);
  consumers_free(&store->consumers);
  readers_free(core);
  identity_free(core);
  if (store->own.manifest) {
    env->close(env, store->own.manifest);
  }
  env->release(env, core->dir);
  if (core->process) {
    process_leave(core->process);
  }
  env->release(env, store);
}

/* ---- opening ------------------------------------------------------------- */

static int load_existing(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : make_open_log(store, ENV_WRITE, err);
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
  /* This process may have to decide the transaction in doubt there. */
  int is_served = rc == OWN_RECOVERING && route_recovered(store);
  if (rc == EMB_BUSY || (rc == OWN_SERVED && !is_served)) {
    rc = m.clean ? EMB_OK : route_open(store, &is_served, err);
    rc = rc || is_served ? rc : own_load_newest(store, &m, err);
  }
  if (is_served) { /* a client need not load anything */
    atomic_store(&store->own.unloaded, 1);
    return EMB_OK;
  }
  return rc;
}

static int store_open_store(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int create;
  int rc = budget_check(core->env, store->config.memory_bytes, err);
  rc = rc ? rc : make_layout(store, &create, err);
  if (!rc && create && !core->temporary) {
    rc = make_begin(store, &create, err);
    if (!create) {
      make_end(store);
    }
  }
  rc = rc ? rc : parts_memory(store, err);
  rc = rc ? rc : parts_queue(store, err);
  rc = rc ? rc : features__begin(store, err);
  if (rc) {
    return rc;
  }
  if (core->temporary) {
    rc = make_temporary(store, err);
  } else if (create) {
    rc = make_files(store, err);
    make_end(store);
  } else {
    rc = load_existing(store, err);
  }
  core->log.salt = core->salt;
  return rc ? rc : step_start(store, err);
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
  parts_locks(store);
  store->config = *config;
  store->own.readonly =
      config->flags & EMB_OPEN_READONLY ? STORE_ONLY_READS : STORE_WRITES;
  jobs_init(store);
  consumers_init(&store->consumers, core);
  core->temporary = (config->flags & EMB_OPEN_TEMPORARY) != 0;
  core->step_mode = (config->flags & EMB_OPEN_STEP) != 0;
  store->remote.is_alone = (config->flags & EMB_OPEN_ALONE) != 0;
  store->checkpoint.save = dir_save;
  core->timeout_ms = config->timeout_ms;
  core->staleness = config->staleness;
  atomic_store(&core->bounded, (config->flags & EMB_OPEN_BOUNDED) != 0);
  core->vec = vec_best();
  store->process = env->process(env);
  rc = features__init(store, err);
  if (!rc && (!core->dir || process_join(env, &core->process))) {
    rc = err_set(err, EMB_NOMEM, "out of memory");
  } else if (!rc) {
    memcpy(core->dir, dir, length);
    rc = store_open_store(store, err);
  }
  /* The strings are the caller's; the schema has their contents. */
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

/* ---- closing ------------------------------------------------------------- */

int open__close(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  int rc = EMB_OK;
  emb_assert(!store->registered.references);
  emb_assert(!atomic_load(&store->sessions.count));
  route_leave(store);
  int kept = features__drain(store, err); /* unapplied gradients are lost */
  step_stop(store);
  if (atomic_load(&store->own.is_owner) && !core->temporary &&
      !atomic_load(&store->dropped) && !atomic_load(&store->own.owed) &&
      !atomic_load(&store->own.in_doubt)) {
    rc = identity_check(core, err);
    rc = rc ? rc : settle_files(store, err);
    if (!rc) {
      features__settled(store);
    }
    store->remote.closed_in_peace = !rc && !kept;
  } else if (atomic_load(&store->own.is_owner) &&
             atomic_load(&store->own.in_doubt) &&
             !atomic_load(&store->dropped)) {
    /* The next owner finds the acknowledged data in the log, and decides. */
    store->remote.closed_in_peace =
        core_flush_all(core, 0, NULL, NULL) == EMB_OK;
    features__left(store);
  } else {
    features__left(store);
  }
  open__free(store);
  return rc ? rc : kept;
}
