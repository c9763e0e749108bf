/* SPDX-License-Identifier: MIT
**
** log.c -- the tail: handing out slots, closing pages, and the table of
** extents.  See log.h; writing to disk is log_flush.c, the file log_slots.c.
*/
#include "log.h"

#include <errno.h>
#include <string.h>

#define TABLE_START 256

int log_init(struct log *log, struct env *env, struct epoch *epoch,
             struct frames *frames, const struct layout *layout) {
  memset(log, 0, sizeof *log);
  log->env = env;
  log->epoch = epoch;
  log->frames = frames;
  log->layout = layout;
  pthread_mutex_init(&log->lock, NULL);
  pthread_mutex_init(&log->file_slot_lock, NULL);
  log->table = env->map(env, TABLE_START * sizeof *log->table, 0);
  if (!log->table) {
    return EMB_NOMEM;
  }
  log->table_mask = TABLE_START - 1;
  log_start_at(log, 1);
  log->first = 1;
  return log__slot_room(log, 0);
}

static void unmap_table(struct log *log) {
  if (log->table) {
    log->env->unmap(log->env, log->table,
                    (log->table_mask + 1) * sizeof *log->table);
  }
}

void log_free(struct log *log) {
  if (!log->env) {
    return;
  }
  if (log->file) {
    log->env->close(log->env, log->file);
  }
  unmap_table(log);
  log->env->release(log->env, log->phys_used);
  log->env->release(log->env, log->left);
  pthread_mutex_destroy(&log->lock);
  pthread_mutex_destroy(&log->file_slot_lock);
  log->env = NULL;
}

void log_start_at(struct log *log, uint64_t number) {
  uint64_t page = number << log->layout->extent_bits;
  memset(log->open, 0, sizeof log->open);
  atomic_store(&log->tail, page);
  atomic_store(&log->read_only, page);
  log->safe = page;
  atomic_store(&log->flushed, page);
  atomic_store(&log->synced, page);
  log->page_out_next = number;
}

void log_reset(struct log *log) {
  emb_assert(epoch_outside());
  for (uint64_t i = 0; i <= log->table_mask; i++) {
    struct extent *extent = &log->table[i];
    if (extent_phys(extent) == EXTENT_NOWHERE) {
      continue;
    }
    char *frame = atomic_load(&extent->frame);
    if (frame) {
      frames_give(log->frames, frame);
    }
    atomic_store(&extent->frame, NULL);
    extent_set_phys(extent, EXTENT_NOWHERE);
    atomic_store(&extent->live, 0);
  }
  if (log->phys_words) {
    memset(log->phys_used, 0, log->phys_words * sizeof *log->phys_used);
  }
  log->phys_end = log->phys_free = log->phys_hint = 0;
  log->ready_count = 0;
  log->keep = log->keep_min;
  log->left_count = 0;
  log->withheld = 0;
  atomic_store(&log->resident, 0);
  atomic_store(&log->last_tomb, 0);
  log->first = 1;
  log_start_at(log, 1);
}

/* Reads the partly filled extent into memory, if there is a frame and all pages
** up to the tail were written. */
static int resume_read(struct log *log, uint64_t start, uint64_t tail,
                       emb_err *err) {
  const struct layout *l = log->layout;
  char *frame = frames_take(log->frames, 0);
  if (!frame) {
    return EMB_OK;
  }
  int os = log->env->read(log->env, log->file, frame,
                          (size_t)(tail - start) * l->page_bytes,
                          log_offset(log, start));
  if (os) {
    frames_give(log->frames, frame);
    return err_os(err, EMB_IOERR, os, "cannot read the end of the log");
  }
  for (uint64_t page = start; page < tail; page++) {
    if (!page_valid(l, frame + layout_page_offset(l, page), log->salt, page)) {
      frames_give(log->frames, frame);
      return EMB_OK;
    }
    page_settle(l, frame + layout_page_offset(l, page));
  }
  atomic_store(&log_extent(log, start >> l->extent_bits)->frame, frame);
  atomic_fetch_add(&log->resident, 1);
  return EMB_OK;
}

