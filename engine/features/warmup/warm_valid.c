/* SPDX-License-Identifier: MIT
**
** warm_valid.c -- checks that a warm-up, and the hot set that it reads, are as
** warm.h and hot.h say.  Only in self-checking builds (base/debug.h).
*/
#include "warm.h"

#if EMB_DEBUG > 0

int hot_valid(const struct hot_reading *r) {
  emb_assert(!r->file == !r->block);
  emb_assert(!r->file || (r->next && r->next <= r->head.blocks + 1));
  return 1;
}

static void check_item(const emb_store *store, size_t i) {
  const struct warm *w = warm_of(store);
  const struct warm_item *item = &w->items[i];
  emb_assert(item->from < item->to &&
             item->to <= store->core.layout.extent_pages);
  emb_assert(i == w->next || item[-1].phys <= item->phys); /* file order */
  if (item->kind == ITEM_LIST || item->kind == ITEM_MAP) {
    emb_assert(w->hot.block); /* the words are there */
    emb_assert(item->first < HOT_BLOCK_WORDS && item->last <= HOT_BLOCK_WORDS);
  }
}

int warm_valid(const emb_store *store) {
  struct warm *w = warm_of(store);
  uint32_t state = atomic_load(&w->state);
  emb_assert(debug_is_locked(&w->lock));
  emb_assert(w->planned ? state == WARM_RUNNING && w->slot
                        : !w->items && !w->queue && !w->buffer && !w->hot.file);
  emb_assert(w->next <= w->count && w->count <= w->room);
  emb_assert(w->queue || (w->next == w->count && !w->hot.file));
  emb_assert(!w->hot.file || (w->heat >= 1 && w->heat <= 3));
  hot_valid(&w->hot);
  for (size_t i = w->next; i < w->count; i++) {
    check_item(store, i);
  }
  return 1;
}

#endif
