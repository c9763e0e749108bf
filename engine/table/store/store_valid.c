/* SPDX-License-Identifier: MIT
**
** store_valid.c -- checks a store against store.h.  Only in self-checking
** builds (base/debug.h).
*/
#include "engine/storage/kernel/watch.h"
#include "store.h"

#if EMB_DEBUG > 0

int store_valid(const emb_store *store) {
  const struct core *core = &store->core;
  emb_assert(atomic_load(&store->sessions.count) == 0 && !store->sessions.list);
  emb_assert(!store->txn.owner && !store->txn.file_owner);
  emb_assert(!store->open_txn.number && !atomic_load(&store->txn.undecided));
  emb_assert(atomic_load(&store->own.in_doubt) ||
             !atomic_load(&core->txn_first_page));
  emb_assert(atomic_load(&store->txn.leases_of_rows) == 0);
  emb_assert(atomic_load(&store->sessions.scans) == 0 &&
             store->own.holders == 0);
  emb_assert(!store->own.locked); /* a hold's */
  emb_assert(!watch_any(core) && !core->scans);
  emb_assert(!store->jobs.first);
  return 1;
}

#endif
