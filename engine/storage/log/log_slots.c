/* SPDX-License-Identifier: MIT
**
** log_slots.c -- where extents are in the file: file slots in use, free or
** ready; moving an extent to a lower one; shortening the file.  See log.h.
*/
#include "log.h"

#include <errno.h>
#include <string.h>

int log__slot_room(struct log *log, uint32_t phys) {
  uint32_t words = phys / 64 + 1;
  if (words <= log->phys_words) {
    return EMB_OK;
  }
  words = words * 2 + 16;
  void *larger =
      log->env->resize(log->env, log->phys_used, words * sizeof(uint64_t));
  if (!larger) {
    return EMB_NOMEM;
  }
  log->phys_used = larger;
  memset(log->phys_used + log->phys_words, 0,
         (words - log->phys_words) * sizeof(uint64_t));
  log->phys_words = words;
  return EMB_OK;
}

/* ---- file slots ---------------------------------------------------------- */

void log__slot_set(struct log *log, uint32_t phys, int used) {
  uint64_t bit = UINT64_C(1) << (phys % 64);
  if (used) {
    log->phys_used[phys / 64] |= bit;
  } else {
    log->phys_used[phys / 64] &= ~bit;
    if (phys < log->phys_hint) {
      log->phys_hint = phys;
    }
  }
}

int log__numbers_full(const struct log *log) {
  uint64_t next = atomic_load(&log->tail) >> log->layout->extent_bits;
  return next + 2 - log->first > log->table_mask;
}

int log__is_full(const struct log *log) {
  return log__numbers_full(log) || log->phys_end / 64 >= log->phys_words;
}

/* Takes the lowest free file slot from `from` on, to keep the file short.
** There must be room to record it (log__is_full). */
static uint32_t phys_take(struct log *log, uint32_t from) {
  uint32_t at = log->phys_end, least = log->phys_hint;
  int is_lowest = from <= least && !log->withheld;
  least = from > least ? from : least;
  if (log->phys_free && !log->withheld) {
    uint64_t skipped = (UINT64_C(1) << (least % 64)) - 1;
    for (uint32_t word = least / 64; word < log->phys_words; word++) {
      uint64_t used = log->phys_used[word] | skipped;
      if (~used) {
        at = word * 64 + (uint32_t)__builtin_ctzll(~used);
        break;
      }
      skipped = 0;
    }
  }
  if (at >= log->phys_end) {
    log->phys_free += at - log->phys_end;
    log->phys_end = at + 1;
  } else {
    log->phys_free--;
  }
  log->phys_hint = is_lowest ? at : log->phys_hint;
  emb_assert(at / 64 < log->phys_words &&
             !(log->phys_used[at / 64] >> (at % 64) & 1));
  log__slot_set(log, at, 1);
  return at;
}

/* ---- file slots that are ready ------------------------------------------- */

static int is_free(const struct log *log, uint32_t phys) {
  return phys >= log->phys_end ||
         !(log->phys_used[phys / 64] >> (phys % 64) & 1);
}

static uint64_t offset_of(const struct log *log, uint32_t phys) {
  return LOG_FILE_HEAD + (uint64_t)phys * log->layout->extent_bytes;
}

static void phys_give(struct log *log, uint32_t phys) {
  emb_assert(!is_free(log, phys)); /* freed once */
  log__slot_set(log, phys, 0);
  log->phys_free++;
}

int log_has_file_slot(struct log *log, int kept) {
  pthread_mutex_lock(&log->lock);
  int has = log->ready_count > (kept ? 0 : log->keep);
  pthread_mutex_unlock(&log->lock);
  return has;
}

uint32_t log__slot_take(struct log *log) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < log->ready_count; i++) {
    best = log->ready[i] < log->ready[best] ? i : best;
  }
  uint32_t phys = log->ready[best];
  log->ready[best] = log->ready[--log->ready_count];
  emb_assert(!is_free(log, phys));
  return phys;
}

static void set_keep(struct log *log) {
  uint64_t n = log_extents_used(log) / 16;
  n = n < log->keep_min ? log->keep_min : n;
  log->keep =
      log->keep_min ? (uint32_t)(n < LOG_KEEP_MAX ? n : LOG_KEEP_MAX) : 0;
}

/* Takes the lowest free file slot from `from` on and the free slots right after
** it, at most `most` in all; *n: number taken. */
static uint32_t take_row(struct log *log, uint32_t from, uint32_t most,
                         uint32_t *n) {
  uint32_t first = phys_take(log, from);
  for (*n = 1; *n < most && is_free(log, first + *n); ++*n) {
    (void)phys_take(log, first + *n);
  }
  return first;
}

