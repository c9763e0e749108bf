/* SPDX-License-Identifier: MIT
**
** log_valid.c -- are the log's positions, its table of extents and its file
** slots as log.h says?  Only in builds with self-checks (base/debug.h).
*/
#include "log.h"

#if EMB_DEBUG > 0

/* L1, and L2 for the open pages.  Under both locks. */
static void check_order(const struct log *log) {
  uint64_t tail = atomic_load(&log->tail);
  emb_assert(atomic_load(&log->synced) <= atomic_load(&log->flushed));
  emb_assert(atomic_load(&log->flushed) <= log->safe);
  emb_assert(log->safe <= atomic_load(&log->read_only));
  emb_assert(atomic_load(&log->read_only) <= tail);
  for (int i = 0; i < LOG_STREAMS; i++) {
    const struct log_open *open = &log->open[i];
    emb_assert(!open->page || (open->page >= atomic_load(&log->read_only) &&
                               open->page < tail));
    emb_assert(!open->page || log_page(log, open->page));
  }
  emb_assert(atomic_load(&log->last_tomb) < tail);
}

int log_valid(struct log *log) {
  pthread_mutex_lock(&log->lock);
  check_order(log);
  pthread_mutex_unlock(&log->lock);
  return 1;
}

static uint64_t places_used(const struct log *log) {
  uint64_t used = 0;
  for (uint32_t i = 0; i < log->phys_words; i++) {
    used += (uint64_t)__builtin_popcountll(log->phys_used[i]);
  }
  return used;
}

static int phys_is_used(const struct log *log, uint32_t phys) {
  return phys < log->phys_end &&
         (log->phys_used[phys / 64] >> (phys % 64) & 1) != 0;
}

/* Returns the number of extents with a file slot; *resident: those in
** memory. */
static uint64_t log_valid_check_extents(const struct log *log, uint64_t last,
                                        uint64_t *resident) {
  const struct layout *l = log->layout;
  uint64_t flushed = atomic_load(&log->flushed), placed = 0;
  for (uint64_t e = log->first; e <= last; e++) {
    const struct extent *extent = log_extent(log, e);
    uint32_t phys = extent_phys(extent);
    int in_memory = atomic_load(&extent->frame) != NULL;
    emb_assert(!in_memory || phys != EXTENT_NOWHERE); /* L5 */
    *resident += in_memory ? 1 : 0;
    if (phys == EXTENT_NOWHERE) {
      continue;
    }
    emb_assert(phys_is_used(log, phys));
    /* An extent that is not in the file yet is in memory. */
    emb_assert(in_memory || e << l->extent_bits < flushed ||
               e << l->extent_bits >= atomic_load(&log->tail));
    emb_assert(atomic_load(&extent->live) >= 0); /* L4 */
    placed++;
  }
  return placed;
}

int log_file_slots_valid(struct log *log) {
  uint64_t resident = 0;
  pthread_mutex_lock(&log->lock);
  check_order(log);
  uint64_t last = atomic_load(&log->tail) >> log->layout->extent_bits;
  emb_assert(log->first >= 1 && log->first <= last);
  emb_assert(last - log->first <= log->table_mask);
  uint64_t placed = log_valid_check_extents(log, last, &resident);
  /* An extent being paged out stays counted a little longer. */
  emb_assert(resident <= atomic_load(&log->resident));
  uint64_t used = places_used(log);
  emb_assert(used == log->phys_end - log->phys_free);
  /* Other slots are being made ready, or are the targets of moves.  No two
  ** extents share a file slot, or this would fail when there are no such
  ** slots. */
  emb_assert(placed + log->ready_count + log->left_count <= used);
  emb_assert(log->ready_count <= LOG_READY_MAX);
  for (uint32_t i = 0; i < log->ready_count; i++) {
    emb_assert(phys_is_used(log, log->ready[i]));
  }
  for (uint32_t i = 0; i < log->left_count; i++) {
    emb_assert(phys_is_used(log, log->left[i].phys));
  }
  pthread_mutex_unlock(&log->lock);
  return 1;
}

#endif
