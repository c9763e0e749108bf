/* SPDX-License-Identifier: MIT
**
** store_valid.c -- is a store as store.h says?  In the variants that check
** themselves only (base/debug.h).
*/
#include "engine/storage/kernel/watch.h"
#include "store.h"

#if EMB_DEBUG > 0

int store_valid(const emb_store *store) {
  const struct core *core = &store->core;
  emb_assert(atomic_load(&store->sessions) == 0 && !store->session_list);
  emb_assert(!store->txn_owner && !store->file_owner);
  emb_assert(!store->txn_number && !atomic_load(&store->txn_undecided));
  emb_assert(atomic_load(&store->in_doubt) ||
             !atomic_load(&core->txn_first_page));
  emb_assert(atomic_load(&store->leases_of_rows) == 0);
  emb_assert(atomic_load(&store->scans) == 0 && store->holders == 0);
  emb_assert(!watch_any(core) && !core->scans);
  emb_assert(!store->jobs.first);
  return 1;
}

#endif
