/* SPDX-License-Identifier: MIT
**
** warm.c -- see warm.h; README.md has the steps of a warm-up.
*/
#include "warm.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/owner/own.h"

#include <stdlib.h>
#include <string.h>

#include "engine/table/session/session.h"
#include "engine/table/store/metrics.h"

/* Unwanted bytes that one request may include. */
#define GAP_BYTES 65536u
/* Maximum time that a round reads before it looks for other work. */
#define ROUND_US UINT64_C(20000)
/* A piece that runs while Gets read the disk is one extent, plus one more for
** every PAGES_OF_GETS pages that they read since the last piece: a call with a
** hundred reads in flight waits for the last of them, which one more read
** hardly delays. */
#define PAGES_OF_GETS 32
/* After each checkpoint that a reader loads there are records to read: those
** that changed (kernel/resident.c), and those that were in its cache. */
#define AGAIN_US UINT64_C(10000000)

_Static_assert(EXTENT_BYTES_TARGET / PAGE_UNIT <= 64, "a bit for each page");

struct piece { /* one request */
  struct env_io io;
  struct warm_item item;
  uint64_t valid; /* a bit for each page from item.from on */
};

/* On failure the store is simply not warmed. */
static int warm_init(emb_store *store, emb_err *err) {
  (void)err;
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  pthread_mutex_init(&w->lock, NULL);
  core->cold = (store->config.flags & EMB_OPEN_COLD) != 0;
  atomic_store(&w->state,
               core->cold || core->temporary ? WARM_OFF : WARM_RUNNING);
  return EMB_OK;
}

/* ---- extents ------------------------------------------------------------- */

/* Returns the live records of an extent that is complete in the file and not in
** memory; 0: nothing to read.  Under the log's lock. */
static int32_t wanted_records(struct core *core, uint64_t number) {
  struct log *log = &core->log;
  if (number < log->first ||
      number >= atomic_load(&log->flushed) >> core->layout.extent_bits) {
    return 0;
  }
  struct extent *extent = log_extent(log, number);
  int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
  return extent_phys(extent) != EXTENT_NOWHERE && live > 0 &&
                 !atomic_load_explicit(&extent->frame, memory_order_relaxed)
             ? live
             : 0;
}

/* Fills in the extent's position.  Returns 0 if it need not be read. */
static int warm_find(struct core *core, struct warm_item *item,
                     uint64_t *offset) {
  struct log *log = &core->log;
  pthread_mutex_lock(&log->lock);
  int found = wanted_records(core, item->number) != 0;
  if (found) {
    item->phys = extent_phys(log_extent(log, item->number));
    *offset = log_offset(log, (item->number << core->layout.extent_bits) +
                                  item->from);
  }
  pthread_mutex_unlock(&log->lock);
  return found;
}

static int warm_by_file_slot(const void *a, const void *b) {
  const struct warm_item *x = a, *y = b;
  return x->phys != y->phys ? (x->phys < y->phys ? -1 : 1)
                            : (x->from > y->from) - (x->from < y->from);
}

static void sort_items(struct warm *w) {
  if (w->count) {
    qsort(w->items, w->count, sizeof *w->items, warm_by_file_slot);
  }
}

static int warm_add(emb_store *store, const struct warm_item *item) {
  struct warm *w = warm_of(store);
  struct env *env = store->core.env;
  if (w->count == w->room) {
    size_t room = w->room ? w->room * 2 : 256;
    void *larger = env->resize(env, w->items, room * sizeof *w->items);
    if (!larger) {
      return 0;
    }
    w->items = larger;
    w->room = room;
  }
  w->items[w->count++] = *item;
  return 1;
}

/* ---- planning ------------------------------------------------------------ */

