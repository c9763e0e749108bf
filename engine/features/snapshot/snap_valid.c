/* SPDX-License-Identifier: MIT
**
** snap_valid.c -- checks that a snapshot being read is as snap.h says.  Only in
** self-checking builds (base/debug.h).
*/
#include "snap.h"

#if EMB_DEBUG > 0

int snap_valid(const emb_snap *snap) {
  const struct layout *l = &snap->s->core->layout;
  emb_assert(snap->snapshot && !snap->snapshot->damaged);
  emb_assert(snap->at <= snap->snapshot->head.extents);
  emb_assert(snap->row <= l->extent_pages * l->slots);
  emb_assert(!snap->bits || snap->extent);
  emb_assert(!snap->have ||
             (snap->bits && snap->at < snap->snapshot->head.extents));
  for (uint64_t i = 0; i < SNAP_BLOCKS; i++) {
    uint64_t number = snap->numbers[i];
    emb_assert(!number || (snap->blocks && (number - 1) % SNAP_BLOCKS == i));
  }
  emb_assert(atomic_load(&snap->s->store->sessions.snaps) > 0);
  return 1;
}

#endif
