/* SPDX-License-Identifier: MIT
**
** backup_valid.c -- checks that a backup, and the copy that it writes, are as
** backup.c says.  Only in self-checking builds (base/debug.h).
*/
#include "backup.h"

#if EMB_DEBUG > 0

static void check_backup_locks(const emb_backup *b) {
  emb_store *store = b->s->store;
  emb_assert(debug_is_locked(&store->core.ckpt_lock));
  emb_assert(b->owner || debug_is_locked(&store->own.lock));
}

static void check_backup_frozen(const emb_backup *b) {
  emb_assert(!b->begun && !b->making.s);
  emb_assert(b->snap->s == b->s && b->snap->listed == b->owner);
  emb_assert(b->settled <= b->snap->snapshot->head.mark);
  emb_assert(atomic_load(&b->s->store->sessions.snaps) > 0);
}

int backup_valid(const emb_backup *b) {
  emb_assert(!b->making.s || b->begun);
  emb_assert(!b->making.s || (b->making.notes && b->making.w.blocks));
  emb_assert(!b->owner || !b->generation); /* only a reader may be too late */
  if (b->begun) {
    check_backup_locks(b);
  }
  if (b->snap) {
    check_backup_frozen(b);
  }
  return 1;
}

int copying_valid(const struct copying *c) {
  emb_assert(c->pieces <= PIECE_MAX);
  emb_assert(!c->pieces || c->piece_slot + c->pieces == c->next);
  emb_assert(!c->base == !c->used);
  return 1;
}

/* May an extent of the base be in this file slot? */
static int is_used_by_base(const struct copying *c, uint64_t phys) {
  return c->base && phys < c->base->end && (c->used[phys / 8] >> phys % 8 & 1);
}

int copying_slots_valid(const struct copying *c) {
  const struct snapshot *snapshot = c->b->snap->snapshot;
  uint64_t next = 0;
  for (uint64_t i = 0; i < snapshot->head.extents; i++) {
    const struct file_slot *slot = &c->slots[i];
    emb_assert(slot->number == snapshot->extents[i][0]);
    emb_assert(slot->phys < c->end);
    if (is_used_by_base(c, slot->phys)) {
      emb_assert(slot->number < c->base->below); /* the base has it, too */
    } else {
      emb_assert(slot->phys >= next); /* no other extent of the copy has it */
      next = slot->phys + 1;
    }
  }
  emb_assert(next <= c->next);
  emb_assert(!c->pieces); /* all are written */
  return 1;
}

#endif
