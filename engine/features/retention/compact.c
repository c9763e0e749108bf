/* SPDX-License-Identifier: MIT
**
** compact.c -- see compact.h.
*/
#include "compact.h"

#include <string.h>

#include "engine/storage/kernel/retention.h"
#include "engine/storage/kernel/row_write.h"
#include "engine/emb.h"

/* The extent with the fewest live records, 0 if none is worth it. */
static uint64_t choose_extent(struct core *core, int all) {
  struct log *log = &core->log;
  const struct layout *l = &core->layout;
  int32_t full = (int32_t)(l->slots * l->extent_pages);
  int32_t best = all ? full : full - full / 8;
  uint64_t victim = 0, limit = space_limit(core);
  pthread_mutex_lock(&log->lock);
  if (log->first < limit &&
      atomic_load(&log_extent(log, log->first)->live) > 0 &&
      space_span_too_long(core, log_extents_used(log),
                          retention_needed(core, log->first))) {
    victim = log->first;
    limit = 0;
  }
  for (uint64_t e = log->first; e < limit; e++) {
    struct extent *extent = log_extent(log, e);
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (extent_phys(extent) != EXTENT_NOWHERE && live > 0 && live < best &&
        !retention_needed(core, e)) {
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
  char *buffer;   /* for the extent's bytes; NULL: not needed so far */
  int is_damaged; /* pages that are not in memory failed their checksum */
};

/* Copies one record to the tail if it is live.  Inside an epoch; LOG_ROOM:
** try again after making room. */
static int move_record(struct mover *m, const struct rec *rec,
                       uint64_t address) {
  struct core *core = m->core;
  uint64_t version =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire));
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  uint64_t hash = hash_key(key);
  if (!version || (key_find_address(core, key, hash) != address &&
                   !EMB_SEED(SEED_COMPACTION_MOVES_OUTDATED))) {
    return EMB_OK;
  }
  /* One slot at a time: slots left over by a page with few live records would
  ** be lost, and the compacted records would be as sparse as before. */
  struct log_run run = {.stream = LOG_IMMEDIATE, .kept = 1};
  uint64_t to;
  int rc = row_slot(core, &run, 1, address, &to);
  if (rc) {
    return rc;
  }
  rec_fill(log_rec(&core->log, to), key, rec->vector, core->layout.value_bytes,
           version);
  if (row_move(core, key, hash, address, to)) {
    count_add(&core->counters.compacted_records, 1);
  }
  return EMB_OK;
}

/* Reads the extent that contains the page into m->buffer. */
static int read_extent(struct mover *m, uint64_t page) {
  struct core *core = m->core;
  const struct layout *l = &core->layout;
  uint64_t first = page >> l->extent_bits << l->extent_bits;
  m->buffer = core->env->map(core->env, l->extent_bytes, 0);
  if (!m->buffer) {
    return err_set(m->err, EMB_NOMEM, "out of memory");
  }
  pthread_mutex_lock(&core->log.lock);
  uint64_t offset = log_offset(&core->log, first);
  pthread_mutex_unlock(&core->log.lock);
  int os = core->env->read(core->env, core->log.file, m->buffer,
                           l->extent_bytes, offset);
  if (os) {
    return err_os(m->err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                  core->dir, (unsigned long long)offset);
  }
  count_add(&core->counters.read_bytes, l->extent_bytes);
  return EMB_OK;
}

/* *bytes: the page's, from disk, or NULL.  A page with a wrong checksum is
** damaged, unless it was never written: a process that died may have left its
** extent half full. */
static int page_from_disk(struct mover *m, uint64_t page, const char **bytes) {
  struct core *core = m->core;
  const struct layout *l = &core->layout;
  int rc = m->buffer ? EMB_OK : read_extent(m, page);
  if (rc) {
    return rc;
  }
  *bytes = m->buffer + layout_page_offset(l, page);
  if (!page_valid(l, *bytes, core->salt, page)) {
    m->is_damaged = 1;
    *bytes = NULL;
    err_set(m->err, EMB_CORRUPT, "%s/log: page %llu is damaged", core->dir,
            (unsigned long long)page);
  }
  return EMB_OK;
}

/* Copies live records of a page from slot *at on.  Inside an epoch, with the
** results of move_record. */
static int move_records(struct mover *m, uint64_t page, const char *bytes,
                        uint32_t *at) {
  const struct layout *l = &m->core->layout;
  uint32_t n = page_kind(bytes) == PAGE_DATA ? l->slots : 0;
  for (; *at < n; ++*at) {
    const char *rec = bytes + PAGE_HEAD_BYTES + (size_t)*at * l->rec_bytes;
    int rc = move_record(m, (const struct rec *)(const void *)rec,
                         layout_address(l, page, *at));
    if (rc) {
      return rc;
    }
  }
  return EMB_OK;
}

/* One page, from memory if it is there: it may leave memory whenever this
** leaves the epoch. */
static int move_page(struct mover *m, uint64_t page) {
  struct core *core = m->core;
  const char *read = NULL;
  uint32_t at = 0;
  for (;;) {
    epoch_enter(&core->epoch, m->slot);
    const char *memory = log_page(&core->log, page);
    const char *bytes = memory ? memory : read;
    int rc = bytes ? move_records(m, page, bytes, &at) : EMB_OK;
    epoch_leave(m->slot);
    if (rc == LOG_ROOM) {
      rc = core_make_kept_room(core, m->slot, m->err);
    } else if (bytes) {
      return rc;
    } else {
      rc = page_from_disk(m, page, &read);
      if (!rc && !read) {
        return EMB_OK;
      }
    }
    if (rc) {
      return rc;
    }
  }
}

static int32_t live_in(struct core *core, uint64_t number) {
  pthread_mutex_lock(&core->log.lock); /* the table must not be replaced */
  int32_t live = atomic_load(&log_extent(&core->log, number)->live);
  pthread_mutex_unlock(&core->log.lock);
  return live;
}

int compact__one(struct core *core, struct epoch_slot *slot, int all, int *did,
                 emb_err *err) {
  const struct layout *l = &core->layout;
  struct mover m = {.core = core, .slot = slot, .err = err};
  int rc = EMB_OK;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  emb_assert(epoch_outside()); /* E1 */
  *did = 0;
  uint64_t number = choose_extent(core, all);
  if (!number) {
    return EMB_OK;
  }
  int32_t before = live_in(core, number);
  for (uint32_t i = 0; !rc && i < l->extent_pages; i++) {
    rc = move_page(&m, (number << l->extent_bits) + i);
  }
  if (m.buffer) {
    core->env->unmap(core->env, m.buffer, l->extent_bytes);
  }
  int32_t after = live_in(core, number);
  if (!rc && m.is_damaged && after > 0 && !atomic_load(&core->txn_first_page)) {
    return EMB_CORRUPT; /* live records were in the damaged pages */
  }
  if (!rc && m.is_damaged) { /* pages that were never written */
    err_clear(err);
  }
  *did = after < before;
  return rc;
}
