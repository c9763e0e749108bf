/* SPDX-License-Identifier: MIT
**
** evicted.c -- which keys expired or were evicted, from the log's pages of
** deletions.
**
** POSITION  of a key: page << 16 | 1 + its position in the page.  Pages are
**           handed out in time order, and each has deletions of one kind.
** DURABLE   The log is flushed and synced first, and pages above that point are
**           left to the next call: a position that was returned does not come
**           again with another key after a crash.
** KEPT      An extent stays as long as a record in it is live, or a consumer of
**           deltas has not acknowledged the deletions in it; else the next
**           checkpoint frees it.
*/
#include <string.h>

#include "forget.h"
#include "engine/table/jobs/begin.h"

#define ITEM_BITS 16

struct evicted_reading {
  emb_session *s;
  uint64_t page, upto; /* the next page, and the first to be left out */
  uint32_t item;       /* the next one in it */
  size_t max, n;
  int64_t *keys;
  uint8_t *ops;
  uint64_t *positions;
  char *buffer;        /* holds an extent */
  uint64_t from, read; /* pages [from, read) of it were read */
};

static uint8_t op_of(const char *page) {
  uint32_t flags = page_kind(page) == PAGE_TOMB ? page_flags(page) : 0;
  return flags & PAGE_EXPIRED   ? EMB_DELTA_EXPIRE
         : flags & PAGE_EVICTED ? EMB_DELTA_EVICT
                                : 0;
}

/* Takes the keys of the page at `bytes`.  Returns 0 if there was no room. */
static int evicted_take(struct evicted_reading *r, const char *bytes) {
  uint8_t op = op_of(bytes);
  uint32_t items =
      op ? page_count(bytes) - (uint32_t)EMB_SEED(SEED_LAST_EVICTED_KEY_SKIPPED)
         : 0;
  for (; r->item < items && r->n < r->max; r->item++) {
    memcpy(&r->keys[r->n], bytes + PAGE_HEAD_BYTES + (size_t)r->item * 8, 8);
    r->ops[r->n] = op;
    r->positions[r->n++] = r->page << ITEM_BITS | (r->item + 1);
  }
  return r->item >= items;
}

/* May there be deletions in the extent?  For extents from before the store was
** opened this is not known. */
static int is_wanted(const struct core *core, uint64_t number) {
  const struct extent *extent = log_extent(&core->log, number);
  return number >= core->log.first && extent_phys(extent) != EXTENT_NOWHERE &&
         (extent_tombs(extent) ||
          number <= core->log_end >> core->layout.extent_bits);
}

static int evicted_read_pages(struct evicted_reading *r, uint64_t end) {
  struct core *core = r->s->core;
  const struct layout *l = &core->layout;
  if (!r->buffer) {
    r->buffer = core->env->map(core->env, l->extent_bytes, 0);
  }
  if (!r->buffer) {
    return session_error(r->s, EMB_NOMEM, "out of memory");
  }
  pthread_mutex_lock(&core->log.lock);
  uint64_t offset = log_offset(&core->log, r->page);
  pthread_mutex_unlock(&core->log.lock);
  size_t bytes = (size_t)(end - r->page) * l->page_bytes;
  int os = core->env->read(core->env, core->log.file, r->buffer, bytes, offset);
  count_add(&core->counters.read_bytes, bytes);
  r->from = r->page;
  r->read = os ? r->page : end;
  return os ? err_os(&r->s->err, EMB_IOERR, os,
                     "cannot read %s/log at offset %llu", core->dir,
                     (unsigned long long)offset)
            : EMB_OK;
}

/* Reads the next page, which is in an extent that ends at `end`. */
static int evicted_look_at_page(struct evicted_reading *r, uint64_t end,
                                int *full) {
  struct core *core = r->s->core;
  const struct layout *l = &core->layout;
  epoch_enter(&core->epoch, r->s->slot);
  const char *bytes = log_page(&core->log, r->page);
  int is_read = r->page >= r->from && r->page < r->read;
  if (!bytes && is_read) {
    bytes = r->buffer + (r->page - r->from) * l->page_bytes;
    /* A page without live records may be damaged unnoticed: skip it. */
    bytes = page_valid(l, bytes, core->salt, r->page) ? bytes : NULL;
  } else if (!bytes) {
    epoch_leave(r->s->slot);
    return evicted_read_pages(r, end);
  }
  *full = bytes && !evicted_take(r, bytes);
  epoch_leave(r->s->slot);
  if (!*full) {
    r->page++;
    r->item = 0;
  }
  return EMB_OK;
}

/* Under ckpt_lock: no extent can be freed. */
static int evicted_read_all(struct evicted_reading *r) {
  struct core *core = r->s->core;
  uint32_t bits = core->layout.extent_bits;
  int rc = EMB_OK, full = 0;
  while (!rc && !full && r->page < r->upto) {
    uint64_t number = r->page >> bits, end = (number + 1) << bits;
    pthread_mutex_lock(&core->log.lock);
    int wanted = is_wanted(core, number);
    uint64_t first = core->log.first;
    pthread_mutex_unlock(&core->log.lock);
    if (wanted) {
      rc = evicted_look_at_page(r, end < r->upto ? end : r->upto, &full);
    } else {
      r->page = number < first ? first << bits : end;
      r->item = 0;
    }
  }
  return rc;
}

int local_evicted(emb_session *s, uint64_t since, size_t max,
                  const emb_rows *to, size_t *n) {
  struct core *core = s->core;
  struct evicted_reading r = {.s = s,
                              .page = since >> ITEM_BITS,
                              .item =
                                  (uint32_t)(since & ((1u << ITEM_BITS) - 1)),
                              .max = max,
                              .keys = to->keys,
                              .ops = to->ops,
                              .positions = to->positions};
  *n = 0;
  int rc = begin_work(s, "read what was evicted");
  if (!rc && core->temporary) {
    rc = session_error(s, EMB_UNFIT,
                       "%s is temporary: it keeps no record of evicted rows",
                       s->core->dir);
  }
  rc = rc ? rc : core_flush_all(core, 1, &r.upto, &s->err);
  rc = rc ? rc : session_lock(s, &core->ckpt_lock);
  if (!rc) {
    rc = evicted_read_all(&r);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  if (r.buffer) {
    core->env->unmap(core->env, r.buffer, core->layout.extent_bytes);
  }
  *n = rc ? 0 : r.n;
  return rc;
}