/* Allocates blocks for some of the file slots [first, first + n), which are
** taken, and frees the others. */
static int ready_row(struct log *log, uint32_t first, uint32_t n) {
  const uint64_t bytes = log->layout->extent_bytes;
  uint32_t got = n;
  int os = 0;
  for (;;) {
    os = log->env->reserve(log->env, log->file, offset_of(log, first),
                           got * bytes);
    if (!os || got == 1) {
      break;
    }
    got /= 2;
  }
  got = os ? 0 : got;
  pthread_mutex_lock(&log->lock);
  for (uint32_t i = 0; i < n; i++) {
    if (i < got) {
      log->ready[log->ready_count++] = first + i;
    } else {
      phys_give(log, first + i);
    }
  }
  pthread_mutex_unlock(&log->lock);
  return os;
}

/* Some free file slots still have their blocks and some do not (log_yield, or a
** hole): on a full disk the former will do, wherever they are. */
int log_make_ready(struct log *log, uint32_t more) {
  uint32_t n = 1, from = 0;
  int os = 0, missed = 0;
  while (n && (!os || missed)) {
    uint32_t first = 0;
    n = 0;
    pthread_mutex_lock(&log->lock);
    set_keep(log);
    uint32_t want = log->keep + more;
    want = want < LOG_READY_MAX ? want : LOG_READY_MAX;
    if (log->ready_count < want) {
      want -= log->ready_count;
      os = log__slot_room(log, log->phys_end + want) ? ENOMEM : 0;
      first = os ? 0 : take_row(log, from, want, &n);
      missed =
          first + n < log->phys_end && !EMB_SEED(SEED_SLOTS_WITH_BLOCKS_MISSED);
    } else {
      os = 0;
    }
    pthread_mutex_unlock(&log->lock);
    if (n) {
      os = ready_row(log, first, n);
      missed = missed && err_is_full(os);
      from = os ? first + 1 : from;
    }
  }
  atomic_store_explicit(&log->full, os != 0, memory_order_relaxed);
  return os;
}

void log_yield(struct log *log) {
  pthread_mutex_lock(&log->file_slot_lock);
  pthread_mutex_lock(&log->lock);
  uint32_t n = log->ready_count, phys = n ? log->ready[n - 1] : 0;
  log->ready_count -= n != 0;
  pthread_mutex_unlock(&log->lock);
  if (n) {
    (void)log->env->punch(log->env, log->file, offset_of(log, phys),
                          log->layout->extent_bytes);
    pthread_mutex_lock(&log->lock);
    phys_give(log, phys);
    pthread_mutex_unlock(&log->lock);
  }
  pthread_mutex_unlock(&log->file_slot_lock);
}

/* ---- moving an extent within the file ------------------------------------ */

static uint32_t phys_of(const struct log *log, uint64_t offset) {
  return (uint32_t)((offset - LOG_FILE_HEAD) / log->layout->extent_bytes);
}

int log_reserve_lower(struct log *log, uint64_t number, uint64_t *from,
                      uint64_t *to) {
  int found = 0;
  pthread_mutex_lock(&log->lock);
  uint32_t old = extent_phys(log_extent(log, number));
  /* No number is needed: a log without a number for a further extent may be one
  ** that is no longer written to. */
  if (old != EXTENT_NOWHERE && log->phys_free && !log->withheld) {
    uint32_t lower = phys_take(log, 0);
    if (lower < old) {
      *from = offset_of(log, old);
      *to = offset_of(log, lower);
      found = 1;
    } else {
      phys_give(log, lower);
    }
  }
  pthread_mutex_unlock(&log->lock);
  return found;
}

int log_move(struct log *log, uint64_t number, uint64_t to) {
  int rc = EMB_OK;
  pthread_mutex_lock(&log->lock);
  if (log->left_count == log->left_room) {
    uint32_t room = log->left_room ? log->left_room * 2 : 64;
    void *larger =
        log->env->resize(log->env, log->left, room * sizeof *log->left);
    if (larger) {
      log->left = larger;
      log->left_room = room;
    } else {
      rc = EMB_NOMEM;
    }
  }
  if (rc == EMB_OK) {
    struct extent *extent = log_extent(log, number);
    log->left[log->left_count++] = (struct log_left){extent_phys(extent), 0};
    extent_replace(extent, phys_of(log, to));
    atomic_store(&log->moved, 1);
  } else {
    phys_give(log, phys_of(log, to));
  }
  pthread_mutex_unlock(&log->lock);
  return rc;
}

void log_cancel_move(struct log *log, uint64_t to) {
  pthread_mutex_lock(&log->lock);
  phys_give(log, phys_of(log, to));
  pthread_mutex_unlock(&log->lock);
}