static void warm_stop(emb_store *store, int failed) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  struct env *env = core->env;
  if (failed) {
    count_add(&core->counters.warm_errors, 1);
  }
  w->failed |= failed;
  hot__close(&w->hot);
  if (w->queue) {
    env->queue_close(env, w->queue);
    w->queue = NULL;
  }
  if (w->buffer) {
    env->unmap(env, w->buffer, (size_t)WARM_DEPTH * core->layout.extent_bytes);
    w->buffer = NULL;
  }
  env->release(env, w->items);
  w->items = NULL;
  w->next = w->count = w->room = 0;
  w->ended_us = env->now_us(env);
  w->planned = 0;
  atomic_store_explicit(&core->warmed, !w->failed, memory_order_relaxed);
  atomic_store(&w->state, WARM_DONE);
}

static void warm_start(emb_store *store) {
  struct warm *w = warm_of(store);
  if (atomic_load(&w->state) == WARM_RUNNING && w->planned) {
    warm_stop(store, 0);
  }
  w->planned = w->failed = 0;
  atomic_store_explicit(&store->core.warmed, 0, memory_order_relaxed);
  atomic_store(&w->state, WARM_RUNNING);
  emb_check(warm_valid(store));
}

/* Plans every extent with live records.  Returns 0 if out of memory. */
static int plan_all(emb_store *store, int packed) {
  struct core *core = &store->core;
  struct log *log = &core->log;
  uint64_t e = 1, end = 1;
  for (int good = 1; good; e++) {
    struct warm_item item = {.to = core->layout.extent_pages};
    pthread_mutex_lock(&log->lock);
    e = e < log->first ? log->first : e;
    end = atomic_load(&log->flushed) >> core->layout.extent_bits;
    int32_t live = e < end ? wanted_records(core, e) : 0;
    if (live) {
      item.number = e;
      item.phys = extent_phys(log_extent(log, e));
      item.kind = packed && hot_is_sparse(core, live) ? ITEM_ALL : ITEM_WHOLE;
    }
    pthread_mutex_unlock(&log->lock);
    if (live && !warm_add(store, &item)) {
      return 0;
    }
    good = e < end;
  }
  return 1;
}

/* Determines how much of the hot set fits. */
static void plan_hot(emb_store *store) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  const struct hot_head *head = &w->hot.head;
  uint64_t left = frames_left(&core->frames), low = core_low_water(core);
  uint64_t slots =
      core->cache.slots_per_frame ? core->cache.slots_per_frame : 1;
  uint64_t need = 0;
  left = left > low ? left - low : 0;
  for (w->heat = 1; w->heat <= 3; w->heat++) {
    uint64_t rows = 0;
    for (uint32_t heat = w->heat; heat <= 3; heat++) {
      rows +=
          head->rows[heat - 1] < UINT32_MAX ? head->rows[heat - 1] : UINT32_MAX;
    }
    need = rows ? (rows + rows / 16) / slots + 1 : 0;
    if (need <= left) {
      break;
    }
  }
  if (w->heat > 3) {
    w->heat = 3;
    need = left;
  }
  left -= need;
  w->skip_whole = head->extents > left ? head->extents - left : 0;
}

static int warm_plan(emb_store *store) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  struct env *env = core->env;
  uint32_t frames = frames_count(&core->frames), low = core_low_water(core);
  int fits = hot__fits(core, frames > low ? frames - low : 0);
  w->planned = 1;
  w->next = w->count = 0;
  w->hot = (struct hot_reading){.core = core};
  if (!w->slot) {
    w->slot = epoch_join(&core->epoch);
  }
  if (!w->slot) {
    return 0;
  }
  if (fits) {
    if (!plan_all(store, fits == HOT_FITS_PACKED)) {
      return 0;
    }
    sort_items(w);
  } else {
    uint64_t before = atomic_load(&core->counters.warm_errors);
    if (hot__open(&w->hot, core)) {
      plan_hot(store);
    }
    /* A damaged hot-set file may be replaced. */
    w->failed |= atomic_load(&core->counters.warm_errors) != before;
  }
  if (!w->count && !w->hot.file) {
    return 1;
  }
  return env->queue_open(env, core->queue_kind, WARM_REQUESTS, &w->queue) == 0;
}

/* ---- a block of the hot set ---------------------------------------------- */

struct runs { /* of pages read together */
  emb_store *store;
  struct warm_item item; /* to == 0: none begun */
  uint32_t gap;
  int good;
};

