/* SPDX-License-Identifier: MIT
**
** flush.c -- keeps frames free, and makes things durable on demand.
**
** The log may use all frames that the cache does not have.  When fewer than
** the low water are free, its oldest extents leave memory; before that they
** are sealed and written, in lumps of half of its frames' worth, so that an
** epoch_wait and a large sequential write pay for many pages.  The cache gets
** frames from the log while the log has more than its minimum, and gives them
** back when the log has less, when it does not serve (judge_cache), and when an
** eighth of its slots and a frame are free, because their keys were put.
*/
#include <string.h>

#include "../emb.h"
#include "core.h"

uint32_t core_low_water(const struct core *core) {
  uint32_t low = core->frames.count / 32;
  return low < 2 ? 2 : low > 16 ? 16 : low;
}

uint32_t core_log_min(const struct core *core) {
  uint32_t min = core->frames.count / 8;
  return min < 4 ? 4 : min;
}

int core_failed(struct core *core, emb_err *err) {
  int failed = atomic_load(&core->log.failed);
  if (!failed) {
    return EMB_OK;
  }
  return err_set(err, failed == EMB_FULL ? EMB_FULL : EMB_FAILED,
                 failed == EMB_FULL
                     ? "the disk is full: %s takes no writes until reopened"
                     : "an earlier write failed: %s takes no writes until "
                       "reopened",
                 core->dir);
}

uint32_t core_cache_min(const struct core *core) {
  uint32_t min = core->frames.count / 16;
  return min < 1 ? 1 : min;
}

/* Looks at what the cache did since it was filled last: fewer than one hit for
** sixteen records that came in, and it does more harm than good. */
static void judge_cache(struct core *core) {
  struct cache *cache = &core->cache;
  uint64_t room =
      (uint64_t)atomic_load(&cache->frame_count) * cache->slots_per_frame;
  uint64_t admitted = atomic_load_explicit(&core->counters.cache_admitted,
                                           memory_order_relaxed);
  uint64_t hits =
      atomic_load_explicit(&core->counters.get_cache, memory_order_relaxed);
  if (room && admitted - core->judged_admitted >= room) {
    uint32_t useless =
        (hits - core->judged_hits) * 16 < admitted - core->judged_admitted;
    atomic_store_explicit(&core->cache_useless, useless, memory_order_relaxed);
    core->judged_hits = hits;
    core->judged_admitted = admitted;
  }
}

void core_wait_ms(struct core *core, pthread_cond_t *cond,
                  pthread_mutex_t *lock, uint64_t ms) {
  core->env->wait_us(core->env, cond, lock, ms * 1000);
}

void core_wake(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  core->work_wanted = 1;
  pthread_cond_signal(&core->wake);
  pthread_mutex_unlock(&core->wake_lock);
}

void core_tell_given(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  core->given_turn++;
  pthread_cond_broadcast(&core->given);
  pthread_mutex_unlock(&core->wake_lock);
}

static void tell_room(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  pthread_cond_broadcast(&core->room);
  pthread_mutex_unlock(&core->wake_lock);
}

static int seal_and_flush(struct core *core, uint64_t page, emb_err *err) {
  uint64_t wrote;
  log_seal(&core->log, page);
  int rc = log_flush(&core->log, &core->flush_queue, &wrote, err);
  count_add(&core->counters.write_bytes, wrote);
  count_add(&core->counters.flushes, 1);
  return rc;
}

void core_mark(struct core *core, pthread_mutex_t *settle,
               void (*then)(void *arg, uint64_t page), void *arg) {
  pthread_mutex_lock(&core->flush_lock);
  pthread_mutex_lock(settle);
  then(arg, EMB_SEED(63) ? atomic_load(&core->log.tail)
                         : log_seal(&core->log, UINT64_MAX));
  pthread_mutex_unlock(settle);
  pthread_mutex_unlock(&core->flush_lock);
}

