/* SPDX-License-Identifier: MIT
**
** bound_valid.c -- checks a session's leases against bound.h, once a call has
** signalled the leases it gave back.  Only in self-checking builds
** (base/debug.h).
*/
#include "bound.h"

#if EMB_DEBUG > 0

int bound_valid(const emb_session *s) {
  const struct leases *leases = &s->leases;
  emb_assert(!leases->of_rows || leases->held);
  emb_assert(!leases->of_rows ||
             atomic_load(&s->store->txn.leases_of_rows) > 0);
  (void)lease_valid(leases);
  return 1;
}

#endif
