/* SPDX-License-Identifier: MIT
**
** admit.c -- which records the cache holds.
**
** A clock with the two frequency bits of the index word: a read of a cached
** record raises them (and writes nothing once they are full), the hand lowers
** them, and a record at zero leaves.  A record that was just read from disk
** comes in at zero, so one that is not read again leaves at the next turn.  The
** hand goes at most STEPS slots for one newcomer; if all are hot it stays out.
**
** Into a full cache only comes what is read from disk twice within one turn of
** the hand: the first time its word is stamped with the turn, in the frequency
** bits that a record outside the cache does not need.  So what is read once
** does not push out what was read before.  With keys by Zipf's law (0.99) and
** room for 11 % of them that gives 81.6 % hits, against 79.1 % without and
** 83.7 % for the best fixed choice (simulated).
**
** What a look-ahead brings in is pinned (cache.h): the hand passes it by until
** it was read.  A look-ahead that finds no slot is told whether waiting for a
** frame of the log can help.
*/
#include "core.h"

#define STEPS 48
#define STEPS_AHEAD 1024
/* Frames that a look-ahead asks of the log at a time. */
#define FRAMES_AHEAD 8

/* Takes the word of the slot's record back to the log.  1: the slot is free.
** force: whatever its frequency says. */
static int evict(struct core *core, uint64_t address, struct cache_slot *slot,
                 int force) {
  uint64_t log_address =
      atomic_load_explicit(&slot->log_address, memory_order_acquire);
  if (!log_address) {
    return 1;
  }
  if (!force && cache_pinned(core->env, log_address) && !EMB_SEED(15)) {
    return 0;
  }
  log_address &= CACHE_ADDRESS_MASK;
  int64_t key = atomic_load_explicit(&slot->rec.key, memory_order_relaxed);
  uint64_t word;
  struct entry *entry = index_find(&core->index, key, hash_key(key), &word);
  if (!entry || (word & WORD_LATCH) || !(word & WORD_CACHED) ||
      word_address(word) != address) {
    return 0; /* being moved: its mover frees the slot */
  }
  uint64_t next = word_move(word, log_address, 0);
  if (!force && word_freq(word)) {
    next = word - (UINT64_C(1) << WORD_FREQ_SHIFT);
  }
  if (!atomic_compare_exchange_strong_explicit(&entry->word, &word, next,
                                               memory_order_acq_rel,
                                               memory_order_relaxed) ||
      (next & WORD_CACHED)) {
    return 0;
  }
  cache_release(&core->cache, address);
  count_add(&core->counters.cache_evicted, 1);
  return 1;
}

/* Takes a frame more if the slots are used up and more than keep are free, else
** asks the log for so many. */
static void grow(struct core *core, uint32_t keep, uint32_t wanted) {
  struct cache *cache = &core->cache;
  uint64_t room =
      (uint64_t)atomic_load(&cache->frame_count) * cache->slots_per_frame;
  if (atomic_load(&cache->used) < room - room / 32) {
    return;
  }
  char *frame = frames_take(&core->frames, keep);
  if (frame && !cache_add_frame(cache, frame)) {
    frames_give(&core->frames, frame);
  } else if (!frame && atomic_load_explicit(&core->cache_hungry,
                                            memory_order_relaxed) < wanted) {
    atomic_store_explicit(&core->cache_hungry, wanted, memory_order_relaxed);
  }
}

/* A free slot, or 0. */
static uint64_t pick(struct core *core, int steps) {
  struct cache *cache = &core->cache;
  for (int i = 0; i < steps; i++) {
    uint64_t address = cache_next(cache);
    if (!address || evict(core, address, cache_at(cache, address), 0)) {
      return address;
    }
  }
  return 0;
}

/* Fills a slot and points the key's word there.  0: the key has moved. */
static int put_into(struct core *core, uint64_t address, struct entry *entry,
                    uint64_t word, int64_t key, uint64_t log_address,
                    const void *vector, uint64_t version, uint64_t pin) {
  struct cache *cache = &core->cache;
  struct cache_slot *slot = cache_at(cache, address);
  rec_begin(&slot->rec);
  rec_fill(&slot->rec, key, vector, core->layout.value_bytes, version);
  atomic_store_explicit(&slot->log_address, log_address | pin,
                        memory_order_release);
  atomic_fetch_add_explicit(&cache->used, 1, memory_order_relaxed);
  if (pin) {
    atomic_fetch_add_explicit(&cache->pinned, 1, memory_order_relaxed);
  }
  pthread_mutex_unlock(&cache->lock);
  if (atomic_load_explicit(&entry->key, memory_order_relaxed) == key &&
      atomic_compare_exchange_strong_explicit(
          &entry->word, &word, word_move(word, address, 1),
          memory_order_acq_rel, memory_order_relaxed)) {
    count_add(&core->counters.cache_admitted, 1);
    return 1;
  }
  cache_release(cache, address);
  return 0;
}