/* The page below which the log is sealed when it keeps `extents` mutable. */
static uint64_t seal_target(struct core *core, uint64_t extents) {
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t keep = extents << core->layout.extent_bits;
  uint64_t page = tail > keep ? tail - keep : 0;
  return page & ~(uint64_t)(core->layout.extent_pages - 1);
}

/* Gives up to n of the log's frames to the pool. */
static uint32_t evict(struct core *core, struct epoch_slot *self, uint32_t n) {
  uint64_t numbers[LOG_CHOOSE_MAX];
  int expected =
      core->env->now_us(core->env) <=
      atomic_load_explicit(&core->expected_until_us, memory_order_relaxed);
  n = n < LOG_CHOOSE_MAX ? n : LOG_CHOOSE_MAX;
  n = log_choose(&core->log,
                 atomic_load(&core->txn_first_page) >> core->layout.extent_bits,
                 numbers, n);
  if (!expected) {
    log_evict(&core->log, numbers, n);
    return n;
  }
  /* One after the other: what is saved of one may take the frame of the one
  ** before. */
  for (uint32_t i = 0; i < n; i++) {
    cache_save_extent(core, self, numbers[i]);
    log_evict(&core->log, &numbers[i], 1);
  }
  return n;
}

/* Frames that the cache could do without: its records leave it at each Put, but
** its frames do not. */
static uint32_t cache_spare(const struct core *core) {
  const struct cache *cache = &core->cache;
  uint64_t frames = atomic_load(&cache->frame_count);
  uint64_t room = frames * cache->slots_per_frame;
  uint64_t used = atomic_load(&cache->used) + room / 8;
  return used < room ? (uint32_t)((room - used) / cache->slots_per_frame) : 0;
}

static int make_room(struct core *core, struct epoch_slot *self, int *did,
                     emb_err *err) {
  struct log *log = &core->log;
  uint32_t share = core->frames.count -
                   atomic_load(&core->cache.frame_count); /* the log's */
  uint64_t bits = core->layout.extent_bits;
  uint64_t mutable = (atomic_load(&log->tail) >> bits) -
                     (atomic_load(&log->read_only) >> bits);
  int rc = EMB_OK;
  judge_cache(core);
  if (atomic_load(&core->cache_useless) && !atomic_load(&core->cache.pinned) &&
      atomic_load(&core->cache.frame_count) > core_cache_min(core)) {
    *did |= cache_shrink(core, self);
  }
  if (mutable > share - share / 4) {
    *did = 1;
    rc = seal_and_flush(core, seal_target(core, share / 2), err);
  }
  uint32_t want = core_low_water(core);
  uint32_t hungry = atomic_exchange(&core->cache_hungry, 0);
  uint32_t resident = atomic_load(&log->resident), least = core_log_min(core);
  if (hungry && resident > least) {
    want += hungry < resident - least ? hungry : resident - least;
  }
  for (uint32_t spare = cache_spare(core);
       !rc && spare > 0 && frames_left(&core->frames) < want; spare--) {
    *did |= cache_shrink(core, self);
  }
  uint32_t left = frames_left(&core->frames);
  if (rc || left >= want) {
    return rc;
  }
  *did = 1;
  uint32_t n = want - left > share / 16 ? want - left : share / 16;
  uint32_t got = evict(core, self, n);
  if (!got) {
    rc = seal_and_flush(core, seal_target(core, share / 2), err);
    got = rc ? 0 : evict(core, self, n);
  }
  if (!got && !rc) {
    rc = seal_and_flush(core, atomic_load(&log->tail), err);
    got = rc ? 0 : evict(core, self, n);
  }
  if (!got && !rc && atomic_load(&log->resident) < core_log_min(core)) {
    got = (uint32_t)cache_shrink(core, self);
  }
  count_add(&core->counters.evictions, got);
  return rc;
}

/* Under the flush lock. */
static int grow_table(struct core *core, emb_err *err) {
  int rc = log_table_full(&core->log) ? log_grow_table(&core->log) : EMB_OK;
  if (rc == EMB_FULL) {
    return err_set(err, rc, "%s/log: its oldest extent cannot be given back",
                   core->dir);
  }
  return rc ? err_set(err, rc, "out of memory") : EMB_OK;
}

