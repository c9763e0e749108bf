/* SPDX-License-Identifier: MIT
**
** compact.c -- see compact.h.
*/
#include "compact.h"

#include <string.h>

#include "../core/keep.h"
#include "../emb.h"

/* What may lie about in a small table, in extents. */
#define SLACK 4
#define SPAN_SLACK 4096

/* Extents that compaction may touch: written, and below an open transaction,
** whose records are not live before it commits. */
static uint64_t limit_of(struct core *core) {
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
  uint64_t dead = 0, kept = 0, kept_keys = 0, limit = limit_of(core);
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  uint64_t floor = keep_floor(core);
  for (uint64_t e = log->first; e < limit; e++) {
    struct extent *extent = log_extent(log, e);
    if (extent_phys(extent) == EXTENT_NOWHERE) {
      continue;
    }
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (e >= floor && keep_needed(core, e)) {
      kept++;
      kept_keys += live > 0 ? (uint64_t)live : 0;
    } else {
      dead += live == 0;
    }
  }
  space->used = (log_extents_used(log) - kept) * l->extent_bytes;
  space->first_kept = log->first < limit && keep_needed(core, log->first);
  pthread_mutex_unlock(&log->lock);
  int64_t keys = atomic_load(&core->count) - (int64_t)kept_keys;
  space->live = (uint64_t)(keys > 0 ? keys : 0) * l->page_bytes / l->slots;
  space->dead = dead * l->extent_bytes;
  space->kept = kept * l->extent_bytes;
  space->kept_live = kept_keys * l->page_bytes / l->slots;
}

/* The log's table has an entry for every extent between the oldest and the
** tail: an old one that stays nearly full must not keep them for ever.  One
** that is kept does. */
static int span_too_long(const struct core *core, uint64_t used_extents,
                         int first_kept) {
  const struct log *log = &core->log;
  uint64_t tail = atomic_load(&log->tail) >> core->layout.extent_bits;
  return !first_kept && tail - log->first > used_extents * 8 + SPAN_SLACK;
}

int space_wasted(const struct core *core, const struct space *space) {
  return span_too_long(core,
                       (space->used + space->kept) / core->layout.extent_bytes,
                       space->first_kept) ||
         space->used - space->dead >
             space->live + space->live / 20 * 11 +
                 (uint64_t)SLACK * core->layout.extent_bytes;
}

int space_freeable(const struct core *core, const struct space *space) {
  return space->dead >
         space->live / 16 + (uint64_t)SLACK * core->layout.extent_bytes;
}

int space_urgent(const struct core *core, const struct space *space) {
  return space->used > space->live * 2 + space->live / 4 +
                           (uint64_t)SLACK * core->layout.extent_bytes;
}

/* The extent with the fewest live records, 0 if none is worth it. */
static uint64_t choose(struct core *core, int all) {
  struct log *log = &core->log;
  const struct layout *l = &core->layout;
  int32_t full = (int32_t)(l->slots * l->extent_pages);
  int32_t best = all ? full : full - full / 8;
  uint64_t victim = 0, limit = limit_of(core);
  pthread_mutex_lock(&log->lock);
  if (log->first < limit &&
      atomic_load(&log_extent(log, log->first)->live) > 0 &&
      span_too_long(core, log_extents_used(log),
                    keep_needed(core, log->first))) {
    victim = log->first;
    limit = 0;
  }
  for (uint64_t e = log->first; e < limit; e++) {
    struct extent *extent = log_extent(log, e);
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (extent_phys(extent) != EXTENT_NOWHERE && live > 0 && live < best &&
        !keep_needed(core, e)) {
      best = live;
      victim = e;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return victim;
}

struct mover {
  struct core *core;
  struct epoch_slot *slot;
  emb_err *err;
};

/* Copies one record to the tail if it is live.  Inside an epoch; LOG_ROOM:
** try again after making room. */
static int move_record(struct mover *m, const struct rec *rec,
                       uint64_t address) {
  struct core *core = m->core;
  uint64_t version =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire));
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  uint64_t word, hash = hash_key(key);
  if (!version || !index_find(&core->index, key, hash, &word) ||
      (key_log_address(core, word) != address && !EMB_SEED(11))) {
    return EMB_OK;
  }
  /* One at a time: slots that a page's few live records leave over would be
  ** lost, and what was compacted as sparse as before. */
  uint64_t page;
  uint32_t slot, got;
  int rc =
      log_take(&core->log, LOG_IMMEDIATE, PAGE_DATA, 0, 1, &page, &slot, &got);
  if (rc) {
    return rc;
  }
  uint64_t to = layout_address(&core->layout, page, slot);
  rec_fill(log_rec(&core->log, to), key, rec->vector, core->layout.value_bytes,
           version);
  core_filled(core, key, to, rec->vector);
  if (key_relocate(core, key, hash, address, to)) {
    count_add(&core->counters.compacted_records, 1);
  } else {
    rec_unfill(log_rec(&core->log, to));
  }
  return EMB_OK;
}