int log_resume(struct log *log, uint64_t tail, emb_err *err) {
  const struct layout *l = log->layout;
  uint64_t start = tail & ~(uint64_t)(l->extent_pages - 1);
  if (start == tail) {
    return EMB_OK;
  }
  uint64_t number = tail >> l->extent_bits, lowest = log->page_out_next;
  if (!atomic_load(&log_extent(log, number)->frame)) {
    int rc = resume_read(log, start, tail, err);
    if (rc || !atomic_load(&log_extent(log, number)->frame)) {
      return rc; /* the log goes on in a new extent */
    }
  }
  log_start_at(log, number);
  /* See log_restore. */
  log->page_out_next =
      lowest < number && !EMB_SEED(SEED_WARMED_EXTENT_STAYS) ? lowest : number;
  atomic_store(&log->tail, tail);
  atomic_store(&log->read_only, tail);
  log->safe = tail;
  atomic_store(&log->flushed, tail);
  atomic_store(&log->synced, tail);
  return EMB_OK;
}

/* ---- table --------------------------------------------------------------- */

int log_table_full(struct log *log) {
  pthread_mutex_lock(&log->lock);
  int full = log__is_full(log);
  pthread_mutex_unlock(&log->lock);
  return full;
}

/* Doubles the table; it holds only the numbers up to the tail's. */
static int double_table(struct log *log) {
  uint64_t count = (log->table_mask + 1) * 2;
  struct extent *table = log->env->map(log->env, count * sizeof *table, 0);
  if (!table) {
    return EMB_NOMEM;
  }
  uint64_t last = atomic_load(&log->tail) >> log->layout->extent_bits;
  for (uint64_t e = log->first; e <= last && e - log->first <= log->table_mask;
       e++) {
    struct extent *from = log_extent(log, e), *to = &table[e & (count - 1)];
    if (extent_phys(from) != EXTENT_NOWHERE) {
      atomic_store(&to->frame, atomic_load(&from->frame));
      atomic_store(&to->phys_inverted, atomic_load(&from->phys_inverted));
      atomic_store(&to->live, atomic_load(&from->live));
      atomic_store(&to->due, atomic_load(&from->due));
      atomic_store(&to->left, atomic_load(&from->left));
    }
  }
  unmap_table(log);
  log->table = table;
  log->table_mask = count - 1;
  return EMB_OK;
}

int log_grow_table(struct log *log) {
  epoch_close(log->epoch);
  pthread_mutex_lock(&log->lock);
  int rc = EMB_OK;
  if (log__numbers_full(log)) {
    rc = log->table_mask + 1 >= LOG_SPAN_MAX ? EMB_FULL : double_table(log);
  }
  rc = rc ? rc : log__slot_room(log, log->phys_end);
  pthread_mutex_unlock(&log->lock);
  epoch_open(log->epoch);
  return rc;
}

int log_fit_table(struct log *log, uint64_t number) {
  int rc = EMB_OK;
  while (!rc && number - log->first + 2 > log->table_mask) {
    rc = double_table(log);
  }
  return rc;
}

int log_adopt(struct log *log, uint64_t number, uint32_t phys) {
  int rc = log_fit_table(log, number);
  rc = rc ? rc : log__slot_room(log, phys);
  if (rc) {
    return rc;
  }
  if (atomic_load(&log->tail) < number << log->layout->extent_bits) {
    atomic_store(&log->tail, number << log->layout->extent_bits);
  }
  if (phys >= log->phys_end) {
    log->phys_free += phys - log->phys_end;
    log->phys_end = phys + 1;
  } else {
    log->phys_free--;
  }
  log__slot_set(log, phys, 1);
  struct extent *extent = log_extent(log, number);
  extent_set_phys(extent, phys);
  atomic_store(&extent->live, 0);
  atomic_store(&extent->due, 0);
  atomic_store(&extent->left, 0);
  return EMB_OK;
}

/* ---- the tail ------------------------------------------------------------ */