static void end_run(struct runs *r) {
  if (r->item.to && r->good) {
    r->good = warm_add(r->store, &r->item);
  }
  r->item.to = 0;
}

static void add_page(struct runs *r, uint32_t page) {
  if (r->item.to && (page < r->item.from || page > r->item.to + r->gap)) {
    end_run(r);
  }
  if (!r->item.to) {
    r->item.from = page;
    r->item.to = page + 1;
  } else if (page >= r->item.to) {
    r->item.to = page + 1;
  }
}

/* Adds records of one extent, words[from..to) of the block. */
static void add_list(struct runs *r, const uint64_t *words, uint32_t from,
                     uint32_t to) {
  const struct layout *l = &r->store->core.layout;
  r->item.kind = ITEM_LIST;
  r->item.first = from;
  r->item.last = to;
  for (uint32_t i = from; i < to; i++) {
    if (words[i] >> HOT_KIND_SHIFT >= warm_of(r->store)->heat) {
      add_page(r, (uint32_t)(layout_page(l, words[i] & WORD_ADDRESS_MASK) &
                             (l->extent_pages - 1)));
    }
  }
  end_run(r);
}

static void add_map(struct runs *r, const uint64_t *words, uint32_t from) {
  const struct layout *l = &r->store->core.layout;
  r->item.kind = ITEM_MAP;
  r->item.first = from;
  for (uint32_t slot = 0; slot < l->slots * l->extent_pages; slot++) {
    if (hot_in_map(words + from, slot) >= warm_of(r->store)->heat) {
      add_page(r, slot / l->slots);
    }
  }
  end_run(r);
}

static void add_whole(struct runs *r) {
  struct core *core = &r->store->core;
  struct warm *w = warm_of(r->store);
  if (w->skip_whole) {
    w->skip_whole--;
    return;
  }
  pthread_mutex_lock(&core->log.lock);
  int32_t live = wanted_records(core, r->item.number);
  int sparse = hot_is_sparse(core, live);
  pthread_mutex_unlock(&core->log.lock);
  r->item.kind = sparse ? ITEM_ALL : ITEM_WHOLE;
  r->item.from = 0;
  r->item.to = live ? core->layout.extent_pages : 0;
  end_run(r);
}

/* Returns how many words from `at` on belong to one extent; 0: invalid. */
static uint32_t extent_words(const struct warm *w, const struct layout *l,
                             const uint64_t *words, uint32_t at) {
  uint32_t to = at + 1;
  if (!(words[at] >> HOT_KIND_SHIFT)) {
    uint64_t n = words[at] >> HOT_WORDS_SHIFT;
    return !n || (n == hot_map_words(l) && n < w->words - at) ? (uint32_t)n + 1
                                                              : 0;
  }
  uint64_t number = layout_extent(l, words[at] & WORD_ADDRESS_MASK);
  while (to < w->words && words[to] >> HOT_KIND_SHIFT &&
         layout_extent(l, words[to] & WORD_ADDRESS_MASK) == number) {
    to++;
  }
  return to - at;
}

/* Plans the records of the next block.  Returns 0 if out of memory. */
static int next_block(emb_store *store) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  const struct layout *l = &core->layout;
  const uint64_t *words = w->hot.block->u.pairs;
  struct runs r = {.store = store, .gap = GAP_BYTES / l->page_bytes, .good = 1};
  uint64_t offset;
  w->next = w->count = 0;
  for (uint32_t at = 0, n; at < w->words && r.good; at += n) {
    uint64_t address = words[at] & WORD_ADDRESS_MASK;
    uint64_t kind = words[at] >> HOT_KIND_SHIFT;
    n = extent_words(w, l, words, at);
    if (!n) {
      count_add(&core->counters.warm_damaged, 1);
      w->words = 0;
      break;
    }
    r.item = (struct warm_item){.number =
                                    kind ? layout_extent(l, address) : address};
    if (!warm_find(core, &r.item, &offset)) {
      continue;
    }
    if (kind) {
      add_list(&r, words, at, at + n);
    } else if (n > 1) {
      add_map(&r, words, at + 1);
    } else {
      add_whole(&r);
    }
  }
  sort_items(w);
  return r.good;
}

