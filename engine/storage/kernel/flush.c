/* SPDX-License-Identifier: MIT
**
** flush.c -- keeps frames free, and makes writes durable on demand.
**
** The log may use all frames that the cache does not have.  When fewer frames
** than the low-water mark are free, the log's oldest extents are paged out.
** Before that they are sealed and written, in batches of half of the log's
** frames, so that one epoch_wait and one large sequential write serve many
** pages.  The cache gets frames from the log while the log has more than its
** minimum.  It gives them back when the log has less, when the cache is
** useless (judge_cache), and when an eighth of its slots and a frame are free
** because their keys were put.
**
** After the budget was lowered (frames.h) both give up frames in proportion to
** what they have, a piece at a time, and free frames beyond the low-water mark
** leave the pool.
*/
#include <string.h>

#include "engine/base/seed.h"
#include "engine/emb.h"
#include "core.h"
#include "reserve.h"

/* Frames by which the store shrinks at a time after its budget was lowered: a
** few milliseconds' worth of writing. */
#define PIECE 32

int core_failed(struct core *core, emb_err *err) {
  int failed = atomic_load(&core->log.failed);
  return failed ? err_set(err, failed == EMB_FULL ? EMB_FULL : EMB_FAILED,
                          "%s: %s", core->dir, core->log.why)
                : EMB_OK;
}

/* Judges the cache since it was last filled: with fewer than one hit per
** sixteen records that came in, it does more harm than good. */
static void judge_cache(struct core *core) {
  struct cache *cache = &core->cache;
  uint64_t room =
      (uint64_t)atomic_load(&cache->frame_count) * cache->slots_per_frame;
  uint64_t promoted = atomic_load_explicit(&core->counters.cache_admitted,
                                           memory_order_relaxed);
  uint64_t hits =
      atomic_load_explicit(&core->counters.get_cache, memory_order_relaxed);
  if (room && promoted - core->judged_promoted >= room) {
    uint32_t useless =
        (hits - core->judged_hits) * 16 < promoted - core->judged_promoted;
    atomic_store_explicit(&core->cache_useless, useless, memory_order_relaxed);
    core->judged_hits = hits;
    core->judged_promoted = promoted;
  }
}

void core_judge_anew(struct core *core) {
  atomic_store_explicit(&core->cache_useless, 0, memory_order_relaxed);
  core->judged_hits =
      atomic_load_explicit(&core->counters.get_cache, memory_order_relaxed);
  core->judged_promoted = atomic_load_explicit(&core->counters.cache_admitted,
                                               memory_order_relaxed);
}

void core_wait_ms(struct core *core, pthread_cond_t *cond,
                  pthread_mutex_t *lock, uint64_t ms) {
  emb_assert(epoch_outside()); /* E1 */
  core->env->wait_us(core->env, cond, lock, ms * 1000);
}

int core_stopping(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  int stopping = core->stopping;
  pthread_mutex_unlock(&core->wake_lock);
  return stopping;
}

void core_wake(struct core *core) { background_wake(&core->flush); }

/* Frames that the log may use. */
static uint32_t log_share(const struct core *core) {
  return frames_made(&core->frames) -
         atomic_load_explicit(&core->cache.frame_count, memory_order_relaxed);
}

/* Is so much of the log mutable that half of it must be sealed and written? */
static int seal_is_due(const struct core *core, uint32_t share) {
  uint64_t bits = core->layout.extent_bits;
  uint64_t mutable = (atomic_load(&core->log.tail) >> bits) -
                     (atomic_load(&core->log.read_only) >> bits);
  return mutable > share - share / 4;
}

int core_is_behind(const struct core *core) {
  return frames_left(&core->frames) < core_low_water(core) ||
         seal_is_due(core, log_share(core));
}

void core_rouse(struct core *core) {
  atomic_store(&core->resting, 0);
  background_wake(&core->flush);
  background_wake(&core->work);
}

void core_signal_release(struct core *core, struct released *released) {
  pthread_mutex_lock(&core->wake_lock);
  for (struct release_waiter *w = core->waiting; w; w = w->next) {
    int has = !released || released_has(released, w->hash);
    if (!w->is_woken && has != EMB_SEED(SEED_RELEASE_WAKES_OTHERS)) {
      w->is_woken = 1;
      pthread_cond_signal(&w->woken);
    }
  }
  pthread_mutex_unlock(&core->wake_lock);
  if (released) {
    memset(released, 0, sizeof *released);
  }
}

