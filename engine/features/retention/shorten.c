/* SPDX-License-Identifier: MIT
**
** shorten.c -- see shorten.h.
*/
#include "shorten.h"

#include "engine/emb.h"

/* This many free file slots are tolerated. */
#define SLACK 4

int shorten__due(struct core *core, uint64_t dead) {
  struct log *log = &core->log;
  pthread_mutex_lock(&log->lock);
  uint64_t used = log_extents_used(log) - dead / core->layout.extent_bytes;
  int due = log->phys_end - log->ready_count > used + used / 32 + SLACK;
  pthread_mutex_unlock(&log->lock);
  return due;
}

/* Returns the movable extent at the highest file slot; 0 if none. */
static uint64_t highest_extent(struct core *core, uint64_t limit) {
  struct log *log = &core->log;
  uint64_t best = 0;
  uint32_t top = 0;
  pthread_mutex_lock(&log->lock);
  for (uint64_t e = log->first; e < limit; e++) {
    uint32_t phys = extent_phys(log_extent(log, e));
    if (phys != EXTENT_NOWHERE && phys > top) {
      top = phys;
      best = e;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return best;
}

int shorten__file(struct core *core, uint64_t replay, uint32_t n,
                  uint32_t *moved, emb_err *err) {
  const struct layout *l = &core->layout;
  struct env *env = core->env;
  uint64_t flushed = atomic_load(&core->log.flushed);
  uint64_t limit = (replay < flushed ? replay : flushed) >> l->extent_bits;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  emb_assert(epoch_outside()); /* E1 */
  *moved = 0;
  char *buffer = env->map(env, l->extent_bytes, 0);
  if (!buffer) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  int rc = EMB_OK;
  while (!rc && *moved < n && shorten__due(core, 0)) {
    uint64_t number = highest_extent(core, limit), from, to;
    if (!number || !log_reserve_lower(&core->log, number, &from, &to)) {
      break;
    }
    int os = env->read(env, core->log.file, buffer, l->extent_bytes, from);
    os = os ? os : env->write(env, core->log.file, buffer, l->extent_bytes, to);
    if (os) {
      log_cancel_move(&core->log, to);
      rc =
          err_os(err, EMB_IOERR, os, "cannot move a part of %s/log", core->dir);
      break;
    }
    rc = log_move(&core->log, number, to)
             ? err_set(err, EMB_NOMEM, "out of memory")
             : EMB_OK;
    *moved += !rc;
    count_add(&core->counters.moved_extents, !rc);
  }
  env->unmap(env, buffer, l->extent_bytes);
  if (!rc && shorten__due(core, 0)) {
    /* The extent now being filled may be the one that keeps the file long. */
    pthread_mutex_lock(&core->log.lock);
    uint64_t used = log_extents_used(&core->log);
    pthread_mutex_unlock(&core->log.lock);
    *moved += (uint32_t)log_pad(&core->log, used + used / 8);
  }
  return rc;
}