/* The key's entry if its record is on disk at this address. */
static struct entry *find_cold(struct core *core, int64_t key, uint64_t hash,
                               uint64_t log_address, uint64_t *word) {
  struct entry *entry = index_find(&core->index, key, hash, word);
  return entry && !(*word & (WORD_LATCH | WORD_CACHED)) &&
                 word_address(*word) == log_address &&
                 core->cache.frames_max != 0
             ? entry
             : NULL;
}

/* Under the cache's lock: are hardly any slots free? */
static int is_full(const struct cache *cache) {
  uint64_t room =
      (uint64_t)atomic_load(&cache->frame_count) * cache->slots_per_frame;
  return room && atomic_load(&cache->used) >= room - room / 32;
}

/* Was the record read from disk in this turn of the hand before?  If not, the
** word says from now on that it was. */
static int read_before(const struct cache *cache, struct entry *entry,
                       uint64_t *word) {
  uint64_t stamp = cache->turn % WORD_FREQ_MAX + 1;
  if (word_freq(*word) == stamp) {
    return 1;
  }
  atomic_compare_exchange_strong_explicit(
      &entry->word, word,
      (*word & ~(WORD_FREQ_MAX << WORD_FREQ_SHIFT)) | stamp << WORD_FREQ_SHIFT,
      memory_order_relaxed, memory_order_relaxed);
  return 0;
}

void cache_admit(struct core *core, int64_t key, uint64_t hash,
                 uint64_t log_address, const void *vector, uint64_t version) {
  struct cache *cache = &core->cache;
  uint64_t word;
  struct entry *entry = find_cold(core, key, hash, log_address, &word);
  if (!entry) {
    return;
  }
  pthread_mutex_lock(&cache->lock);
  if (!atomic_load_explicit(&core->cache_useless, memory_order_relaxed) ||
      atomic_load(&cache->frame_count) < core_cache_min(core)) {
    grow(core, core_low_water(core), 1);
  }
  uint64_t address = is_full(cache) && !read_before(cache, entry, &word)
                         ? 0
                         : pick(core, STEPS);
  if (address) {
    put_into(core, address, entry, word, key, log_address, vector, version, 0);
  } else {
    pthread_mutex_unlock(&cache->lock);
  }
}

static int admit_ahead(struct core *core, int64_t key, uint64_t hash,
                       uint64_t log_address, const void *vector,
                       uint64_t version, uint32_t keep) {
  struct cache *cache = &core->cache;
  uint64_t word;
  struct entry *entry = find_cold(core, key, hash, log_address, &word);
  if (!entry) {
    return cache->frames_max ? CACHE_MOVED : CACHE_REFUSED;
  }
  pthread_mutex_lock(&cache->lock);
  grow(core, keep, FRAMES_AHEAD);
  /* What is hot, but not pinned, gives way in the end: the hand has to pass it
  ** as often as its frequency says. */
  uint64_t address = pick(core, STEPS_AHEAD), passed = STEPS_AHEAD;
  while (!address && atomic_load(&cache->pinned) < atomic_load(&cache->used) &&
         passed < (uint64_t)atomic_load(&cache->frame_count) *
                      cache->slots_per_frame * (WORD_FREQ_MAX + 1)) {
    pthread_mutex_unlock(&cache->lock);
    pthread_mutex_lock(&cache->lock);
    address = pick(core, STEPS_AHEAD);
    passed += STEPS_AHEAD;
  }
  if (address) {
    return put_into(core, address, entry, word, key, log_address, vector,
                    version, cache_pin_now(core->env))
               ? CACHE_ADMITTED
               : CACHE_MOVED;
  }
  pthread_mutex_unlock(&cache->lock);
  return atomic_load(&core->log.resident) > core_log_min(core) ? CACHE_LATER
                                                               : CACHE_REFUSED;
}

int cache_admit_ahead(struct core *core, int64_t key, uint64_t hash,
                      uint64_t log_address, const void *vector,
                      uint64_t version) {
  return admit_ahead(core, key, hash, log_address, vector, version,
                     core_low_water(core));
}

