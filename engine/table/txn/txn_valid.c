/* SPDX-License-Identifier: MIT
**
** txn_valid.c -- checks the open transaction against txn_map.h.  Only in
** self-checking builds (base/debug.h).
*/
#include "txn.h"

#if EMB_DEBUG > 0

/* T1, T2: checks a key of the map against the store's index. */
static void check_key(void *arg, int64_t key, uint64_t mine) {
  emb_session *s = arg;
  struct core *core = s->core;
  uint64_t word, hash = hash_key(key);
  emb_assert(!(mine & MAP_SAME) || mine == MAP_SAME);
  emb_assert(!(mine & MAP_GONE) || word_address(mine) <= s->txn->era);
  epoch_enter(&core->epoch, s->slot);
  const struct entry *entry = index_find(&core->index, key, hash, &word);
  emb_assert(entry && (word & WORD_INTENT)); /* T1 */
  if (!(mine & (MAP_SAME | MAP_GONE))) {
    uint64_t address = word_address(mine);
    emb_assert(address > key_find_address(core, key, hash)); /* T2 */
    emb_assert(address >= s->store->open_txn.start);
    emb_assert(layout_page(&core->layout, address) <
               atomic_load(&core->log.tail));
  }
  epoch_leave(s->slot);
}

/* Each savepoint is above the one before it. */
static void check_savepoints(const struct txn *txn) {
  for (size_t i = 0; i < txn->savepoint_count; i++) {
    const struct savepoint *save = &txn->savepoints[i];
    emb_assert(save->era <= txn->era);
    emb_assert(txn->broken || save->undo_depth <= spill_count(&txn->undo));
    emb_assert(!i || (save->position >= save[-1].position &&
                      save->era > save[-1].era &&
                      save->undo_depth >= save[-1].undo_depth));
  }
}

static void check_voids(const struct txn *txn) {
  for (size_t i = 0; i < txn->void_count; i++) {
    emb_assert(txn->voids[i].from < txn->voids[i].to);
    emb_assert(!i || txn->voids[i - 1].to < txn->voids[i].from);
  }
}

int txn_valid(emb_session *s) {
  const struct txn *txn = s->txn;
  emb_assert(s->store->txn.owner == s);
  emb_assert(txn->map == &s->store->open_txn.map);
  emb_assert(!txn->prepared || txn->was_prepared);
  emb_assert(txn->number || index_count(txn->map) == 0);
  check_savepoints(txn);
  check_voids(txn);
  for (uint32_t p = 0; p < index_parts(txn->map); p++) {
    index_each(txn->map, p, check_key, s);
  }
  return 1;
}

#endif