/* ---- the records read ---------------------------------------------------- */

struct use {
  emb_store *store;
  const struct piece *piece;
  uint64_t rows;
  int full;
};

/* Puts one record into the cache, if it is still its key's.  Inside an
** epoch. */
static void use_record(struct use *u, uint32_t page, uint32_t slot,
                       uint32_t freq) {
  struct core *core = &u->store->core;
  const struct layout *l = &core->layout;
  const struct warm_item *item = &u->piece->item;
  const char *bytes = (const char *)u->piece->io.buffer +
                      (size_t)(page - item->from) * l->page_bytes;
  if (u->full || slot >= l->slots ||
      !(u->piece->valid >> (page - item->from) & 1) ||
      page_kind(bytes) != PAGE_DATA) {
    return;
  }
  const struct rec *rec =
      (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                         (size_t)slot * l->rec_bytes);
  uint64_t version =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  struct cache_offer offer = {
      .key = key,
      .hash = hash_key(key),
      .address =
          layout_address(l, (item->number << l->extent_bits) + page, slot),
      .value = rec->vector,
      .version = version,
      .freq = freq};
  int got = version ? promote_offer_warm(core, &offer, core_low_water(core))
                    : CACHE_MOVED;
  u->rows += got == CACHE_PROMOTED;
  u->full = got == CACHE_REFUSED;
}

static void use_all(struct use *u) {
  struct core *core = &u->store->core;
  for (uint32_t page = u->piece->item.from; page < u->piece->item.to; page++) {
    epoch_enter(&core->epoch, warm_of(u->store)->slot);
    for (uint32_t slot = 0; slot < core->layout.slots; slot++) {
      use_record(u, page, slot, 0);
    }
    epoch_leave(warm_of(u->store)->slot);
  }
}

static void use_one(struct use *u, uint32_t page, uint32_t slot,
                    uint64_t heat) {
  const struct warm_item *item = &u->piece->item;
  if (page >= item->from && page < item->to &&
      heat >= warm_of(u->store)->heat) {
    epoch_enter(&u->store->core.epoch, warm_of(u->store)->slot);
    use_record(u, page, slot, (uint32_t)heat - 1);
    epoch_leave(warm_of(u->store)->slot);
  }
}

static void use_list(struct use *u) {
  const struct layout *l = &u->store->core.layout;
  const uint64_t *words = warm_of(u->store)->hot.block->u.pairs;
  for (uint32_t i = u->piece->item.first; i < u->piece->item.last; i++) {
    uint64_t address = words[i] & WORD_ADDRESS_MASK;
    use_one(u, (uint32_t)(layout_page(l, address) & (l->extent_pages - 1)),
            layout_slot(l, address), words[i] >> HOT_KIND_SHIFT);
  }
}

static void use_map(struct use *u) {
  const struct layout *l = &u->store->core.layout;
  const uint64_t *map =
      warm_of(u->store)->hot.block->u.pairs + u->piece->item.first;
  for (uint32_t slot = u->piece->item.from * l->slots;
       slot < u->piece->item.to * l->slots; slot++) {
    uint32_t heat = hot_in_map(map, slot);
    if (heat) {
      use_one(u, slot / l->slots, slot % l->slots, heat);
    }
  }
}

/* Returns the extent's live records that are not in memory. */
static uint64_t warm_rows_wanted(struct core *core, uint64_t number) {
  pthread_mutex_lock(&core->log.lock);
  uint64_t rows = (uint64_t)wanted_records(core, number);
  pthread_mutex_unlock(&core->log.lock);
  return rows;
}