/* Starts the extent whose first page is the tail. */
static int start_extent(struct log *log, uint64_t page) {
  if (log__numbers_full(log) || !log->ready_count) {
    return LOG_ROOM;
  }
  char *frame = frames_take(log->frames, 0);
  if (!frame) {
    return LOG_ROOM;
  }
  uint32_t phys = log__slot_take(log);
  struct extent *extent = log_extent(log, page >> log->layout->extent_bits);
  emb_assert(extent_phys(extent) == EXTENT_NOWHERE);
  emb_assert(!atomic_load(&extent->frame));
  atomic_store(&extent->live, 0);
  atomic_store(&extent->due, EXTENT_NEVER);
  atomic_store(&extent->left, 0);
  extent_set_phys(extent, phys);
  atomic_store_explicit(&extent->frame, frame, memory_order_release);
  atomic_fetch_add_explicit(&log->resident, 1, memory_order_relaxed);
  return EMB_OK;
}

static void close_page(struct log *log, struct log_open *open, uint32_t flags) {
  emb_assert(open->page >= atomic_load(&log->read_only)); /* L2 */
  emb_assert(log_page(log, open->page));
  page_set_info(log_page(log, open->page),
                page_info(open->kind, flags, open->used, open->txn));
  open->page = 0;
}

/* kept: the page may use the kept file slots. */
static int open_page(struct log *log, struct log_open *open, uint32_t kind,
                     uint64_t txn, int kept) {
  const struct layout *l = log->layout;
  uint64_t page = atomic_load_explicit(&log->tail, memory_order_relaxed);
  int first = (page & (l->extent_pages - 1)) == 0;
  if (page >> (WORD_ADDRESS_LIMIT_BITS - l->slot_bits)) {
    return EMB_FULL;
  }
  if (!kept && !EMB_SEED(SEED_DELETION_SPACE_SPENT) &&
      log->ready_count < log->keep + (uint32_t)first) {
    return LOG_ROOM;
  }
  if (first) {
    int rc = start_extent(log, page);
    if (rc) {
      return rc;
    }
  }
  if (open->page) {
    close_page(log, open, 0);
  }
  memset(log_page(log, page), 0, l->page_bytes);
  page_set_info(log_page(log, page), page_info(kind, 0, 0, txn));
  *open = (struct log_open){page, kind, 0, txn};
  atomic_store_explicit(&log->tail, page + 1, memory_order_release);
  if ((kind & PAGE_KIND_MASK) == PAGE_TOMB) {
    extent_set_tombs(log_extent(log, page >> l->extent_bits));
    atomic_store_explicit(&log->last_tomb, page, memory_order_release);
  }
  return EMB_OK;
}

static uint32_t page_capacity(const struct layout *l, uint32_t kind) {
  switch (kind) {
  case PAGE_DATA:
    return l->slots;
  case PAGE_TOMB:
    return l->tombs;
  default:
    return l->tombs / 2;
  }
}

int log_take(struct log *log, struct log_run *run, uint32_t kind,
             uint32_t want) {
  struct log_open *open = &log->open[run->stream];
  int kept = run->kept || (kind & PAGE_KIND_MASK) != PAGE_DATA;
  int rc = EMB_OK;
  pthread_mutex_lock(&log->lock);
  uint32_t room = page_capacity(log->layout, kind & PAGE_KIND_MASK);
  if (!open->page || open->kind != kind || open->txn != run->txn ||
      open->used == room) {
    rc = open_page(log, open, kind, run->txn, kept);
  }
  if (rc == EMB_OK) {
    run->page = open->page;
    run->slot = open->used;
    run->left = want < room - open->used ? want : room - open->used;
    open->used += run->left;
    /* L2: these slots are filled before the page is written. */
    emb_assert(run->left > 0 && open->page >= atomic_load(&log->read_only) &&
               open->page < atomic_load(&log->tail));
  }
  pthread_mutex_unlock(&log->lock);
  return rc;
}

void log_close(struct log *log, int stream) {
  struct log_open *open = &log->open[stream];
  pthread_mutex_lock(&log->lock);
  if (open->page) {
    close_page(log, open, 0);
  }
  pthread_mutex_unlock(&log->lock);
}

int log_end_txn(struct log *log, uint32_t flags, uint64_t txn) {
  struct log_open *open = &log->open[LOG_TXN];
  pthread_mutex_lock(&log->lock);
  int rc = open->page ? EMB_OK : open_page(log, open, PAGE_VOID, txn, 1);
  if (rc == EMB_OK) {
    close_page(log, open, flags);
  }
  pthread_mutex_unlock(&log->lock);
  return rc;
}

