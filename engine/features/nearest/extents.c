/* SPDX-License-Identifier: MIT
**
** extents.c -- one thread of an exact search.  It takes extents of the log one
** after the other, compares those in memory in place, and reads the others,
** several at a time, into its own buffers.  A search therefore evicts nothing;
** if frames are free, extents that were read stay in memory
** (kernel/resident.c).
**
** EPOCH     Entered for a group of pages that takes some microseconds to
**           compare, never while waiting for a read.
** FAILURE   A page that cannot be used may be harmless: its extent may have
**           been moved or freed during the pass, or never written before a
**           crash.  A scan decides: EXACT_BROKEN.
*/
#include <string.h>

#include "exact.h"

enum { AHEAD_READS = 8 };

struct reading {
  struct env_io io;
  uint64_t number; /* of the extent */
  uint64_t from;   /* earlier pages were compared */
  uint64_t to;     /* pages from here on are not on disk yet */
};

/* ---- one extent ---------------------------------------------------------- */

/* The pages of the search in an extent: [*from, *to).  Blank pages, which are
** always the last ones, are excluded. */
static void extent_pages(const struct search *search, uint64_t number,
                         uint64_t *from, uint64_t *to) {
  const struct core *core = search->core;
  uint32_t bits = core->layout.extent_bits;
  *from = number << bits;
  *to = (number + 1) << bits;
  *from = *from < search->first ? search->first : *from;
  *to = *to > search->end ? search->end : *to;
  while (*to > *from && core_is_blank(core, *to - 1)) {
    (*to)--;
  }
}

int extents__is_empty(const struct search *search, uint64_t page) {
  const struct core *core = search->core;
  emb_assert(!epoch_outside());
  const struct extent *extent =
      log_extent(&core->log, page >> core->layout.extent_bits);
  return extent_phys(extent) == EXTENT_NOWHERE ||
         (atomic_load(&extent->live) == 0 && !search->ask->s->txn);
}

/* Compares a page, without records of another session's transaction. */
static void extents_compare(struct extents *e, uint64_t page, const char *bytes,
                            int from_disk) {
  const struct scan_watch *watch = e->search->watch;
  const struct layout *l = &e->search->core->layout;
  struct page_rows rows = {page, bytes + PAGE_HEAD_BYTES, from_disk, l->slots,
                           0};
  if (page_kind(bytes) != PAGE_DATA) {
    return;
  }
  if (watch->skip_txn && page_txn(bytes) == watch->skip_txn) {
    uint64_t first = layout_page(l, watch->skip_from);
    rows.n = page < first    ? rows.n
             : page == first ? layout_slot(l, watch->skip_from)
                             : 0;
  }
  compare__page(&e->compare, &rows);
}

/* Compares a group of pages in memory, from *page on.  0: the page at *page is
** on disk only. */
static int extents_group(struct extents *e, uint64_t *page, uint64_t end) {
  struct search *search = e->search;
  struct core *core = search->core;
  uint32_t left = search->group;
  int there = 1;
  epoch_enter(&core->epoch, e->slot);
  if (extents__is_empty(search, *page)) {
    *page = end;
  }
  for (; left && there && *page < end; left--) {
    const char *bytes = log_page(&core->log, *page);
    there = bytes != NULL;
    if (there) {
      extents_compare(e, (*page)++, bytes, 0);
    }
  }
  epoch_leave(e->slot);
  compare__blocks(e, 0);
  return there;
}

/* Compares an extent that was read.  Pages that came into memory during the
** read, or were only there, are compared in memory. */
static int extents_read(struct extents *e, const struct reading *r) {
  struct search *search = e->search;
  struct core *core = search->core;
  const struct layout *l = &core->layout;
  uint64_t from, to, valid = 0;
  extent_pages(search, r->number, &from, &to);
  for (uint64_t page = r->from; page < to; page++) {
    const char *bytes =
        (const char *)r->io.buffer + layout_page_offset(l, page);
    int is_read = page < r->to && page_valid(l, bytes, core->salt, page);
    valid |= (uint64_t)is_read << (page & (l->extent_pages - 1));
    epoch_enter(&core->epoch, e->slot);
    const char *memory = log_page(&core->log, page);
    int is_empty = extents__is_empty(search, page);
    if (!is_empty && (memory || is_read)) {
      extents_compare(e, page, memory ? memory : bytes, !memory);
    }
    epoch_leave(e->slot);
    compare__blocks(e, 0);
    if (is_empty) {
      return EMB_OK;
    }
    if (!memory && !is_read) {
      return exact_failed(e, EXACT_BROKEN);
    }
  }
  core_keep(core, e->slot, r->number, r->io.buffer, valid);
  return EMB_OK;
}

/* ---- all of them --------------------------------------------------------- */

int extents__begin(struct extents *e, struct search *search) {
  e->search = search;
  e->slot = epoch_join(&search->core->epoch);
  return !e->slot || compare__init(&e->compare, search->ask) ? EMB_NOMEM
                                                             : EMB_OK;
}

void extents__end(struct extents *e) {
  if (e->slot) {
    epoch_part(e->slot);
  }
  if (e->compare.core) {
    compare__free(&e->compare);
  }
}

