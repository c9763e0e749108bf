/* SPDX-License-Identifier: MIT
**
** session_valid.c -- checks a session against session.h.  Only in self-checking
** builds (base/debug.h).
*/
#include "session.h"

#if EMB_DEBUG > 0

int session_valid(const emb_session *s) {
  emb_assert(s->core == &s->store->core);
  emb_assert(atomic_load(&s->slot->inside) == 0); /* E2 */
  emb_assert(!s->txn || s->store->txn.owner == s);
  emb_assert(s->scan.open >= 0);
  emb_check_some(16, lease_valid(&s->leases));
  return 1;
}

#endif