void core_signal_room(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  pthread_cond_broadcast(&core->room);
  pthread_mutex_unlock(&core->wake_lock);
}

/* Sets the error text for the result of a log write: it found no space, and may
** be retried; or the log failed in the meantime. */
static int say_why(struct core *core, int rc, emb_err *err) {
  if (rc == EMB_FAILED) {
    return core_failed(core, err);
  }
  return rc == EMB_FULL && !atomic_load(&core->log.failed)
             ? err_set(err, rc,
                       "cannot write %s/log: the disk is full; free disk "
                       "space, then continue",
                       core->dir)
             : rc;
}

/* Writes all sealed pages, or with `upto` one piece below it.  If disk access
** cannot be started nothing is lost: the write is retried. */
static int write_sealed(struct core *core, uint64_t upto, uint64_t *wrote,
                        emb_err *err) {
  struct process_queue q;
  *wrote = 0;
  int os = process_queue_take(core->process, core->queue_kind, FLUSH_DEPTH, &q);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot start disk access to %s/log",
                  core->dir);
  }
  int rc = upto ? log_flush_piece(&core->log, &q.queue, upto, wrote, err)
                : log_flush(&core->log, &q.queue, wrote, err);
  process_queue_give(core->process, &q);
  return rc;
}

static int seal_and_flush(struct core *core, uint64_t page, emb_err *err) {
  uint64_t wrote = 0;
  log_seal(&core->log, page);
  int rc = core_failed(core, err);
  rc = rc ? rc : write_sealed(core, 0, &wrote, err);
  count_add(&core->counters.write_bytes, wrote);
  count_add(&core->counters.flushes, 1);
  return say_why(core, rc, err);
}

/* Marks differ only by position, and every change of a row takes slots, except
** the commit of a transaction that has all its pages.  If such a transaction is
** open, the page above the mark stays empty, so that marks after its commit are
** higher.  If that page is still the last one, nothing was written since. */
static int mark_once(struct core *core, struct core_marking *m) {
  struct log *log = &core->log;
  int rc = EMB_OK;
  pthread_mutex_lock(&core->flush_lock);
  pthread_mutex_lock(m->settle);
  uint64_t mark = EMB_SEED(SEED_SNAPSHOT_LOG_NOT_SEALED)
                      ? atomic_load(&log->tail)
                      : log_seal(log, UINT64_MAX);
  m->below = mark;
  if (core->txn_whole && mark == core->txn_skipped + 1) {
    mark = core->txn_skipped;
  } else if (core->txn_whole && !EMB_SEED(SEED_TWO_MARKS_WITH_ONE_END)) {
    uint64_t skipped;
    rc = log_skip_page(log, &skipped);
    core->txn_skipped = !rc && skipped == mark ? skipped : 0;
    m->below = rc ? mark : log_seal(log, UINT64_MAX);
  }
  if (rc == EMB_OK) {
    m->then(m->arg, mark);
  }
  pthread_mutex_unlock(m->settle);
  pthread_mutex_unlock(&core->flush_lock);
  return rc;
}

int core_mark(struct core *core, struct core_marking *m, emb_err *err) {
  int rc = mark_once(core, m);
  while (rc == LOG_ROOM) {
    rc = core_make_kept_room(core, m->slot, err);
    rc = rc ? rc : mark_once(core, m);
  }
  return rc == EMB_FULL && !err->code
             ? err_set(err, rc, "%s/log has no address left", core->dir)
             : rc;
}

/* Returns the page below which to seal so that `extents` stay mutable. */
static uint64_t seal_target(struct core *core, uint64_t extents) {
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t keep = extents << core->layout.extent_bits;
  uint64_t page = tail > keep ? tail - keep : 0;
  return page & ~(uint64_t)(core->layout.extent_pages - 1);
}

/* Returns up to n of the log's frames to the pool. */
static uint32_t flush_page_out(struct core *core, struct epoch_slot *self,
                               uint32_t n) {
  uint64_t numbers[LOG_CHOOSE_MAX];
  int expected =
      core->env->now_us(core->env) <=
      atomic_load_explicit(&core->expected_until_us, memory_order_relaxed);
  n = n < LOG_CHOOSE_MAX ? n : LOG_CHOOSE_MAX;
  n = log_choose(&core->log,
                 atomic_load(&core->txn_first_page) >> core->layout.extent_bits,
                 numbers, n);
  if (!expected) {
    log_page_out(&core->log, numbers, n);
    return n;
  }
  /* One at a time: the records saved from one extent may take the frame of the
  ** previous one. */
  for (uint32_t i = 0; i < n; i++) {
    promote__extent(core, self, numbers[i]);
    log_page_out(&core->log, &numbers[i], 1);
  }
  return n;
}