uint64_t log_free_left(struct log *log, uint64_t generation, uint64_t needed) {
  uint32_t left = 0;
  pthread_mutex_lock(&log->lock);
  uint32_t had = log->left_count;
  for (uint32_t i = 0; i < had; i++) {
    struct log_left left_slot = log->left[i];
    left_slot.gone = left_slot.gone ? left_slot.gone : generation;
    if (left_slot.gone && left_slot.gone <= needed) {
      phys_give(log, left_slot.phys);
    } else {
      log->left[left++] = left_slot;
    }
  }
  log->left_count = left;
  pthread_mutex_unlock(&log->lock);
  return had - left;
}

void log_withhold(struct log *log, int on) {
  uint64_t bytes = 0;
  uint64_t extent = log->layout->extent_bytes;
  pthread_mutex_lock(&log->lock);
  if (on && log->env->size(log->env, log->file, &bytes) == 0 &&
      bytes > LOG_FILE_HEAD) {
    uint64_t slots = (bytes - LOG_FILE_HEAD + extent - 1) / extent;
    /* If this runs out of memory, the file slots behind the last one in use are
    ** not withheld, and a reader may find them overwritten. */
    if (slots > log->phys_end && slots < EXTENT_NOWHERE &&
        log__slot_room(log, (uint32_t)slots) == EMB_OK) {
      log->phys_free += (uint32_t)slots - log->phys_end;
      log->phys_end = (uint32_t)slots;
    }
  }
  log->withheld = on;
  pthread_mutex_unlock(&log->lock);
}

uint64_t log_offset(const struct log *log, uint64_t page) {
  const struct layout *l = log->layout;
  uint32_t phys = extent_phys(log_extent(log, page >> l->extent_bits));
  if (phys == EXTENT_NOWHERE) {
    return UINT64_MAX;
  }
  return offset_of(log, phys) + layout_page_offset(l, page);
}

uint64_t log_extents_used(const struct log *log) {
  return log->phys_end - log->phys_free - log->ready_count;
}

/* ---- shrinking the file -------------------------------------------------- */

/* Frees the ready file slots, and takes the lowest ones to keep instead;
** *fresh: the number of those, at the end of `ready`, that have no blocks yet.
** Returns the file slot after the last one in use. */
static uint32_t settle_ready(struct log *log, uint32_t *fresh) {
  uint32_t had[LOG_READY_MAX], n = log->ready_count, taken = 0;
  *fresh = 0;
  memcpy(had, log->ready, sizeof had);
  for (uint32_t i = 0; i < n; i++) {
    phys_give(log, had[i]);
  }
  log->ready_count = 0;
  while (log->phys_end > 0 && is_free(log, log->phys_end - 1)) {
    log->phys_end--;
    log->phys_free--;
  }
  set_keep(log);
  if (log__slot_room(log, log->phys_end + log->keep)) {
    return log->phys_end;
  }
  for (; taken < log->keep; taken++) {
    uint32_t phys = phys_take(log, 0), i = 0;
    while (i < n && had[i] != phys) {
      i++;
    }
    if (i < n) {
      log->ready[log->ready_count++] = phys;
    } else {
      ++*fresh;
      log->ready[LOG_READY_MAX - *fresh] = phys;
    }
  }
  return log->phys_end;
}

/* Truncates the file after file slot `end`; the file is not written to during
** the call. */
static int log_cut_file(struct log *log, uint32_t end) {
  uint64_t bytes, want = offset_of(log, end);
  int os = log->env->size(log->env, log->file, &bytes);
  return os || bytes <= want ? os
                             : log->env->truncate(log->env, log->file, want);
}

static int punch_free(struct log *log, uint32_t end) {
  int os = 0;
  for (uint32_t i = 0; !os && i < end; i++) {
    pthread_mutex_lock(&log->lock);
    int free = is_free(log, i); /* and stays free: nothing becomes ready */
    pthread_mutex_unlock(&log->lock);
    if (free) {
      os = log->env->punch(log->env, log->file, offset_of(log, i),
                           log->layout->extent_bytes);
    }
  }
  return os;
}

int log_trim(struct log *log, int punch, emb_err *err) {
  uint32_t fresh[LOG_READY_MAX], n = 0;
  pthread_mutex_lock(&log->file_slot_lock);
  pthread_mutex_lock(&log->lock);
  if (log->withheld) {
    pthread_mutex_unlock(&log->lock);
    pthread_mutex_unlock(&log->file_slot_lock);
    return EMB_OK;
  }
  uint32_t end = settle_ready(log, &n);
  memcpy(fresh, log->ready + LOG_READY_MAX - n, n * sizeof *fresh);
  pthread_mutex_unlock(&log->lock);
  int os = log_cut_file(log, end);
  for (uint32_t i = 0; i < n; i++) {
    (void)ready_row(log, fresh[i], 1); /* the next one to need it retries */
  }
  os = os || !punch ? os : punch_free(log, end);
  pthread_mutex_unlock(&log->file_slot_lock);
  return os ? err_os(err, EMB_IOERR, os, "cannot shrink the log") : EMB_OK;
}
