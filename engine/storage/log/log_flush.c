/* SPDX-License-Identifier: MIT
**
** log_flush.c -- writes sealed pages to disk, reclaims their memory, and
** restores extents to memory.
**
** ROLE      Called under core's flush lock, outside any epoch.
** INVARIANT Only pages below `safe` are written, in order; `flushed` moves
**           when all requests up to it have completed; `synced` after that.
** FAILURE   See log.h: the first error is kept and ends all writing.  A sync
**           is never retried: after a failed fsync the kernel has marked the
**           pages clean.  A write that found no space may be retried: nothing
**           below `flushed` was touched, and the pages are unchanged.
*/
#include <stdio.h>
#include <string.h>

#include "log.h"

#define WRITES_IN_FLIGHT 8

void log_give_up(struct log *log, int rc, const char *why) {
  emb_assert(rc != EMB_OK);
  pthread_mutex_lock(&log->lock);
  if (!atomic_load(&log->failed)) {
    (void)snprintf(log->why, sizeof log->why, "%s", why);
    atomic_store(&log->failed, rc);
  }
  pthread_mutex_unlock(&log->lock);
}

int log_fail(struct log *log, emb_err *err, int os_error, const char *what) {
  emb_err first;
  char why[sizeof log->why];
  int rc = err_os(&first, EMB_IOERR, os_error, "cannot %s the log", what);
  (void)snprintf(why, sizeof why, "%.200s; no writes until reopened",
                 first.text);
  log_give_up(log, rc, why);
  return err_set(err, rc, "%s", first.text);
}

/* Prepares one request for the pages [from, to) of one extent. */
static void prepare_write(struct log *log, uint64_t from, uint64_t to,
                          struct env_io *io) {
  const struct layout *l = log->layout;
  char *start = log_page(log, from);
  for (uint64_t page = from; page < to; page++) {
    char *bytes = start + (page - from) * l->page_bytes;
    emb_assert(page_is_closed(l, bytes)); /* L2 */
    ((struct page_head *)(void *)bytes)->sum =
        page_sum(l, bytes, log->salt, page);
  }
  memset(io, 0, sizeof *io);
  io->file = log->file;
  io->buffer = start;
  io->offset = log_offset(log, from);
  io->bytes = (uint32_t)((to - from) * l->page_bytes);
  io->is_write = 1;
}

int log_flush_piece(struct log *log, struct env_queue **queue, uint64_t upto,
                    uint64_t *wrote, emb_err *err) {
  const struct layout *l = log->layout;
  emb_assert(epoch_outside());
  struct env_io ios[WRITES_IN_FLIGHT], *list[WRITES_IN_FLIGHT];
  size_t n = 0, done = 0;
  int failed = atomic_load(&log->failed);
  *wrote = 0;
  if (failed) {
    return err_set(err, EMB_FAILED, "%s", log->why);
  }
  uint64_t page = atomic_load(&log->flushed);
  upto = upto < log->safe ? upto : log->safe;
  while (page < upto && n < WRITES_IN_FLIGHT) {
    uint64_t end = (page | (l->extent_pages - 1)) + 1;
    end = end < upto ? end : upto;
    prepare_write(log, page, end, &ios[n]);
    list[n] = &ios[n];
    *wrote += ios[n].bytes;
    page = end;
    n++;
  }
  if (n == 0) {
    return EMB_OK;
  }
  int os = log->env->queue_submit(log->env, *queue, list, n), full = 0;
  while (!os && done < n) {
    struct env_io *ready[WRITES_IN_FLIGHT];
    size_t got = 0;
    os = log->env->queue_wait(log->env, *queue, 1, ready, WRITES_IN_FLIGHT,
                              &got);
    done += got;
    for (size_t i = 0; i < got; i++) {
      int result = EMB_SEED(SEED_LOG_WRITE_ERROR_LOST) ? 0 : ready[i]->result;
      full = err_is_full(result) ? result : full;
      os = os || err_is_full(result) ? os : result;
    }
  }
  if (!os && full) {
    atomic_fetch_add_explicit(&log->refused, 1, memory_order_relaxed);
    return err_os(err, EMB_IOERR, full, "cannot write the log");
  }
  if (os) {
    /* Other requests, on this stack, may still be in flight: closing the queue
    ** waits for them.  Nothing more is written through it. */
    log->env->queue_close(log->env, *queue);
    *queue = NULL;
    return log_fail(log, err, os, "write");
  }
  atomic_store_explicit(&log->flushed, page, memory_order_release);
  emb_check(log_valid(log));
  return EMB_OK;
}