/* Returns the number of frames that the cache could do without: a Put removes
** its record from the cache, but frees no frame. */
static uint32_t cache_spare(const struct core *core) {
  const struct cache *cache = &core->cache;
  uint64_t frames = atomic_load(&cache->frame_count);
  uint64_t room = frames * cache->slots_per_frame;
  uint64_t used = atomic_load(&cache->used) + room / 8;
  return used < room ? (uint32_t)((room - used) / cache->slots_per_frame) : 0;
}

/* Returns the cache's share of the next piece that leaves the pool. */
static uint32_t cache_piece(const struct core *core, uint32_t piece) {
  uint64_t frames = atomic_load(&core->cache.frame_count);
  return atomic_load(&core->log.resident) <= core__log_min(core)
             ? piece
             : (uint32_t)(piece * frames / frames_made(&core->frames));
}

static int flush_make_room(struct core *core, struct epoch_slot *self, int *did,
                           emb_err *err) {
  struct log *log = &core->log;
  uint32_t excess = frames_excess(&core->frames);
  uint32_t piece = excess < PIECE ? excess : PIECE;
  for (uint32_t n = cache_piece(core, piece); n > 0; n--) {
    *did |= promote__shrink(core, self);
  }
  uint32_t share = log_share(core);
  int rc = EMB_OK;
  judge_cache(core);
  if (atomic_load(&core->cache_useless) && !atomic_load(&core->cache.pinned) &&
      atomic_load(&core->cache.frame_count) > core__cache_min(core)) {
    *did |= promote__shrink(core, self);
  }
  if (seal_is_due(core, share)) {
    *did = 1;
    rc = seal_and_flush(core, seal_target(core, share / 2), err);
  }
  uint32_t want = core_low_water(core) + piece;
  uint32_t hungry = excess ? 0 : atomic_exchange(&core->cache_hungry, 0);
  uint32_t resident = atomic_load(&log->resident), least = core__log_min(core);
  int quiet = atomic_load(&log->tail) == core->hungry_tail;
  if (hungry && resident > least) {
    want += hungry < resident - least ? hungry : resident - least;
  } else if (hungry && quiet) {
    *did |= flush_page_out(core, self, hungry + resident / 4) != 0;
  }
  core->hungry_tail = hungry ? atomic_load(&log->tail) : core->hungry_tail;
  for (uint32_t spare = cache_spare(core);
       !rc && spare > 0 && frames_left(&core->frames) < want; spare--) {
    *did |= promote__shrink(core, self);
  }
  uint32_t left = frames_left(&core->frames);
  if (rc || left >= want) {
    return rc;
  }
  *did = 1;
  uint32_t n = want - left > share / 16 ? want - left : share / 16;
  uint32_t got = flush_page_out(core, self, n);
  if (!got) {
    rc = seal_and_flush(core, seal_target(core, share / 2), err);
    got = rc ? 0 : flush_page_out(core, self, n);
  }
  if (!got && !rc) {
    rc = seal_and_flush(core, atomic_load(&log->tail), err);
    got = rc ? 0 : flush_page_out(core, self, n);
  }
  if (!got && !rc && atomic_load(&log->resident) < core__log_min(core)) {
    got = (uint32_t)promote__shrink(core, self);
  }
  count_add(&core->counters.evictions, got);
  return rc;
}

/* Under the flush lock. */
static int grow_table(struct core *core, emb_err *err) {
  int rc = log_table_full(&core->log) ? log_grow_table(&core->log) : EMB_OK;
  if (rc == EMB_FULL) {
    return err_set(err, rc,
                   "%s/log spans %llu extents, and the oldest cannot be freed",
                   core->dir, (unsigned long long)LOG_SPAN_MAX);
  }
  return rc ? err_set(err, rc, "out of memory") : EMB_OK;
}

