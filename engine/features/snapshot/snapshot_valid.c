/* SPDX-License-Identifier: MIT
**
** snapshot_valid.c -- checks a snapshot in memory against snapshot.h, only in
** builds with self-checks (base/debug.h).  The file's contents were checked
** before (snapshot__open): a snapshot that fails there is `damaged`.
*/
#include "snapshot.h"

#if EMB_DEBUG > 0

int snapshot_valid(const struct core *core, const struct snapshot *s) {
  uint64_t keys = 0;
  if (s->damaged) {
    return 1;
  }
  emb_assert(s->starts[0] == 0);
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    emb_assert(s->starts[p] <= s->starts[p + 1]);
  }
  emb_assert(s->starts[NOTES_PARTS] == s->head.keys);
  for (uint64_t i = 0; i < s->head.extents; i++) {
    emb_assert(!i || s->extents[i - 1][0] < s->extents[i][0]);
    emb_assert(s->retention.needs(&s->retention, s->extents[i][0]));
    keys += s->extents[i][1];
  }
  emb_assert(keys == s->head.keys);
  (void)core;
  return 1;
}

/* Is the snapshot among those that keep extents? */
static int is_kept(const struct core *core, const struct snapshot *s) {
  const struct retention *at = core->retentions;
  while (at && at != &s->retention) {
    at = at->next;
  }
  return at != NULL;
}

int snapshots_valid(struct core *core, struct snapshots *list) {
  emb_assert(debug_is_locked(&core->ckpt_lock));
  for (const struct snapshot *s = list->first; s; s = s->next) {
    emb_assert(is_kept(core, s) == !s->damaged);
    emb_assert(s->dropped || s->name[0]); /* only a backup's has none */
    emb_assert(s->dropped || snapshot__find(list, s->name) == s);
  }
  return 1;
}

#endif