int log_flush(struct log *log, struct env_queue **queue, uint64_t *wrote,
              emb_err *err) {
  int rc;
  uint64_t piece;
  *wrote = 0;
  do {
    rc = log_flush_piece(log, queue, UINT64_MAX, &piece, err);
    *wrote += piece;
  } while (!rc && atomic_load(&log->flushed) < log->safe);
  return rc;
}

int log_sync(struct log *log, emb_err *err) {
  uint64_t flushed = atomic_load(&log->flushed);
  emb_assert(epoch_outside());
  if (atomic_load(&log->failed) && !EMB_SEED(SEED_LOG_SYNC_RETRIED)) {
    return err_set(err, EMB_FAILED, "%s", log->why);
  }
  if (!log->no_sync && !EMB_SEED(SEED_LOG_NOT_SYNCED)) {
    int os = log->env->sync(log->env, log->file);
    if (os) {
      return log_fail(log, err, os, "sync");
    }
  }
  atomic_store(&log->moved, 0);
  atomic_store(&log->synced, flushed);
  return EMB_OK;
}

/* Returns the number of live records if the extent may be paged out, otherwise
** UINT32_MAX.  From extent `open` on, the records of an open transaction count
** as live. */
static uint32_t page_out_live(const struct log *log, uint64_t number,
                              uint64_t open) {
  const struct extent *extent = log_extent(log, number);
  if (number < log->first ||
      !atomic_load_explicit(&extent->frame, memory_order_relaxed)) {
    return UINT32_MAX;
  }
  if (open && number >= open) {
    return log->layout->slots * log->layout->extent_pages;
  }
  int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
  return live > 0 ? (uint32_t)live : 0;
}

uint32_t log_choose(struct log *log, uint64_t open, uint64_t *numbers,
                    uint32_t n) {
  enum { CLASSES = 32 };
  const struct layout *l = log->layout;
  uint64_t last = atomic_load(&log->flushed) >> l->extent_bits;
  uint32_t full = l->slots * l->extent_pages, chosen = 0;
  uint32_t count[CLASSES + 1] = {0}, limit = 0;
  while (log->page_out_next < last &&
         page_out_live(log, log->page_out_next, open) == UINT32_MAX) {
    log->page_out_next++;
  }
  for (uint64_t e = log->page_out_next; e < last; e++) {
    uint32_t live = page_out_live(log, e, open);
    if (live != UINT32_MAX) {
      count[(uint64_t)live * CLASSES / full]++;
    }
  }
  for (uint32_t sum = count[0]; sum < n && limit < CLASSES;) {
    sum += count[++limit];
  }
  for (uint64_t e = log->page_out_next; e < last && chosen < n; e++) {
    uint32_t live = page_out_live(log, e, open);
    if (live != UINT32_MAX && (uint64_t)live * CLASSES / full <= limit) {
      numbers[chosen++] = e;
    }
  }
  return chosen;
}

void log_page_out(struct log *log, const uint64_t *numbers, uint32_t n) {
  char *frames[LOG_CHOOSE_MAX];
  uint32_t taken = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct extent *extent = log_extent(log, numbers[i]);
    /* The extent is in the file, where readers that find no frame look. */
    emb_assert((numbers[i] + 1) << log->layout->extent_bits <=
               atomic_load(&log->flushed));
    char *frame = atomic_exchange(&extent->frame, NULL);
    if (frame) {
      uint32_t now = atomic_load(&log->paged_out) + 1;
      now += now == 0; /* 0 means never */
      atomic_store_explicit(&log->paged_out, now, memory_order_relaxed);
      atomic_store_explicit(&extent->left, now, memory_order_relaxed);
      frames[taken++] = frame;
    }
  }
  if (taken) {
    atomic_fetch_sub_explicit(&log->resident, taken, memory_order_relaxed);
    epoch_wait(log->epoch);
    for (uint32_t i = 0; i < taken; i++) {
      frames_give(log->frames, frames[i]);
    }
  }
}

/* Readers inside the epoch that saw no frame read the file, which has the same
** content.  The frame has no users left: it came from the pool. */
int log_restore(struct log *log, uint64_t number, char *frame) {
  int done = 0;
  pthread_mutex_lock(&log->lock);
  if (number >= log->first &&
      number < atomic_load(&log->flushed) >> log->layout->extent_bits) {
    struct extent *extent = log_extent(log, number);
    done = extent_phys(extent) != EXTENT_NOWHERE &&
           !atomic_load_explicit(&extent->frame, memory_order_relaxed);
    if (done) {
      atomic_store_explicit(&extent->frame, frame, memory_order_release);
      atomic_fetch_add_explicit(&log->resident, 1, memory_order_relaxed);
      log->page_out_next =
          number < log->page_out_next ? number : log->page_out_next;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return done;
}
