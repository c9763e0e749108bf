/* SPDX-License-Identifier: MIT
**
** hot.c -- see hot.h.
**
** Written from a map of 2 bits for each slot of the log, a hundredth of the
** size of the index: first the cache's slots enter their addresses, then one
** pass over the extents writes each in the shorter of its two forms.
*/
#include "hot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/emb.h"
#include "engine/storage/ckpt/manifest.h"

#define MAGIC "EMBHOT01"
/* Cache slots examined at a time under the cache's lock. */
#define CACHE_PIECE 256
/* Words of a map: records are at least 24 bytes long. */
#define MAP_WORDS_MAX 512

int hot__fits(struct core *core, uint32_t frames) {
  struct log *log = &core->log;
  uint64_t extents = 0, whole = 0, records = 0;
  pthread_mutex_lock(&log->lock);
  uint64_t tail = atomic_load(&log->tail) >> core->layout.extent_bits;
  for (uint64_t e = log->first; e <= tail; e++) {
    struct extent *extent = log_extent(log, e);
    int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (extent_phys(extent) == EXTENT_NOWHERE || live <= 0) {
      continue;
    }
    extents++;
    if (hot_is_sparse(core, live)) {
      records += (uint64_t)live;
    } else {
      whole++;
    }
  }
  pthread_mutex_unlock(&log->lock);
  if (extents <= frames) {
    return HOT_FITS_WHOLE;
  }
  /* A cache that grows leaves some of its slots empty (promote.c). */
  uint64_t slots = core->cache.slots_per_frame;
  records += records / 16;
  return slots && whole + records / slots + 1 <= frames ? HOT_FITS_PACKED
                                                        : HOT_FITS_NOT;
}

/* ---- the records in memory ----------------------------------------------- */

struct hot {
  struct core *core;
  uint64_t first, count; /* extents */
  uint64_t words;        /* of an extent's map */
  uint64_t *map;
  uint64_t bytes;
  struct hot_head head;
};

static int make_map(struct hot *h) {
  struct log *log = &h->core->log;
  pthread_mutex_lock(&log->lock);
  h->first = log->first;
  h->count =
      (atomic_load(&log->tail) >> h->core->layout.extent_bits) - log->first + 1;
  pthread_mutex_unlock(&log->lock);
  h->words = hot_map_words(&h->core->layout);
  h->bytes = h->count * h->words * sizeof *h->map;
  h->map = h->core->env->map(h->core->env, h->bytes, 0);
  return h->map != NULL;
}

/* Enters a log address whose record is in the cache. */
static void hot_enter(struct hot *h, uint64_t address, uint64_t heat) {
  const struct layout *l = &h->core->layout;
  uint64_t number = layout_extent(l, address);
  uint64_t slot = (layout_page(l, address) & (l->extent_pages - 1)) * l->slots +
                  layout_slot(l, address);
  if (number < h->first || number - h->first >= h->count) {
    return;
  }
  uint64_t *map = h->map + (number - h->first) * h->words;
  if (!hot_in_map(map, slot)) { /* may have moved to another slot */
    map[slot / 32] |= heat << (slot % 32 * 2);
    h->head.rows[heat - 1]++;
    h->head.in_memory++;
  }
}

/* Copies some slots of a cache frame; *there is 0 if the frame does not exist.
** The lock keeps the frame, and the array of frames, which is replaced when the
** budget grows. */
static uint32_t copy_slots(struct cache *cache, uint32_t frame, uint32_t from,
                           int *there, uint64_t *addresses, int64_t *keys) {
  uint32_t n = 0;
  pthread_mutex_lock(&cache->lock);
  *there =
      atomic_load_explicit(&cache->frames[frame], memory_order_relaxed) != NULL;
  if (*there) {
    for (uint32_t s = from;
         s < from + CACHE_PIECE && s < cache->slots_per_frame; s++) {
      struct cache_slot *slot =
          cache_at(cache, (uint64_t)(frame + 1) << 16 | s);
      addresses[n] = cache_log_address(slot);
      keys[n] = atomic_load_explicit(&slot->rec.key, memory_order_relaxed);
      n += addresses[n] != 0;
    }
  }
  pthread_mutex_unlock(&cache->lock);
  return n;
}

