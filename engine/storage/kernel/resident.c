/* SPDX-License-Identifier: MIT
**
** resident.c -- puts extents that were read back into memory.
**
** Called by all code that reads whole extents: the warm-up, searches, scans.
** An extent that they have read and checked takes a free frame, if there is one
** beyond those kept for the tail.  So nothing is paged out because of it, and
** the next search or scan finds the extent in memory.
**
** BLANK     The pages from core.log_end to core.blank_end were never written:
**           the log that was loaded ends there, within an extent.  The pages
**           are empty, and fail their checksum.  In memory such a page is all
**           zeros.  An owner that continues in that extent leaves no blank
**           pages (log_resume).
** ANOTHER   A process that is not the owner loads one checkpoint after the
** CHECKPOINT other.  The content of an extent never changes once the log's tail
**           is above it, and its number is never reused, wherever in the file
**           the extent is moved.  So the extents below the tail of the older
**           checkpoint stay in memory if the newer one has them.  The extent
**           that contains that tail does not stay: it has more pages now.
** THREADS   core_restore, core_keep: any, outside the epoch.  core_set_aside,
**           core_take_back: alone with the core, under the flush lock.
*/
#include <string.h>

#include "engine/base/hash.h"
#include "engine/storage/rec/page.h"
#include "core.h"

struct aside {
  uint64_t number;
  char *frame;
};

/* Are all pages valid, except blank ones? */
static int is_whole(const struct core *core, uint64_t number, uint64_t valid) {
  const struct layout *l = &core->layout;
  uint64_t first = number << l->extent_bits;
  for (uint32_t i = 0; i < l->extent_pages; i++) {
    if (!(valid >> i & 1) && !core_is_blank(core, first + i)) {
      return EMB_SEED(SEED_DAMAGED_EXTENT_WARMED);
    }
  }
  return 1;
}

/* Clears a page that was never written: the frame may hold arbitrary bytes
** there, and a damaged index may name them.  A page that is zero already is not
** written to, so that the system need not allocate memory for it. */
static void make_blank(char *page, uint32_t bytes) {
  const uint64_t *words = (const uint64_t *)(const void *)page;
  size_t n = bytes / sizeof *words, i = 0;
  while (i < n && !words[i]) {
    i++;
  }
  if (i < n) {
    memset(page, 0, bytes);
  }
}

/* Under the flush lock. */
static int restore_extent(struct core *core, uint64_t number, char *frame,
                          uint64_t valid) {
  const struct layout *l = &core->layout;
  if (!is_whole(core, number, valid)) {
    return 0;
  }
  for (uint32_t i = 0; i < l->extent_pages; i++) {
    char *page = frame + (size_t)i * l->page_bytes;
    if (!(valid >> i & 1)) {
      make_blank(page, l->page_bytes);
    }
    page_settle(l, page);
  }
  return log_restore(&core->log, number, frame);
}

int core_restore(struct core *core, uint64_t number, char *frame,
                 uint64_t valid) {
  emb_assert(epoch_outside());
  pthread_mutex_lock(&core->flush_lock);
  int done = restore_extent(core, number, frame, valid);
  pthread_mutex_unlock(&core->flush_lock);
  return done;
}

/* Number of frames not available for extents that were read. */
static uint32_t frames_kept(const struct core *core) {
  return core_low_water(core) + frames_excess(&core->frames);
}

int core_may_keep(const struct core *core) {
  return frames_left(&core->frames) > frames_kept(core);
}

/* Returns the number of live records in the page: those to which the index
** points. */
static uint32_t live_of_page(struct core *core, uint64_t page,
                             const char *bytes) {
  const struct layout *l = &core->layout;
  uint32_t live = 0, n = page_kind(bytes) == PAGE_DATA ? l->slots : 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct rec *rec =
        (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                           (size_t)i * l->rec_bytes);
    int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
    live += key_find_address(core, key, hash_key(key)) ==
            layout_address(l, page, i);
  }
  return live;
}

/* Does the extent have all its live records?  If the files are damaged, the
** index may point to something that is not a record, and in memory that would
** be taken for one. */
static int has_all_live(struct core *core, struct epoch_slot *slot,
                        uint64_t number, const char *bytes, uint64_t valid) {
  const struct layout *l = &core->layout;
  uint64_t live = 0;
  for (uint32_t i = 0; i < l->extent_pages; i++) {
    if (valid >> i & 1) {
      epoch_enter(&core->epoch, slot);
      live += live_of_page(core, (number << l->extent_bits) + i,
                           bytes + (size_t)i * l->page_bytes);
      epoch_leave(slot);
    }
  }
  pthread_mutex_lock(&core->log.lock);
  int32_t is = number < core->log.first
                   ? INT32_MAX
                   : atomic_load(&log_extent(&core->log, number)->live);
  pthread_mutex_unlock(&core->log.lock);
  return is >= 0 && live >= (uint64_t)is;
}

void core_keep(struct core *core, struct epoch_slot *slot, uint64_t number,
               const char *bytes, uint64_t valid) {
  emb_assert(epoch_outside());
  if (!core_may_keep(core) || !is_whole(core, number, valid) ||
      !has_all_live(core, slot, number, bytes, valid)) {
    return;
  }
  char *frame = frames_take(&core->frames, frames_kept(core));
  if (!frame) {
    return;
  }
  memcpy(frame, bytes, core->layout.extent_bytes);
  /* Not worth waiting for a flush in progress. */
  int done = 0;
  if (pthread_mutex_trylock(&core->flush_lock) == 0) {
    done = restore_extent(core, number, frame, valid);
    pthread_mutex_unlock(&core->flush_lock);
  }
  if (!done) {
    frames_give(&core->frames, frame);
  }
}

void core_set_aside(struct core *core, uint64_t tail, struct resident *r) {
  struct log *log = &core->log;
  uint32_t bits = core->layout.extent_bits;
  uint64_t end = atomic_load(&core->log_end);
  end = tail < end ? tail : end;
  end += EMB_SEED(SEED_HALF_EXTENT_KEPT) ? core->layout.extent_pages - 1 : 0;
  end >>= bits;
  *r = (struct resident){.n = 0};
  if (end > log->first) {
    r->extents = core->env->allocate(
        core->env, atomic_load(&log->resident) * sizeof *r->extents + 1);
  }
  for (uint64_t e = log->first; r->extents && e < end; e++) {
    struct extent *extent = log_extent(log, e);
    char *frame = atomic_load(&extent->frame);
    if (frame && r->n < atomic_load(&log->resident)) {
      r->extents[r->n++] = (struct aside){e, frame};
      atomic_store(&extent->frame, NULL);
    }
  }
}

void core_take_back(struct core *core, struct resident *r) {
  for (size_t i = 0; i < r->n; i++) {
    if (!log_restore(&core->log, r->extents[i].number, r->extents[i].frame)) {
      frames_give(&core->frames, r->extents[i].frame);
    }
  }
  core->env->release(core->env, r->extents);
}