/* Returns 0 if memory is full. */
static int use_piece(emb_store *store, struct piece *p) {
  struct core *core = &store->core;
  const struct layout *l = &core->layout;
  struct use u = {.store = store, .piece = p};
  uint64_t first = (p->item.number << l->extent_bits) + p->item.from;
  if (p->io.result) {
    warm_of(store)->failed = 1;
    count_add(&core->counters.warm_errors, 1);
    if (p->item.kind == ITEM_WHOLE) {
      frames_give(&core->frames, p->io.buffer);
    }
    return 1;
  }
  for (uint32_t i = 0; i < p->io.bytes / l->page_bytes; i++) {
    const char *bytes = (char *)p->io.buffer + (size_t)i * l->page_bytes;
    p->valid |= (uint64_t)(page_valid(l, bytes, core->salt, first + i) != 0)
                << i;
  }
  if (p->item.kind == ITEM_LIST) {
    use_list(&u);
  } else if (p->item.kind == ITEM_MAP) {
    use_map(&u);
  } else if (p->item.kind == ITEM_ALL) {
    use_all(&u);
  } else {
    u.rows = warm_rows_wanted(core, p->item.number);
    if (!core_restore(core, p->item.number, p->io.buffer, p->valid)) {
      u.rows = 0;
      if (warm_rows_wanted(core, p->item.number)) {
        use_all(&u);
      }
      frames_give(&core->frames, p->io.buffer);
    }
  }
  count_add(&core->counters.warm_rows, u.rows);
  count_add(&core->counters.warm_bytes, p->io.bytes);
  count_add(&core->counters.read_bytes, p->io.bytes);
  return !u.full;
}

/* Leaves out the blank pages at its end: in a small table, most of an
** extent. */
static uint32_t pages_to_read(const struct core *core,
                              const struct warm_item *item) {
  uint64_t first = item->number << core->layout.extent_bits;
  uint32_t to = item->to;
  while (to > item->from + 1 && core_is_blank(core, first + to - 1)) {
    to--;
  }
  return to - item->from;
}

/* ---- a piece ------------------------------------------------------------- */

/* Prepares requests for the next items, at most this many bytes.  *full: no
** frame is left. */
static uint32_t gather_pieces(emb_store *store, struct piece *pieces,
                              size_t bytes, int *full) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  struct env *env = core->env;
  const struct layout *l = &core->layout;
  size_t used = 0;
  uint32_t n = 0;
  while (n < WARM_REQUESTS && w->next < w->count && !*full) {
    struct piece *p = &pieces[n];
    *p = (struct piece){.item = w->items[w->next]};
    size_t length = (size_t)pages_to_read(core, &p->item) * l->page_bytes;
    if (n && used + length > bytes) {
      break;
    }
    w->next++;
    if (!warm_find(core, &p->item, &p->io.offset)) {
      continue;
    }
    if (p->item.kind == ITEM_WHOLE) {
      p->io.buffer = frames_take(
          &core->frames, core_low_water(core) + frames_excess(&core->frames));
      *full = !p->io.buffer;
    } else {
      if (!w->buffer) {
        w->buffer = env->map(env, (size_t)WARM_DEPTH * l->extent_bytes, 0);
      }
      p->io.buffer = w->buffer ? w->buffer + used : NULL;
      w->failed |= !w->buffer;
    }
    if (p->io.buffer) {
      p->io.file = core->log.file;
      p->io.bytes = (uint32_t)length;
      used += length;
      n++;
    }
  }
  return n;
}

/* Reads all pieces.  Returns 0 if the queue is no longer usable. */
static int fetch_pieces(emb_store *store, struct piece *pieces, uint32_t n) {
  struct warm *w = warm_of(store);
  struct env *env = store->core.env;
  struct env_io *list[WARM_REQUESTS];
  uint32_t done = 0;
  for (uint32_t i = 0; i < n; i++) {
    list[i] = &pieces[i].io;
  }
  int os = env->queue_submit(env, w->queue, list, n);
  while (!os && done < n) {
    size_t got = 0;
    os = env->queue_wait(env, w->queue, 1, list, WARM_REQUESTS, &got);
    done += (uint32_t)got;
  }
  if (os) {
    env->queue_close(env, w->queue); /* waits for requests in flight */
    w->queue = NULL;
  }
  for (uint32_t i = 0; os && i < n; i++) {
    pieces[i].io.result = os;
  }
  return !os;
}