int log_pad(struct log *log, uint64_t phys) {
  const struct layout *l = log->layout;
  struct log_open *open = &log->open[LOG_IMMEDIATE];
  int did = 0;
  pthread_mutex_lock(&log->lock);
  uint64_t tail = atomic_load(&log->tail);
  if ((tail & (l->extent_pages - 1)) &&
      extent_phys(log_extent(log, tail >> l->extent_bits)) >= phys) {
    while (atomic_load(&log->tail) & (l->extent_pages - 1)) {
      did |= open_page(log, open, PAGE_DATA, 0, 1) == EMB_OK;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return did;
}

int log_skip_page(struct log *log, uint64_t *page) {
  struct log_open *open = &log->open[LOG_IMMEDIATE];
  pthread_mutex_lock(&log->lock);
  int rc = open_page(log, open, PAGE_DATA, 0, 1);
  *page = open->page;
  if (rc == EMB_OK) {
    close_page(log, open, 0);
  }
  pthread_mutex_unlock(&log->lock);
  return rc;
}

uint64_t log_cut(struct log *log, uint64_t *first) {
  pthread_mutex_lock(&log->lock);
  for (int i = 0; i < LOG_STREAMS; i++) {
    if (log->open[i].page) {
      close_page(log, &log->open[i], 0);
    }
  }
  if (first) {
    *first = log->first << log->layout->extent_bits;
  }
  uint64_t tail = atomic_load(&log->tail);
  pthread_mutex_unlock(&log->lock);
  return tail;
}

void log_close_older(struct log *log, int stream, uint64_t page) {
  pthread_mutex_lock(&log->lock);
  if (log->open[stream].page && log->open[stream].page <= page) {
    close_page(log, &log->open[stream], 0);
  }
  pthread_mutex_unlock(&log->lock);
}

uint64_t log_position(struct log *log, int stream) {
  const struct layout *l = log->layout;
  struct log_open *open = &log->open[stream];
  pthread_mutex_lock(&log->lock);
  uint64_t position =
      open->page && open->kind == PAGE_DATA && open->used < l->slots
          ? layout_address(l, open->page, open->used)
          : layout_address(l, atomic_load(&log->tail), 0);
  pthread_mutex_unlock(&log->lock);
  return position;
}

uint64_t log_seal(struct log *log, uint64_t page) {
  pthread_mutex_lock(&log->lock);
  uint64_t tail = atomic_load(&log->tail);
  page = page < tail ? page : tail;
  for (int i = 0; i < LOG_STREAMS; i++) {
    if (log->open[i].page && log->open[i].page < page) {
      close_page(log, &log->open[i], 0);
    }
  }
  if (page > atomic_load(&log->read_only)) {
    atomic_store(&log->read_only, page);
  }
  pthread_mutex_unlock(&log->lock);
  if (page > log->safe) {
    epoch_wait(log->epoch);
    log->safe = page;
  }
  emb_check(log_valid(log));
  return page;
}

/* ---- giving space back --------------------------------------------------- */

void log_drop(struct log *log, uint64_t number) {
  struct extent *extent = log_extent(log, number);
  emb_assert(atomic_load(&extent->live) == 0); /* L4: no word names it */
  char *frame = atomic_exchange(&extent->frame, NULL);
  pthread_mutex_lock(&log->lock);
  uint32_t phys = extent_phys(extent);
  extent_set_phys(extent, EXTENT_NOWHERE);
  if (phys != EXTENT_NOWHERE && !EMB_SEED(SEED_EXTENT_NOT_REUSED)) {
    log__slot_set(log, phys, 0);
    log->phys_free++;
  }
  uint64_t tail = atomic_load(&log->tail) >> log->layout->extent_bits;
  while (log->first < tail &&
         extent_phys(log_extent(log, log->first)) == EXTENT_NOWHERE) {
    log->first++;
  }
  pthread_mutex_unlock(&log->lock);
  if (frame) {
    atomic_fetch_sub_explicit(&log->resident, 1, memory_order_relaxed);
    epoch_wait(log->epoch);
    frames_give(log->frames, frame);
  }
}
