/* SPDX-License-Identifier: MIT
**
** sweep.c -- see sweep.h.
*/
#include "sweep.h"

#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/emb.h"

int sweep__init(struct sweep *w, struct core *core, struct epoch_slot *slot,
                emb_err *err) {
  w->core = core;
  w->slot = slot;
  w->buffer = NULL;
  w->value = core->env->allocate(core->env, core->layout.value_bytes + 8);
  return w->value ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
}

void sweep__free(struct sweep *w) {
  struct env *env = w->core->env;
  if (w->buffer) {
    env->unmap(env, w->buffer, w->core->layout.extent_bytes);
  }
  env->release(env, w->value);
}

int sweep__is_live(struct core *core, int64_t key, uint64_t address) {
  return key_find_address(core, key, hash_key(key)) == address;
}

int sweep__value(struct sweep *w, const struct rec *rec, int64_t key,
                 uint64_t *version) {
  return rec_read(rec, key, w->value, w->core->layout.value_bytes, version);
}

int sweep__remove(struct sweep *w, const struct rec *rec, int64_t key,
                  uint64_t address, int *outcome) {
  struct core *core = w->core;
  struct entry *entry;
  uint64_t word, version, hash = hash_key(key);
  emb_assert(!epoch_outside());
  emb_assert(w->reason == PAGE_EXPIRED || w->reason == PAGE_EVICTED);
  *outcome = SWEEP_GONE;
  switch (key_latch(core, key, hash, &entry, &word)) {
  case KEY_ABSENT:
    return EMB_OK;
  case KEY_INTENT:
    *outcome = SWEEP_HELD;
    return EMB_OK;
  }
  int rc = EMB_OK;
  if (key_log_address(core, word) == address) {
    const struct rec *present = key_rec(core, word);
    if (!sweep__value(w, present ? present : rec, key, &version) ||
        !w->agrees(w, key, version)) {
      *outcome = SWEEP_STAYS;
    } else {
      rc = EMB_SEED(SEED_REMOVAL_WITHOUT_TOMBSTONE)
               ? EMB_OK
               : tomb_write(core, key, address, w->reason);
      *outcome = rc ? SWEEP_STAYS : SWEEP_REMOVED;
    }
  }
  if (*outcome != SWEEP_REMOVED) {
    key_unlatch(entry, word);
    return rc;
  }
  row_remove(core, key, hash, entry, word,
             w->reason == PAGE_EXPIRED ? ROW_EXPIRED : ROW_EVICTED);
  return EMB_OK;
}

/* Returns the page, in memory or in the buffer; NULL: it must be read first.
** *skip: the page has no records.  Inside an epoch. */
static const char *find_page(struct sweep *w, uint64_t page, int *skip) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  const char *bytes = log_page(&core->log, page);
  *skip = 0;
  if (!bytes && page >= w->from && page < w->end) {
    bytes = w->buffer + (page - w->from) * l->page_bytes;
    /* Reads and 'integrity-check' report damage; or the page was never
    ** written. */
    *skip = !page_valid(l, bytes, core->salt, page);
  }
  *skip |= bytes && page_kind(bytes) != PAGE_DATA;
  return bytes;
}

static int sweep_read_pages(struct sweep *w, uint64_t from, uint64_t end,
                            emb_err *err) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  size_t bytes = (size_t)(end - from) * l->page_bytes;
  if (!w->buffer) {
    w->buffer = core->env->map(core->env, l->extent_bytes, 0);
  }
  if (!w->buffer) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  pthread_mutex_lock(&core->log.lock);
  uint64_t offset = log_offset(&core->log, from);
  pthread_mutex_unlock(&core->log.lock);
  int os = core->env->read(core->env, core->log.file, w->buffer, bytes, offset);
  count_add(&core->counters.read_bytes, bytes);
  w->from = from;
  w->end = os ? from : end;
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                     core->dir, (unsigned long long)offset)
            : EMB_OK;
}

/* Examines the slots of a page from *at on; `end`: the end of the pages that
** may be read with it. */
static int sweep_look_at_page(struct sweep *w, uint64_t page, uint64_t end,
                              uint32_t *at, emb_err *err) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  int rc = EMB_OK, skip;
  epoch_enter(&core->epoch, w->slot);
  const char *bytes = find_page(w, page, &skip);
  if (!bytes) {
    epoch_leave(w->slot);
    return sweep_read_pages(w, page, end, err);
  }
  for (; !rc && !skip && *at < l->slots; *at += !rc) {
    const struct rec *rec =
        (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                           (size_t)*at * l->rec_bytes);
    if (rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire))) {
      rc =
          w->look(w, rec, atomic_load_explicit(&rec->key, memory_order_relaxed),
                  layout_address(l, page, *at));
    }
  }
  *at = skip ? l->slots : *at;
  epoch_leave(w->slot);
  if (rc == LOG_ROOM) {
    rc = core_make_kept_room(core, w->slot, err);
  }
  return rc;
}

int sweep__pages(struct sweep *w, uint64_t from, uint64_t end, emb_err *err) {
  struct core *core = w->core;
  uint64_t tail = atomic_load(&core->log.tail);
  int rc = EMB_OK;
  /* The buffer holds one extent. */
  emb_assert(from < end && from >> core->layout.extent_bits ==
                               (end - 1) >> core->layout.extent_bits);
  end = end < tail ? end : tail;
  w->from = w->end = 0;
  for (uint64_t page = from; !rc && page < end; page++) {
    for (uint32_t at = 0; !rc && at < core->layout.slots;) {
      rc = sweep_look_at_page(w, page, end, &at, err);
    }
  }
  emb_check(sweep_valid(w));
  return rc;
}