static void read_some(emb_store *store, size_t bytes) {
  struct warm *w = warm_of(store);
  struct piece pieces[WARM_REQUESTS];
  int full = 0;
  if (w->next == w->count && w->hot.file) {
    w->words = hot__next(&w->hot);
    if (!w->words) {
      hot__close(&w->hot);
    } else if (!next_block(store)) {
      warm_stop(store, 1);
      return;
    }
  }
  uint32_t n = gather_pieces(store, pieces, bytes, &full);
  int good = n ? fetch_pieces(store, pieces, n) : 1;
  for (uint32_t i = 0; i < n; i++) {
    full |= !use_piece(store, &pieces[i]);
  }
  if (full || !good || (w->next == w->count && !w->hot.file)) {
    warm_stop(store, 0);
  }
}

/* Under the lock.  rest: give way to Gets that read the disk. */
static void warm_step(emb_store *store, int rest, uint64_t *rest_us) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t now = env->now_us(env);
  uint64_t loaded = atomic_load(&store->own.loaded);
  if (loaded != atomic_load(&w->seen_loaded)) {
    /* Some of the records read are no longer in memory. */
    int again = atomic_load(&w->state) == WARM_DONE && !core->cold;
    if (!again || now - w->ended_us >= AGAIN_US) {
      atomic_store(&w->seen_loaded, loaded);
      if (again || atomic_load(&w->state) == WARM_RUNNING) {
        warm_start(store);
      }
    }
  }
  if (atomic_load(&w->state) != WARM_RUNNING) {
    return;
  }
  uint64_t pages = atomic_load(&core->counters.read_pages);
  uint64_t others = rest ? pages - w->seen_pages : 0; /* since the last piece */
  uint64_t most = others ? 1 + others / PAGES_OF_GETS : WARM_DEPTH;
  w->seen_pages = pages;
  if (!w->planned && !warm_plan(store)) {
    warm_stop(store, 1);
  } else {
    read_some(store, (size_t)(most < WARM_DEPTH ? most : WARM_DEPTH) *
                         core->layout.extent_bytes);
  }
  uint64_t took = env->now_us(env) - now;
  count_add(&core->counters.warm_us, took);
  *rest_us = others || atomic_load(&core->counters.read_pages) != w->seen_pages
                 ? took / 4
                 : 0;
  emb_check(warm_valid(store));
}

/* ---- entry points -------------------------------------------------------- */

static int is_running(emb_store *store) {
  return atomic_load(&warm_of(store)->state) == WARM_RUNNING;
}

/* Reads one piece, in step mode.  Returns 1 if there is more. */
static int warm_piece(emb_store *store) {
  struct warm *w = warm_of(store);
  uint64_t rest;
  pthread_mutex_lock(&w->lock);
  warm_step(store, 0, &rest);
  int more = is_running(store);
  pthread_mutex_unlock(&w->lock);
  return more;
}

int warm_is_small(emb_store *store) {
  struct core *core = &store->core;
  struct log *log = &core->log;
  pthread_mutex_lock(&core->flush_lock); /* excludes a load */
  pthread_mutex_lock(&log->lock);
  uint64_t extents = log_extents_used(log);
  pthread_mutex_unlock(&log->lock);
  pthread_mutex_unlock(&core->flush_lock);
  return extents <= WARM_DEPTH;
}

/* Reads pieces for some milliseconds, with rests, on a thread.  Returns 1 if
** there is more. */
static int warm_round(emb_store *store) {
  struct warm *w = warm_of(store);
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t began = env->now_us(env);
  int more = 1;
  while (more && !core_stopping(core) && env->now_us(env) - began < ROUND_US) {
    uint64_t rest = 0;
    pthread_mutex_lock(&w->lock);
    warm_step(store, 1, &rest);
    more = is_running(store);
    pthread_mutex_unlock(&w->lock);
    if (more && rest) {
      pthread_mutex_lock(&core->wake_lock);
      if (!core->stopping) {
        env->wait_us(env, &core->stopped, &core->wake_lock, rest);
      }
      pthread_mutex_unlock(&core->wake_lock);
    }
  }
  return more;
}

