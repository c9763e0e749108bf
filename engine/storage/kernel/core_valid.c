/* SPDX-License-Identifier: MIT
**
** core_valid.c -- do index, log and cache agree on every key?  Only in builds
** with self-checks (base/debug.h).
**
** Follows every word to its record, and compares the result with the separate
** counts (K3, L4) and with the cache (C1).  Words and counts change one after
** the other, so no other thread may use the core: the check runs when a store
** is freed.
*/
#include <stdlib.h>

#include "core.h"

#if EMB_DEBUG > 0

int key_has_record(const struct core *core, int64_t key, uint64_t word) {
  const struct rec *rec = word_address(word) ? key_rec(core, word) : NULL;
  uint64_t stamp =
      rec ? atomic_load_explicit(&rec->stamp, memory_order_acquire) : 0;
  return !rec ||
         (atomic_load_explicit(&rec->key, memory_order_relaxed) == key &&
          rec_version(stamp) != 0 && !(stamp & REC_BUSY));
}

/* In a longer log only the keys are counted. */
#define SPAN_COUNTED (UINT64_C(1) << 20)

struct core_valid_walk {
  const struct core *core;
  uint64_t first, span;
  int32_t *live; /* of each extent from `first` on; NULL: not counted */
  int64_t keys;
  uint64_t cached;
};

static void check_cached(const struct core *core, int64_t key, uint64_t word) {
  const struct cache_slot *slot = cache_at(&core->cache, word_address(word));
  emb_assert(cache_log_address(slot) != 0); /* C1 */
  emb_assert(atomic_load(&slot->rec.key) == key);
  emb_assert(!(atomic_load(&slot->rec.stamp) & REC_BUSY));
}

static void check_word(void *arg, int64_t key, uint64_t word) {
  struct core_valid_walk *w = arg;
  emb_assert(word_address(word) != 0 || word_pending(word) ||
             (word & WORD_INTENT));
  if (!word_address(word)) {
    return;
  }
  w->keys++;
  if (word & WORD_CACHED) {
    check_cached(w->core, key, word);
    w->cached++;
  }
  uint64_t address = key_log_address(w->core, word);
  uint64_t extent = layout_extent(&w->core->layout, address);
  emb_assert(layout_page(&w->core->layout, address) <
             atomic_load(&w->core->log.tail));
  emb_assert(extent - w->first < w->span);
  if (w->live) {
    w->live[extent - w->first]++;
  }
}

static void check_counts(const struct core_valid_walk *w) {
  const struct core *core = w->core;
  emb_assert(w->keys == atomic_load(&core->count));        /* K3 */
  emb_assert(w->cached == atomic_load(&core->cache.used)); /* C1 */
  for (uint64_t i = 0; w->live && i < w->span; i++) {
    const struct extent *extent = log_extent(&core->log, w->first + i);
    emb_assert(atomic_load(&extent->live) == w->live[i]); /* L4 */
    emb_assert(!w->live[i] || extent_phys(extent) != EXTENT_NOWHERE);
  }
}

int core_valid(const struct core *core) {
  if (!core->index.shapes || !core->log.table || !core->cache.frames) {
    return 1; /* its initialization failed */
  }
  struct core_valid_walk w = {.core = core,
                              .first = atomic_load(&core->log.first)};
  w.span =
      (atomic_load(&core->log.tail) >> core->layout.extent_bits) - w.first + 1;
  w.live = w.span < SPAN_COUNTED ? calloc(w.span, sizeof *w.live) : NULL;
  for (uint32_t p = 0; p < index_parts(&core->index); p++) {
    index_each((struct index *)(uintptr_t)&core->index, p, check_word, &w);
  }
  check_counts(&w);
  free(w.live);
  return 1;
}

#endif
