/* SPDX-License-Identifier: MIT
**
** store_valid.c -- are a store and its sessions as store.h says?  In the
** variants that check themselves only (base/debug.h).
*/
#include "engine/storage/kernel/watch.h"
#include "job.h"
#include "engine/table/store/store.h"

#if EMB_DEBUG > 0

int session_valid(const emb_session *s) {
  emb_assert(s->core == &s->store->core);
  emb_assert(atomic_load(&s->slot->inside) == 0); /* E2 */
  emb_assert(!s->txn || s->store->txn_owner == s);
  emb_assert(s->scans >= 0);
  emb_check_some(16, lease_valid(&s->leases));
  return 1;
}

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
