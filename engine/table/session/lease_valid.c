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
  /* A search for its key ends at this slot. */
  emb_assert(lease_slot(leases, lease->key, hash_key(lease->key)) == lease);
  emb_assert(lease->marked <= lease->held && lease->deferred <= lease->held);
}

int lease_valid(const struct leases *leases) {
  size_t used = 0, held = 0;
  emb_assert((leases->room & (leases->room - 1)) == 0);
  emb_assert(leases->used * 2 <= leases->room);
  for (size_t i = 0; i < leases->room; i++) {
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