int core_make_room(struct core *core, struct epoch_slot *self, int *did,
                   emb_err *err) {
  pthread_mutex_lock(&core->flush_lock);
  int rc = grow_table(core, err);
  if (rc == EMB_OK) {
    rc = flush_make_room(core, self, did, err);
  }
  if (frames_excess(&core->frames) &&
      frames_retire(&core->frames, core_low_water(core), 2 * PIECE)) {
    *did = 1;
  }
  index_reclaim(&core->index);
  pthread_mutex_unlock(&core->flush_lock);
  core_signal_room(core);
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
    core_signal_room(core);
  }
  return rc;
}

int core_flush_below(struct core *core, uint64_t page, emb_err *err) {
  struct log *log = &core->log;
  int rc = EMB_OK;
  while (!rc && atomic_load(&log->flushed) < page) {
    uint64_t wrote;
    pthread_mutex_lock(&core->flush_lock);
    rc = write_sealed(core, page, &wrote, err);
    pthread_mutex_unlock(&core->flush_lock);
    count_add(&core->counters.write_bytes, wrote);
    rc = say_why(core, rc, err);
    core_signal_room(core);
  }
  rc = rc ? rc : core_failed(core, err);
  if (!rc && (atomic_load(&log->moved) || atomic_load(&log->synced) < page)) {
    rc = log_sync(log, err); /* flushing continues during it */
    count_add(&core->counters.syncs, 1);
  }
  return rc;
}

int core_make_kept_room(struct core *core, struct epoch_slot *self,
                        emb_err *err) {
  int did;
  int rc = core_make_room(core, self, &did, err);
  return rc || log_has_file_slot(&core->log, 1)
             ? rc
             : reserve_file_slots(core, 1, err);
}

/* Could an extent begin now? */
static int flush_has_room(struct core *core) {
  return frames_left(&core->frames) > 0 && !log_table_full(&core->log);
}

/* A table that cannot grow is returned as an error: a wait would never end. */
static int make_table_room(struct core *core, emb_err *err) {
  int rc = EMB_OK;
  if (log_table_full(&core->log)) {
    pthread_mutex_lock(&core->flush_lock);
    rc = grow_table(core, err);
    pthread_mutex_unlock(&core->flush_lock);
  }
  return rc;
}

struct flush_waiting {
  struct core *core;
  int kept;
  int (*interrupt)(void *);
  void *arg;
  uint32_t refused; /* log.refused when the wait began */
};

/* Gets a file slot ready; frees dead space before it reports an error. */
static int wait_file_slot(const struct flush_waiting *w, emb_err *err) {
  struct core *core = w->core;
  if (log_has_file_slot(&core->log, w->kept)) {
    return EMB_OK;
  }
  int rc = reserve_file_slots(core, w->kept, err);
  if (rc == EMB_FULL && core->relieve) {
    core->relieve(core, w->interrupt, w->arg);
    err_clear(err);
    rc = reserve_file_slots(core, w->kept, err);
  }
  return rc;
}

/* Returns an error if waiting for a frame would be pointless. */
static int check_wait(const struct flush_waiting *w, emb_err *err) {
  struct core *core = w->core;
  int rc = core_failed(core, err);
  if (rc) {
    return rc;
  }
  if (w->interrupt && w->interrupt(w->arg)) {
    return err_set(err, EMB_INTERRUPT, "interrupted");
  }
  if (atomic_load_explicit(&core->log.refused, memory_order_relaxed) !=
      w->refused) {
    return say_why(core, EMB_FULL, err);
  }
  return make_table_room(core, err);
}

static int wait_frame(const struct flush_waiting *w, emb_err *err) {
  struct core *core = w->core;
  emb_assert(epoch_outside()); /* E1 */
  count_add(&core->counters.waits_room, !flush_has_room(core));
  while (!flush_has_room(core)) {
    int rc = check_wait(w, err);
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
    if (!flush_has_room(core)) {
      core_wait_ms(core, &core->room, &core->wake_lock, 20);
    }
    pthread_mutex_unlock(&core->wake_lock);
  }
  return EMB_OK;
}

int core_wait_room(struct core *core, int kept, int (*interrupt)(void *),
                   void *arg, emb_err *err) {
  struct flush_waiting w = {
      core, kept, interrupt, arg,
      atomic_load_explicit(&core->log.refused, memory_order_relaxed)};
  int rc = core_failed(core, err);
  rc = rc ? rc : wait_file_slot(&w, err);
  return rc ? rc : wait_frame(&w, err);
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