static int warm_due(struct pass *pass) {
  emb_store *store = pass->store;
  return is_running(store) || atomic_load(&store->own.loaded) !=
                                  atomic_load(&warm_of(store)->seen_loaded);
}

static int warm_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  int more = pass->by_thread ? warm_round(store) : warm_piece(store);
  (void)err;
  *did = more ? PIECE_MORE : PIECE_DONE;
  return EMB_OK;
}

static uint64_t warm_rest(struct pass *pass) {
  return warm_due(pass) ? 0 : TASKS_NEVER;
}

static const struct task task_warm = {
    TASK_NAMED("warm"), .lane = LANE_AFTER, .due = warm_due,
    .rest = warm_rest,  .run = warm_run,
};

int local_warm(emb_session *s) {
  emb_store *store = s->store;
  struct warm *w = warm_of(store);
  int rc = session_begin(s), begun = 0, more = 1;
  rc = rc ? rc : own_refresh(s);
  while (!rc && more) {
    uint64_t rest;
    pthread_mutex_lock(&w->lock);
    if (!begun && !is_running(store)) {
      warm_start(store);
    }
    begun = 1;
    warm_step(store, 0, &rest);
    more = is_running(store);
    pthread_mutex_unlock(&w->lock);
    rc = session_interrupted(s);
  }
  return rc;
}

/* A process that never owned the store writes its own hot set. */
static void warm_leave(emb_store *store) {
  struct core *core = &store->core;
  struct manifest m;
  if (atomic_load(&store->own.is_owner) || core->temporary || core->cold ||
      atomic_load(&store->own.readonly) ||
      manifest_read(core->env, core->dir, &m, NULL) || !m.clean ||
      m.generation != store->checkpoint.manifest.generation ||
      memcmp(m.uuid, core->uuid, sizeof m.uuid) != 0) {
    return; /* the owner has a newer one, or will */
  }
  hot__write(core, store->work_slot);
}

static void warm_free(emb_store *store) {
  struct warm *w = warm_of(store);
  if (w->planned) {
    warm_stop(store, 0);
  }
  pthread_mutex_destroy(&w->lock);
}

static const char *warm_state(emb_store *store) {
  static const char *const names[] = {"off", "running", "done"};
  return names[atomic_load_explicit(&warm_of(store)->state,
                                    memory_order_relaxed)];
}

/* Returns the number of keys whose record is in memory. */
static uint64_t warm_resident(emb_store *store) {
  struct core *core = &store->core;
  struct log *log = &core->log;
  int64_t keys = atomic_load(&core->count);
  uint64_t n = atomic_load(&core->cache.used);
  pthread_mutex_lock(&log->lock);
  uint64_t tail = atomic_load(&log->tail) >> core->layout.extent_bits;
  for (uint64_t e = log->first; e <= tail; e++) {
    struct extent *extent = log_extent(log, e);
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (live > 0 && extent_phys(extent) != EXTENT_NOWHERE &&
        atomic_load_explicit(&extent->frame, memory_order_relaxed)) {
      n += (uint64_t)live;
    }
  }
  pthread_mutex_unlock(&log->lock);
  /* A record may be both in the cache and in its extent. */
  return keys < 0 ? 0 : n < (uint64_t)keys ? n : (uint64_t)keys;
}

static void warm_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  uint64_t us = atomic_load_explicit(&c->warm_us, memory_order_relaxed);
  metric_text(to, "warm", warm_state(store));
  metric_count(to, "warm_bytes", &c->warm_bytes);
  metric_count(to, "warm_rows", &c->warm_rows);
  metric_number(to, "warm_ms", us / 1000);
  metric_count(to, "warm_errors", &c->warm_errors);
  metric_count(to, "warm_damaged", &c->warm_damaged);
  metric_number(to, "rows_in_memory", warm_resident(store));
}

const struct feature feature_warmup = {
    .name = "warmup",
    .state_bytes = sizeof(struct warm),
    .tasks = FEATURE_TASKS(&task_warm),
    .files = FEATURE_FILES(&file_hot),
    .init = warm_init,
    .left = warm_leave,
    .free = warm_free,
    .metrics = warm_metrics,
};
