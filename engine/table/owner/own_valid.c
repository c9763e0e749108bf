/* SPDX-License-Identifier: MIT
**
** own_valid.c -- checks the states of own.c and hold.c.  Only in self-checking
** builds (base/debug.h).  Other threads change these fields under own.lock
** only, so under it they agree with each other.
*/
#include "own.h"

#if EMB_DEBUG > 0

static void check_owner(const emb_store *store) {
  const struct store_own *own = &store->own;
  emb_assert(own->file || store->core.temporary);
  emb_assert(!own->manifest); /* a reader looks at it */
  emb_assert(!atomic_load(&own->unloaded));
}

/* The holds of a checkpoint, which are scans too (hold.c). */
static void check_holds(const emb_store *store) {
  const struct store_own *own = &store->own;
  emb_assert(own->holders >= 0 &&
             own->holders <= atomic_load(&store->sessions.scans));
  emb_assert(!own->locked || own->holders);
}

int own_valid(const emb_store *store) {
  const struct store_own *own = &store->own;
  uint64_t in_doubt = atomic_load(&own->in_doubt);
  /* Without one of a recovery it may be of a session that was lost. */
  emb_assert(!own->doubt || in_doubt == own->doubt->in_doubt);
  emb_assert(!in_doubt || own->file); /* only the owner decides it */
  emb_assert(atomic_load(&own->loads) == atomic_load(&own->loaded));
  if (atomic_load(&own->is_owner)) {
    check_owner(store);
  }
  check_holds(store);
  return 1;
}

#endif