static int extents_open(struct extents *e) {
  struct core *core = e->search->core;
  struct env *env = core->env;
  if (e->queue) {
    return EMB_OK;
  }
  /* With small pages a device that gets them one by one reads half as fast: a
  ** pass over 244 MB took 210 ms, and 101 with huge pages. */
  e->buffers =
      env->map(env, (size_t)AHEAD_READS * core->layout.extent_bytes, 1);
  if (!e->buffers) {
    err_set(&e->err, EMB_NOMEM, "out of memory");
    return exact_failed(e, EMB_NOMEM);
  }
  int os = env->queue_open(env, core->queue_kind, AHEAD_READS, &e->queue);
  if (os) {
    e->queue = NULL;
    return exact_failed(
        e, err_os(&e->err, EMB_IOERR, os, "cannot read %s/log", core->dir));
  }
  return EMB_OK;
}

/* Starts reading an extent, from page `from` on.  *begun: 0 if the extent no
** longer exists. */
static int extents_begin(struct extents *e, struct reading *r, uint64_t from,
                         int *begun) {
  struct core *core = e->search->core;
  const struct layout *l = &core->layout;
  struct env_io *io = &r->io;
  void *buffer = io->buffer;
  r->number = from >> l->extent_bits;
  r->from = from;
  epoch_enter(&core->epoch, e->slot);
  uint64_t offset = log_offset(&core->log, r->number << l->extent_bits);
  uint64_t flushed = atomic_load(&core->log.flushed);
  epoch_leave(e->slot);
  r->to = (r->number + 1) << l->extent_bits;
  r->to = r->to < flushed ? r->to : flushed;
  *begun = offset != UINT64_MAX;
  if (!*begun) {
    return EMB_OK;
  }
  memset(io, 0, sizeof *io);
  io->file = core->log.file;
  io->buffer = buffer;
  io->bytes = l->extent_bytes;
  io->offset = offset;
  io->tag = r;
  int os = core->env->queue_submit(core->env, e->queue, &io, 1);
  if (os) {
    return exact_failed(
        e, err_os(&e->err, EMB_IOERR, os, "cannot read %s/log", core->dir));
  }
  return EMB_OK;
}

/* Waits for reads and compares the completed ones. */
static int extents_finish(struct extents *e, struct reading **free,
                          uint32_t *frees) {
  struct core *core = e->search->core;
  struct env_io *done[AHEAD_READS];
  size_t n = 0;
  int rc = EMB_OK;
  int os = core->env->queue_wait(core->env, e->queue, 1, done, AHEAD_READS, &n);
  if (os) {
    return exact_failed(
        e, err_os(&e->err, EMB_IOERR, os, "cannot read %s/log", core->dir));
  }
  for (size_t i = 0; i < n; i++) {
    struct reading *r = done[i]->tag;
    if (!rc && done[i]->result) {
      rc = err_os(&e->err, EMB_IOERR, done[i]->result,
                  "cannot read %s/log at offset %llu", core->dir,
                  (unsigned long long)done[i]->offset);
      exact_failed(e, rc);
    }
    count_add(&core->counters.read_bytes, core->layout.extent_bytes);
    rc = rc ? rc : extents_read(e, r);
    free[(*frees)++] = r;
  }
  return rc;
}

/* Compares the part of an extent that is in memory.  Returns the first page
** that must be read, or *end. */
static uint64_t extents_in_memory(struct extents *e, uint64_t number,
                                  uint64_t *end) {
  uint64_t page;
  extent_pages(e->search, number, &page, end);
  while (page < *end && extents_group(e, &page, *end)) {
  }
  return page;
}

void exact__extents(struct extents *e) {
  struct search *search = e->search;
  const struct layout *l = &search->core->layout;
  uint64_t last = (search->end - 1) >> l->extent_bits;
  struct reading readings[AHEAD_READS], *free[AHEAD_READS];
  uint32_t frees = AHEAD_READS;
  for (uint32_t i = 0; i < AHEAD_READS; i++) {
    free[i] = &readings[i];
  }
  while (exact_goes_on(e)) {
    uint64_t end, number = atomic_fetch_add_explicit(&search->next, 1,
                                                     memory_order_relaxed);
    if (number > last) {
      break;
    }
    uint64_t page = extents_in_memory(e, number, &end);
    if (page < end && !extents_open(e)) {
      struct reading *r = free[frees - 1];
      int begun;
      r->io.buffer = e->buffers + (size_t)(r - readings) * l->extent_bytes;
      frees -= !extents_begin(e, r, page, &begun) && begun;
    }
    if (frees == 0) {
      extents_finish(e, free, &frees);
    }
    atomic_fetch_add_explicit(&search->passed, 1, memory_order_relaxed);
  }
  while (frees < AHEAD_READS && exact_goes_on(e)) {
    extents_finish(e, free, &frees);
  }
  compare__blocks(e, 1);
  if (e->queue) {
    search->core->env->queue_close(search->core->env, e->queue);
  }
  if (e->buffers) {
    search->core->env->unmap(search->core->env, e->buffers,
                             (size_t)AHEAD_READS * l->extent_bytes);
  }
}
