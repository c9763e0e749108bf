/* SPDX-License-Identifier: MIT
**
** parts.c -- the parts of a store in memory: locks, index, log, cache, and disk
** access.
*/
#include "parts.h"

#include <errno.h>

#include "budget.h"

void parts_locks(emb_store *store) {
  struct core *core = &store->core;
  pthread_condattr_t clock;
  pthread_mutex_init(&core->ckpt_lock, NULL);
  pthread_mutex_init(&core->flush_lock, NULL);
  pthread_mutex_init(&core->scan_lock, NULL);
  watch_init(core);
  pthread_mutex_init(&core->wake_lock, NULL);
  pthread_mutex_init(&store->own.lock, NULL);
  pthread_mutex_init(&store->control.lock, NULL);
  atomic_init(&store->control.owner, -1);
  pthread_mutex_init(&store->budget_lock, NULL);
  pthread_mutex_init(&store->sessions.lock, NULL);
  pthread_mutex_init(&store->txn.lock, NULL);
  pthread_mutex_init(&store->open_txn.lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&core->stopped, &clock);
  pthread_cond_init(&core->room, &clock);
  pthread_condattr_destroy(&clock);
}

int parts_memory(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t bytes = store->config.memory_bytes ? store->config.memory_bytes
                                              : EMB_MEMORY_DEFAULT;
  uint32_t frames = budget_frames(&core->layout, bytes);
  epoch_init(&core->epoch, env);
  int rc = index_init(&core->index, env, &core->epoch, INDEX_PART_BITS_MAX);
  rc = rc ? rc : index_init(&store->open_txn.map, env, NULL, 6);
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
  budget_sample(core);
  core->log.salt = core->salt;
  core->log.no_sync = core->temporary;
  core->log.keep = core->log.keep_min = LOG_KEEP_MIN;
  return EMB_OK;
}

/* Finds out which kind of disk access works here. */
int parts_queue(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  struct process_queue q;
  int kind =
      store->config.io == EMB_IO_PREAD ? ENV_QUEUE_POOL : ENV_QUEUE_URING;
  int os = process_queue_take(core->process, kind, FLUSH_DEPTH, &q);
  if (!os && q.kind != kind) { /* find out why there is no ring */
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