/* Is the record at this address its key's, and expected? */
static int is_expected(struct core *core, int64_t key, uint64_t address) {
  uint64_t word;
  return index_find(&core->index, key, hash_key(key), &word) &&
         !(word & WORD_CACHED) && word_address(word) == address &&
         word_freq(word);
}

void cache_save_extent(struct core *core, struct epoch_slot *self,
                       uint64_t number) {
  const struct layout *l = &core->layout;
  uint64_t first = number << l->extent_bits;
  for (uint64_t page = first; page < first + l->extent_pages; page++) {
    epoch_enter(&core->epoch, self);
    const char *bytes = log_page(&core->log, page);
    for (uint32_t i = 0; bytes && page_kind(bytes) == PAGE_DATA && i < l->slots;
         i++) {
      uint64_t address = layout_address(l, page, i);
      struct rec *rec = log_rec(&core->log, address);
      int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
      uint64_t version =
          rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire));
      if (version && is_expected(core, key, address) &&
          admit_ahead(core, key, hash_key(key), address, rec->vector, version,
                      0) > CACHE_MOVED) {
        count_add(&core->counters.ahead_refused, 1);
      }
    }
    epoch_leave(self);
  }
}

/* A free slot, not counted as used yet; 0: there is hardly any. */
static uint64_t find_free(struct cache *cache) {
  for (int i = 0; i < STEPS_AHEAD; i++) {
    uint64_t address = cache_next(cache);
    if (!address || !cache_log_address(cache_at(cache, address))) {
      return address;
    }
  }
  return 0;
}

/* Empties a slot of the frame that is leaving: its record goes to a free slot,
** or if there is none, back to the log.  0: its key is being moved. */
static int empty_slot(struct core *core, uint64_t address,
                      struct cache_slot *slot) {
  struct cache *cache = &core->cache;
  uint64_t log_address =
      atomic_load_explicit(&slot->log_address, memory_order_acquire);
  uint64_t to = log_address ? find_free(cache) : 0;
  if (!to) {
    return evict(core, address, slot, 1);
  }
  int64_t key = atomic_load_explicit(&slot->rec.key, memory_order_relaxed);
  uint64_t word;
  struct entry *entry = index_find(&core->index, key, hash_key(key), &word);
  /* Under the latch, for compaction may change the log address. */
  if (!entry || (word & WORD_LATCH) || !(word & WORD_CACHED) ||
      word_address(word) != address || !key_latch_found(entry, key, &word)) {
    return 0;
  }
  struct cache_slot *new = cache_at(cache, to);
  log_address = atomic_load_explicit(&slot->log_address, memory_order_relaxed);
  rec_begin(&new->rec);
  rec_fill(&new->rec, key, slot->rec.vector, core->layout.value_bytes,
           rec_version(
               atomic_load_explicit(&slot->rec.stamp, memory_order_relaxed)));
  atomic_store_explicit(&new->log_address, log_address, memory_order_release);
  atomic_fetch_add_explicit(&cache->used, 1, memory_order_relaxed);
  if (log_address > CACHE_ADDRESS_MASK) {
    atomic_fetch_add_explicit(&cache->pinned, 1, memory_order_relaxed);
  }
  key_unlatch(entry, (word & ~WORD_ADDRESS_MASK) | to);
  cache_release(cache, address);
  return 1;
}

int cache_shrink(struct core *core, struct epoch_slot *self) {
  struct cache *cache = &core->cache;
  pthread_mutex_lock(&cache->lock);
  uint32_t frame = cache_victim(cache);
  if (!frame) {
    pthread_mutex_unlock(&cache->lock);
    return 0;
  }
  cache_close_frame(cache, frame);
  epoch_enter(&core->epoch, self);
  for (uint32_t s = 0; s < cache->slots_per_frame; s++) {
    uint64_t address = (uint64_t)frame << 16 | s;
    unsigned turns = 0;
    while (!empty_slot(core, address, cache_at(cache, address))) {
      spin_pause(&turns);
    }
  }
  epoch_leave(self);
  pthread_mutex_unlock(&cache->lock);
  /* A session that is inside may hold a word that pointed here. */
  epoch_wait(&core->epoch);
  pthread_mutex_lock(&cache->lock);
  char *memory = cache_take_frame(cache, frame);
  pthread_mutex_unlock(&cache->lock);
  frames_give(&core->frames, memory);
  return 1;
}
