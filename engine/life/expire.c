/* SPDX-License-Identifier: MIT
**
** expire.c -- see expire.h.
**
** EXACTLY   While an extent is gone through its time is "never", and writers
**           lower it as they fill slots.  Everybody leaves the epoch once in
**           between: whoever lowered it before has published what he filled, so
**           it is seen here; who comes later lowers the new time.  A record
**           that an open transaction has filled is not live and counts all
**           the same.
*/
#include "expire.h"

#include <string.h>

#include "../emb.h"

#define SLACK_PART 16

struct work {
  struct core *core;
  struct epoch_slot *slot;
  uint64_t number;
  uint32_t now, retry;
  uint64_t open; /* first page of an open transaction, 0: none */
  char *buffer;  /* the extent, once it was read */
  char *value;   /* of one record */
  uint64_t *removed;
  emb_err *err;
};

uint32_t expire_slack(const struct core *core) {
  return ttl_least(&core->schema.ttl) / SLACK_PART;
}

uint64_t expire_choose(struct core *core, uint32_t now, uint32_t slack) {
  struct log *log = &core->log;
  uint64_t bits = core->layout.extent_bits, first = 0;
  uint64_t open = atomic_load(&core->txn_first_page);
  uint32_t least = now > slack ? now - slack : 0;
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  uint64_t tail = atomic_load(&log->tail);
  uint64_t end =
      open ? open >> bits : (tail + core->layout.extent_pages - 1) >> bits;
  for (uint64_t e = log->first; e < end; e++) {
    const struct extent *extent = log_extent(log, e);
    uint32_t due = atomic_load_explicit(&extent->due, memory_order_relaxed);
    if (due <= least && extent_phys(extent) != EXTENT_NOWHERE &&
        atomic_load_explicit(&extent->live, memory_order_relaxed) > 0 &&
        (!first || due < atomic_load_explicit(&log_extent(log, first)->due,
                                              memory_order_relaxed))) {
      first = e;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return first;
}

/* When the record is due, its value as it is now: it may be changed in place.
** 0: it is not the key's any more. */
static int due_of(struct work *w, const struct rec *rec, int64_t key,
                  uint32_t *due) {
  const struct core *core = w->core;
  uint64_t version;
  if (!rec_read(rec, key, w->value, core->layout.value_bytes, &version)) {
    return 0;
  }
  *due = schema_due(&core->schema, key, w->value);
  return 1;
}

/* Removes the key if its record is the one at `address` and still due; else
** *due says when it is.  rec: a copy of it. */
static int remove_due(struct work *w, int64_t key, uint64_t address,
                      const struct rec *rec, uint32_t *due) {
  struct core *core = w->core;
  struct entry *entry;
  uint64_t word, hash = hash_key(key);
  switch (key_latch(core, key, hash, &entry, &word)) {
  case KEY_ABSENT:
    *due = TTL_NEVER;
    return EMB_OK;
  case KEY_INTENT:
    *due = w->retry;
    return EMB_OK;
  }
  *due = TTL_NEVER;
  if (key_log_address(core, word) != address) {
    key_unlatch(entry, word);
    return EMB_OK;
  }
  const struct rec *present = key_rec(core, word);
  if (!due_of(w, present ? present : rec, key, due) || *due > w->now) {
    key_unlatch(entry, word);
    return EMB_OK;
  }
  int rc = tomb_write(core, key, address, PAGE_EXPIRED);
  if (rc) {
    key_unlatch(entry, word);
    return rc;
  }
  count_add(&core->version, 1); /* there is something to save */
  key_remove(core, key, hash, entry, word);
  count_add(&core->counters.expired_keys, 1);
  ++*w->removed;
  *due = TTL_NEVER;
  return EMB_OK;
}

/* One record.  Inside an epoch; LOG_ROOM: again after making room. */
static int look_at(struct work *w, const struct rec *rec, uint64_t address) {
  struct core *core = w->core;
  uint64_t page = layout_page(&core->layout, address), word;
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  uint32_t due;
  if (!rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire))) {
    return EMB_OK;
  }
  int live = index_find(&core->index, key, hash_key(key), &word) &&
             key_log_address(core, word & ~WORD_LATCH) == address;
  if ((!live && (!w->open || page < w->open)) || !due_of(w, rec, key, &due)) {
    return EMB_OK;
  }
  if (live && due <= w->now) {
    int rc = remove_due(w, key, address, rec, &due);
    if (rc) {
      return rc;
    }
  }
  log_due(&core->log, address, due);
  return EMB_OK;
}

