/* SPDX-License-Identifier: MIT
**
** lease_valid.c -- checks a session's table of leases against lease.h.  Only in
** self-checking builds (base/debug.h).
*/
#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "lease.h"

#if EMB_DEBUG > 0

static void check_lease(const struct leases *leases,
                        const struct lease *lease) {
  size_t at = (size_t)(lease - leases->slots);
  if (at < leases->listed) {
    size_t i = hash_key(lease->key) & leases->table_mask;
    while (leases->table[i] &&
           leases->slots[leases->table[i] - 1].key != lease->key) {
      i = (i + 1) & leases->table_mask;
    }
    emb_assert(leases->table[i] == at + 1); /* a search ends at this slot */
  }
  emb_assert(lease->marked <= lease->held && lease->deferred <= lease->held);
}

int lease_valid(const struct leases *leases) {
  size_t used = 0, held = 0;
  emb_assert((leases->room & (leases->room - 1)) == 0);
  emb_assert(leases->next <= leases->count && leases->count <= leases->room);
  emb_assert(leases->listed <= leases->count);
  emb_assert(leases->listed * LEASE_TABLE <= leases->table_mask + 1);
  for (size_t i = 0; i < leases->room; i++) {
    emb_assert(i < leases->count || !leases->slots[i].held);
    if (leases->slots[i].held) {
      check_lease(leases, &leases->slots[i]);
      held += leases->slots[i].held;
      used++;
    }
  }
  emb_assert(used == leases->used && held == leases->held);
  return 1;
}

#endif