static void enter_cache(struct hot *h, struct epoch_slot *self) {
  struct core *core = h->core;
  struct cache *cache = &core->cache;
  uint64_t addresses[CACHE_PIECE], word;
  int64_t keys[CACHE_PIECE];
  for (uint32_t frame = 0; frame < cache->frames_max; frame++) {
    int there = 1;
    for (uint32_t s = 0; there && s < cache->slots_per_frame;
         s += CACHE_PIECE) {
      uint32_t n = copy_slots(cache, frame, s, &there, addresses, keys);
      epoch_enter(&core->epoch, self);
      for (uint32_t i = 0; i < n; i++) { /* prefetch all of them together */
        index_prefetch(&core->index, hash_key(keys[i]));
      }
      for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = hash_key(keys[i]);
        if (index_find(&core->index, keys[i], hash, &word) &&
            (word & WORD_CACHED)) {
          uint64_t freq = word_freq(word);
          hot_enter(h, addresses[i], freq < 2 ? freq + 1 : 3);
        }
      }
      epoch_leave(self);
    }
  }
}

/* Returns the live records of an extent that is in memory as a whole; else
** 0. */
static uint32_t resident_records(struct hot *h, uint64_t number) {
  struct log *log = &h->core->log;
  uint32_t live = 0;
  pthread_mutex_lock(&log->lock);
  if (number >= log->first) {
    struct extent *extent = log_extent(log, number);
    int32_t n = atomic_load_explicit(&extent->live, memory_order_relaxed);
    if (extent_phys(extent) != EXTENT_NOWHERE && n > 0 &&
        atomic_load_explicit(&extent->frame, memory_order_relaxed)) {
      live = (uint32_t)n;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return live;
}

/* ---- writing ------------------------------------------------------------- */

static void blocks_put(struct blocks *w, const uint64_t *words, uint32_t n,
                       uint32_t *used) {
  struct block *block = &w->blocks[w->filled];
  if (*used + n > HOT_BLOCK_WORDS) {
    blocks_finish(w);
    block = &w->blocks[w->filled];
    *used = 0;
  }
  block->kind = BLOCK_HOT;
  memcpy(block->u.pairs + *used, words, n * sizeof *words);
  *used += n;
  block->count = (*used + 1) / 2;
}

/* Writes one word for each record of the map. */
static void put_records(struct hot *h, struct blocks *w, uint64_t number,
                        const uint64_t *map, uint32_t *used) {
  const struct layout *l = &h->core->layout;
  uint64_t slots = (uint64_t)l->slots * l->extent_pages;
  for (uint64_t slot = 0; slot < slots; slot++) {
    uint64_t heat = hot_in_map(map, slot);
    if (heat) {
      uint64_t page = (number << l->extent_bits) + slot / l->slots;
      uint64_t word = heat << HOT_KIND_SHIFT |
                      layout_address(l, page, (uint32_t)(slot % l->slots));
      blocks_put(w, &word, 1, used);
    } else if (slot % 32 == 0 && !map[slot / 32]) {
      slot += 31;
    }
  }
}

/* Counts an extent that is in the file as a whole, and its cached records. */
static void count_whole(struct hot *h, const uint64_t *map, uint32_t live,
                        uint64_t rows) {
  for (uint64_t slot = 0; rows && slot < h->words * 32; slot++) {
    uint32_t heat = hot_in_map(map, slot);
    if (heat) {
      h->head.rows[heat - 1]--;
    }
  }
  h->head.in_memory += live > rows ? live - rows : 0;
  h->head.extents++;
}

static void put_extent(struct hot *h, struct blocks *w, uint64_t number,
                       const uint64_t *map, uint32_t *used) {
  uint64_t words[1 + MAP_WORDS_MAX], rows = 0;
  for (uint64_t i = 0; i < h->words; i++) {
    rows += (uint64_t)__builtin_popcountll((map[i] | map[i] >> 1) &
                                           UINT64_C(0x5555555555555555));
  }
  uint32_t live = resident_records(h, number);
  if (live) {
    count_whole(h, map, live, rows);
    blocks_put(w, &number, 1, used);
  } else if (rows > h->words && h->words <= MAP_WORDS_MAX) {
    words[0] = number | h->words << HOT_WORDS_SHIFT;
    memcpy(words + 1, map, h->words * sizeof *map);
    blocks_put(w, words, (uint32_t)h->words + 1, used);
  } else if (rows) {
    put_records(h, w, number, map, used);
  }
}

/* The head is written last: it counts the blocks written. */
static void hot_write_blocks(struct hot *h, struct blocks *w) {
  uint32_t used = 0;
  w->written = 1;
  for (uint64_t e = 0; e < h->count && !w->os; e++) {
    put_extent(h, w, h->first + e, h->map + e * h->words, &used);
  }
  if (used) {
    blocks_finish(w);
  }
  blocks_flush(w);
  h->head.blocks = w->written - 1;
  memcpy(h->head.magic, MAGIC, sizeof h->head.magic);
  memcpy(h->head.uuid, h->core->uuid, sizeof h->head.uuid);
  struct block *block = &w->blocks[0];
  memset(block, 0, sizeof *block);
  memcpy(block->u.bytes, &h->head, sizeof h->head);
  block->kind = BLOCK_HOT_HEAD;
  block->count = 1;
  block->sum = hash_sum((char *)block + 8, BLOCK_BYTES - 8, w->salt, 0);
  if (!w->os) {
    w->os = h->core->env->write(h->core->env, w->file, block, BLOCK_BYTES, 0);
    count_add(&h->core->counters.write_bytes, BLOCK_BYTES);
  }
}

/* Writes a file of another name, which then replaces the old one. */
static int hot_write_file(struct hot *h) {
  struct core *core = h->core;
  struct env *env = core->env;
  struct blocks w = {core, NULL, core->salt, NULL, 0, 0, 0};
  const size_t bytes = (BLOCKS_BUFFER + 1) * sizeof(struct block);
  char path[PATH_BYTES], to[PATH_BYTES], name[40];
  uint64_t number;
  if (env->random(env, &number, sizeof number)) {
    return 0;
  }
  (void)snprintf(name, sizeof name, HOT_NEW_PREFIX "%016llx",
                 (unsigned long long)number);
  if (path_join(path, sizeof path, core->dir, name, NULL) ||
      path_join(to, sizeof to, core->dir, HOT_NAME, NULL) ||
      replace_begin(env, path, ENV_DIRECT, &w.file)) {
    return 0;
  }
  w.blocks = env->map(env, bytes, 0);
  if (w.blocks) {
    hot_write_blocks(h, &w);
    env->unmap(env, w.blocks, bytes);
  }
  return !replace_seal(env, path, w.file, w.blocks ? w.os : ENOMEM) &&
         !replace_name(env, path, to, NULL);
}

/* Does the existing file name more than is in memory now?  Records that were
** read count first: a whole extent may be in memory only because it was
** written. */
static int hot_is_less(const struct hot *h) {
  struct hot_reading r;
  int less = 0;
  if (hot__open(&r, h->core)) {
    const struct hot_head *now = &h->head, *then = &r.head;
    uint64_t rows = now->rows[0] + now->rows[1] + now->rows[2];
    uint64_t then_rows = then->rows[0] + then->rows[1] + then->rows[2];
    less = rows != then_rows ? rows < then_rows
                             : now->in_memory <= then->in_memory;
    hot__close(&r);
  }
  return less;
}

/* A sum that changes whenever a record enters or leaves memory. */
static uint64_t residency_changes(const struct core *core) {
  const struct counters *c = &core->counters;
  return atomic_load(&c->cache_admitted) + atomic_load(&c->cache_evicted) +
         atomic_load(&c->warm_rows) + atomic_load(&c->evictions) +
         atomic_load(&core->log.tail);
}

void hot__write(struct core *core, struct epoch_slot *slot) {
  struct hot h = {.core = core};
  char path[PATH_BYTES];
  uint64_t now = residency_changes(core);
  if (core->temporary || core->cold || now == core->hot_moves) {
    return;
  }
  if (hot__fits(core, frames_count(&core->frames) - core_low_water(core))) {
    /* The file is from a larger table or a smaller budget. */
    if (path_join(path, sizeof path, core->dir, HOT_NAME, NULL) == EMB_OK) {
      core->env->unlink(core->env, path);
    }
    core->hot_moves = now;
    return;
  }
  int done = make_map(&h);
  if (done) {
    enter_cache(&h, slot);
    /* During the warm-up the existing file has more. */
    done = (!atomic_load(&core->warmed) && hot_is_less(&h) &&
            !EMB_SEED(SEED_HOT_SET_REPLACED_BY_LESS)) ||
           hot_write_file(&h);
    core->env->unmap(core->env, h.map, h.bytes);
  }
  if (done) {
    core->hot_moves = now;
  } else {
    count_add(&core->counters.warm_errors, 1);
  }
}

/* ---- reading ------------------------------------------------------------- */

static int hot_damaged(struct hot_reading *r, int damaged) {
  count_add(damaged ? &r->core->counters.warm_damaged
                    : &r->core->counters.warm_errors,
            1);
  return 0;
}

static int hot_read_block(struct hot_reading *r, uint64_t number) {
  struct env *env = r->core->env;
  if (env->read(env, r->file, r->block, BLOCK_BYTES, number * BLOCK_BYTES)) {
    return hot_damaged(r, 0);
  }
  count_add(&r->core->counters.read_bytes, BLOCK_BYTES);
  return (blocks_valid(r->block, r->core->salt, number) ||
          EMB_SEED(SEED_DAMAGED_HOT_SET_USED)) &&
                 r->block->kind == (number ? BLOCK_HOT : BLOCK_HOT_HEAD) &&
                 r->block->count
             ? 1
             : hot_damaged(r, 1);
}

static int hot_read_head(struct hot_reading *r) {
  uint64_t bytes;
  if (r->core->env->size(r->core->env, r->file, &bytes)) {
    return hot_damaged(r, 0);
  }
  if (!hot_read_block(r, 0)) {
    return 0;
  }
  memcpy(&r->head, r->block->u.bytes, sizeof r->head);
  return memcmp(r->head.magic, MAGIC, sizeof r->head.magic) == 0 &&
                 memcmp(r->head.uuid, r->core->uuid, sizeof r->head.uuid) ==
                     0 &&
                 bytes % BLOCK_BYTES == 0 &&
                 r->head.blocks == bytes / BLOCK_BYTES - 1
             ? 1
             : hot_damaged(r, 1);
}

int hot__open(struct hot_reading *r, struct core *core) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  *r = (struct hot_reading){.core = core, .next = 1};
  if (path_join(path, sizeof path, core->dir, HOT_NAME, NULL)) {
    return 0;
  }
  int os = env->open(env, path, ENV_READ | ENV_DIRECT, &r->file);
  if (os) {
    r->file = NULL;
    return os == ENOENT ? 0 : hot_damaged(r, 0);
  }
  r->block = env->map(env, BLOCK_BYTES, 0);
  int good = r->block ? hot_read_head(r) : hot_damaged(r, 0);
  if (!good) {
    hot__close(r);
  }
  emb_check(hot_valid(r));
  return good;
}

uint32_t hot__next(struct hot_reading *r) {
  emb_check(hot_valid(r));
  if (!r->file || r->next > r->head.blocks || !hot_read_block(r, r->next)) {
    return 0;
  }
  r->next++;
  return r->block->count * 2;
}

void hot__close(struct hot_reading *r) {
  struct env *env = r->core ? r->core->env : NULL;
  if (env && r->block) {
    env->unmap(env, r->block, BLOCK_BYTES);
  }
  if (env && r->file) {
    env->close(env, r->file);
  }
  r->block = NULL;
  r->file = NULL;
}

/* ---- the file ------------------------------------------------------------ */

static int hot_save(struct core *core, struct epoch_slot *slot, emb_err *err) {
  (void)err;
  hot__write(core, slot);
  return EMB_OK;
}

const struct store_file file_hot = {
    .name = HOT_NAME, .temporary = HOT_NEW_PREFIX "*", .save = hot_save};