/* The page in memory or in the buffer; NULL: the extent must be read first, or
** *skip: there is nothing.  Inside an epoch. */
static const char *find_page(struct work *w, uint64_t page, int *skip) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  const char *bytes = log_page(&core->log, page);
  *skip = 0;
  if (!bytes && w->buffer) {
    bytes = w->buffer + layout_page_offset(l, page);
    /* Reads and 'integrity-check' tell of damage; it may also be a page that
    ** was never written. */
    *skip = !page_valid(l, bytes, core->salt, page);
  }
  *skip |= bytes && page_kind(bytes) != PAGE_DATA;
  return bytes;
}

static int read_extent(struct work *w) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  w->buffer = core->env->map(core->env, l->extent_bytes, 0);
  if (!w->buffer) {
    return err_set(w->err, EMB_NOMEM, "out of memory");
  }
  pthread_mutex_lock(&core->log.lock);
  uint64_t offset = log_offset(&core->log, w->number << l->extent_bits);
  pthread_mutex_unlock(&core->log.lock);
  int os = core->env->read(core->env, core->log.file, w->buffer,
                           l->extent_bytes, offset);
  count_add(&core->counters.read_bytes, l->extent_bytes);
  return os ? err_os(w->err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                     core->dir, (unsigned long long)offset)
            : EMB_OK;
}

/* Slots of a page from *at on. */
static int look_at_page(struct work *w, uint64_t page, uint32_t *at) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  int rc = EMB_OK, skip;
  epoch_enter(&core->epoch, w->slot);
  const char *bytes = find_page(w, page, &skip);
  if (!bytes) {
    epoch_leave(w->slot);
    return read_extent(w);
  }
  for (; !rc && !skip && *at < l->slots; *at += !rc) {
    rc = look_at(w,
                 (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                                    (size_t)*at * l->rec_bytes),
                 layout_address(l, page, *at));
  }
  *at = skip ? l->slots : *at;
  epoch_leave(w->slot);
  if (rc == LOG_ROOM) {
    int did;
    rc = core_make_room(core, w->slot, &did, w->err);
  }
  return rc;
}

static int look_at_pages(struct work *w) {
  struct core *core = w->core;
  const struct layout *l = &core->layout;
  uint64_t page = w->number << l->extent_bits, end = page + l->extent_pages;
  uint64_t tail = atomic_load(&core->log.tail);
  int rc = EMB_OK;
  for (end = end < tail ? end : tail; !rc && page < end; page++) {
    for (uint32_t at = 0; !rc && at < l->slots;) {
      rc = look_at_page(w, page, &at);
    }
  }
  return rc;
}

int expire_extent(struct core *core, struct epoch_slot *slot, uint64_t number,
                  uint32_t now, uint32_t retry, uint64_t *removed,
                  emb_err *err) {
  struct work w = {.core = core,
                   .slot = slot,
                   .number = number,
                   .now = now,
                   .retry = retry,
                   .removed = removed,
                   .err = err};
  epoch_enter(&core->epoch, slot); /* the table stays */
  uint32_t before =
      atomic_exchange(&log_extent(&core->log, number)->due, EXTENT_NEVER);
  epoch_leave(slot);
  epoch_wait(&core->epoch);
  w.open = atomic_load(&core->txn_first_page);
  w.value = core->env->allocate(core->env, core->layout.value_bytes + 8);
  int rc =
      w.value ? look_at_pages(&w) : err_set(err, EMB_NOMEM, "out of memory");
  if (w.buffer) {
    core->env->unmap(core->env, w.buffer, core->layout.extent_bytes);
  }
  core->env->release(core->env, w.value);
  if (rc) { /* what was not looked at may be due */
    epoch_enter(&core->epoch, slot);
    log_due(
        &core->log,
        layout_address(&core->layout, number << core->layout.extent_bits, 0),
        before);
    epoch_leave(slot);
  }
  return rc;
}