int core_make_room(struct core *core, struct epoch_slot *self, int *did,
                   emb_err *err) {
  pthread_mutex_lock(&core->flush_lock);
  int rc = grow_table(core, err);
  if (rc == EMB_OK) {
    rc = make_room(core, self, did, err);
  }
  index_reclaim(&core->index);
  pthread_mutex_unlock(&core->flush_lock);
  tell_room(core);
  return rc;
}

int core_flush_all(struct core *core, int sync, uint64_t *upto, emb_err *err) {
  pthread_mutex_lock(&core->flush_lock);
  uint64_t page = atomic_load(&core->log.tail);
  int rc = seal_and_flush(core, page, err);
  if (upto) {
    *upto = page;
  }
  if (rc == EMB_OK && sync &&
      (atomic_load(&core->log.moved) ||
       atomic_load(&core->log.synced) < atomic_load(&core->log.flushed))) {
    rc = log_sync(&core->log, err);
    count_add(&core->counters.syncs, 1);
  }
  pthread_mutex_unlock(&core->flush_lock);
  if (rc) {
    tell_room(core);
  }
  return rc;
}

int core_flush_below(struct core *core, uint64_t page, emb_err *err) {
  struct log *log = &core->log;
  int rc = EMB_OK;
  while (!rc && atomic_load(&log->flushed) < page) {
    uint64_t wrote;
    pthread_mutex_lock(&core->flush_lock);
    rc = log_flush_piece(log, &core->flush_queue, page, &wrote, err);
    pthread_mutex_unlock(&core->flush_lock);
    count_add(&core->counters.write_bytes, wrote);
    tell_room(core);
  }
  rc = rc ? rc : core_failed(core, err);
  if (!rc && (atomic_load(&log->moved) || atomic_load(&log->synced) < page)) {
    rc = log_sync(log, err); /* the flush goes on meanwhile */
    count_add(&core->counters.syncs, 1);
  }
  return rc;
}

/* Somebody could start an extent now. */
static int has_room(struct core *core) {
  return frames_left(&core->frames) > 0 && !log_table_full(&core->log);
}

/* A table that cannot grow is the caller's error: to wait would be for ever. */
static int make_table_room(struct core *core, emb_err *err) {
  int rc = EMB_OK;
  if (log_table_full(&core->log)) {
    pthread_mutex_lock(&core->flush_lock);
    rc = grow_table(core, err);
    pthread_mutex_unlock(&core->flush_lock);
  }
  return rc;
}

int core_wait_room(struct core *core, int (*ask)(void *), void *arg,
                   emb_err *err) {
  count_add(&core->counters.waits_room, 1);
  while (!has_room(core)) {
    int rc = core_failed(core, err);
    if (rc) {
      return rc;
    }
    if (ask && ask(arg)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    rc = make_table_room(core, err);
    if (rc) {
      return rc;
    }
    if (core->step_mode) {
      int more;
      rc = core->step(core, &more, err);
      if (rc) {
        int failed = core_failed(core, err);
        return failed ? failed : rc;
      }
      continue;
    }
    core_wake(core);
    pthread_mutex_lock(&core->wake_lock);
    if (!has_room(core)) {
      core_wait_ms(core, &core->room, &core->wake_lock, 20);
    }
    pthread_mutex_unlock(&core->wake_lock);
  }
  return EMB_OK;
}

void core_wait_frame(struct core *core) {
  if (core->step_mode) {
    int more;
    core->step(core, &more, NULL);
    return;
  }
  core_wake(core);
  pthread_mutex_lock(&core->wake_lock);
  if (frames_left(&core->frames) <= core_low_water(core)) {
    core_wait_ms(core, &core->room, &core->wake_lock, 20);
  }
  pthread_mutex_unlock(&core->wake_lock);
}