/* One page. */
static int move_page(struct mover *m, uint64_t page, const char *bytes) {
  struct core *core = m->core;
  const struct layout *l = &core->layout;
  uint32_t at = 0;
  if (page_kind(bytes) != PAGE_DATA) {
    return EMB_OK;
  }
  while (at < l->slots) {
    int rc = EMB_OK;
    epoch_enter(&core->epoch, m->slot);
    for (; at < l->slots && !rc; at++) {
      rc = move_record(
          m,
          (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                             (size_t)at * l->rec_bytes),
          layout_address(l, page, at));
      if (rc) {
        break;
      }
    }
    epoch_leave(m->slot);
    if (rc == LOG_ROOM) {
      int did;
      rc = core_make_room(core, m->slot, &did, m->err);
    }
    if (rc) {
      return rc;
    }
  }
  return EMB_OK;
}

static int read_extent(struct core *core, uint64_t number, char *buffer,
                       emb_err *err) {
  const struct layout *l = &core->layout;
  uint64_t page = number << l->extent_bits;
  pthread_mutex_lock(&core->log.lock);
  uint64_t offset = log_offset(&core->log, page);
  pthread_mutex_unlock(&core->log.lock);
  int os = core->env->read(core->env, core->log.file, buffer, l->extent_bytes,
                           offset);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                  core->dir, (unsigned long long)offset);
  }
  count_add(&core->counters.read_bytes, l->extent_bytes);
  return EMB_OK;
}

/* A page whose checksum is wrong: rot, unless it was never written, because
** its extent was left half full by a process that died. */
static int check_page(struct core *core, uint64_t page, const char *bytes,
                      emb_err *err) {
  if (page_valid(&core->layout, bytes, core->salt, page)) {
    return 1;
  }
  err_set(err, EMB_CORRUPT, "%s/log: page %llu is damaged", core->dir,
          (unsigned long long)page);
  return 0;
}

static int32_t live_in(struct core *core, uint64_t number) {
  pthread_mutex_lock(&core->log.lock); /* the table must not be replaced */
  int32_t live = atomic_load(&log_extent(&core->log, number)->live);
  pthread_mutex_unlock(&core->log.lock);
  return live;
}

int compact_one(struct core *core, struct epoch_slot *slot, int all, int *did,
                emb_err *err) {
  const struct layout *l = &core->layout;
  struct mover m = {core, slot, err};
  *did = 0;
  uint64_t number = choose(core, all);
  if (!number) {
    return EMB_OK;
  }
  char *buffer = core->env->map(core->env, l->extent_bytes, 0);
  if (!buffer) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  int rc = read_extent(core, number, buffer, err), damaged = 0;
  int32_t before = live_in(core, number);
  for (uint32_t i = 0; !rc && i < l->extent_pages; i++) {
    const char *bytes = buffer + (size_t)i * l->page_bytes;
    uint64_t page = (number << l->extent_bits) + i;
    if (check_page(core, page, bytes, err)) {
      rc = move_page(&m, page, bytes);
    } else {
      damaged = 1;
    }
  }
  core->env->unmap(core->env, buffer, l->extent_bytes);
  int32_t after = live_in(core, number);
  if (!rc && damaged && after > 0 && !atomic_load(&core->txn_first_page)) {
    return EMB_CORRUPT; /* live records were in the damaged pages */
  }
  if (!rc && damaged) { /* pages that were never written */
    err_clear(err);
  }
  *did = after < before;
  return rc;
}
