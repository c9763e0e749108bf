/* SPDX-License-Identifier: MIT
**
** space.c -- see space.h.
*/
#include "space.h"

#include "retention.h"

#define SPAN_SLACK 4096

uint64_t space_limit(const struct core *core) {
  uint64_t bits = core->layout.extent_bits;
  uint64_t limit = atomic_load(&core->log.flushed) >> bits;
  uint64_t open = atomic_load(&core->txn_first_page);
  if (open && open >> bits < limit) {
    limit = open >> bits;
  }
  return limit;
}

void space_measure(struct core *core, struct space *space) {
  struct log *log = &core->log;
  const struct layout *l = &core->layout;
  uint64_t dead = 0, kept = 0, kept_keys = 0, limit = space_limit(core);
  uint64_t held = atomic_load(&core->readers.count);
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  uint64_t floor = retention__floor(core);
  for (uint64_t e = log->first; e < limit; e++) {
    struct extent *extent = log_extent(log, e);
    if (extent_phys(extent) == EXTENT_NOWHERE) {
      continue;
    }
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (e >= floor && retention_needed(core, e)) {
      kept++;
      kept_keys += live > 0 ? (uint64_t)live : 0;
    } else {
      dead += live == 0;
    }
  }
  /* Extents that readers hold are dead, but cannot be freed: not waste. */
  held = held < dead ? held : dead;
  dead -= held;
  space->used = (log_extents_used(log) - kept - held) * l->extent_bytes;
  space->first_kept = log->first < limit && retention_needed(core, log->first);
  pthread_mutex_unlock(&log->lock);
  int64_t keys = atomic_load(&core->count) - (int64_t)kept_keys;
  space->live = (uint64_t)(keys > 0 ? keys : 0) * l->page_bytes / l->slots;
  space->dead = dead * l->extent_bytes;
  space->kept = kept * l->extent_bytes;
  space->kept_live = kept_keys * l->page_bytes / l->slots;
}

int space_span_too_long(const struct core *core, uint64_t used_extents,
                        int first_kept) {
  const struct log *log = &core->log;
  uint64_t tail = atomic_load(&log->tail) >> core->layout.extent_bits;
  return !first_kept && tail - log->first > used_extents * 8 + SPAN_SLACK;
}

/* Bytes of extents in memory beside which the cache's least share, frames that
** are kept free and a sixteenth for what compaction has not reached yet find
** room. */
static uint64_t fits_in_memory(const struct core *core) {
  uint64_t kept = core_low_water(core) + core__cache_min(core) + SPACE_SLACK;
  uint64_t frames = frames_count(&core->frames);
  frames = frames > kept ? frames - kept : 0;
  return (frames - frames / 16) * core->layout.extent_bytes;
}

/* The bytes of extents that are not dead above which compaction works: 1.55
** times the live bytes.  Less for rows that fit into memory:
**
** During writes, if they fit only if they lie more closely; but never below 1.2
** times, where each byte freed costs two to three that are copied.  1.2 million
** rows with twice 32 floats, trained after their tables had been opened again
** with memory for 1.45 times as much: 0.88 -> 1.4 million a second, because no
** row is read from disk any more.
**
** Once writes pause, 1.2 times: a pass over all rows reads the dead ones, too.
** MATCH over 500,000 rows of 64 floats, 63 % of them written again after each
** checkpoint: 12.6 -> 8.8 ms; 6.9 when freshly loaded.  Not so if rows are on
** disk, where this would keep the disk from those who read in the pause. */
static uint64_t waste_limit(const struct core *core, const struct space *space,
                            int is_quiet) {
  uint64_t limit = space->live + space->live / 20 * 11;
  uint64_t least = space->live + space->live / 5;
  uint64_t memory = fits_in_memory(core);
  if (memory < least) {
    return limit;
  }
  if (is_quiet) {
    return EMB_SEED(SEED_NOT_COMPACTED_IN_PAUSES) ? limit : least;
  }
  return memory > limit || EMB_SEED(SEED_ROWS_NOT_COMPACTED_FOR_MEMORY)
             ? limit
             : memory;
}

int space_wasted(const struct core *core, const struct space *space,
                 int is_quiet) {
  return space_span_too_long(
             core, (space->used + space->kept) / core->layout.extent_bytes,
             space->first_kept) ||
         space->used - space->dead >
             waste_limit(core, space, is_quiet) +
                 (uint64_t)SPACE_SLACK * core->layout.extent_bytes;
}

int space_freeable(const struct core *core, const struct space *space) {
  return space->dead >
         space->live / 16 + (uint64_t)SPACE_SLACK * core->layout.extent_bytes;
}

int space_urgent(const struct core *core, const struct space *space) {
  return space->used > space->live * 2 + space->live / 4 +
                           (uint64_t)SPACE_SLACK * core->layout.extent_bytes;
}
