/* SPDX-License-Identifier: MIT
**
** delta_valid.c -- checks that a delta is as delta.h says, and that its scan
** looks at what the consumer lacks.  Only in self-checking builds
** (base/debug.h).
*/
#include "delta.h"

#if EMB_DEBUG > 0

int delta_valid(const emb_delta *d) {
  const emb_scan *scan = &d->scan;
  const struct mark *from = &d->consumer.acked;
  int is_first = from->page == 0;
  emb_assert(d->mark.page && d->mark.page <= d->mark.end);
  emb_assert(d->held == is_first);
  /* The scan is the delta's: committed rows since the consumer's mark, and
  ** deletions unless the consumer has no rows yet. */
  emb_assert(scan->changes && scan->order == EMB_SCAN_ANY);
  emb_assert(scan->since == from->version);
  emb_assert(scan->consumer == (is_first ? NULL : &d->consumer));
  emb_assert(scan->watch.deletions == (!is_first && !d->gone.sorted));
  emb_assert(scan->row_at <= scan->rows);
  emb_assert(scan->batch_keys <= SCAN_BATCH);
  /* Deletions come last. */
  emb_assert(
      !d->gone.sorted ||
      (scan->row_at == scan->rows &&
       scan->page >= layout_page(&scan->s->core->layout, scan->watch.end)));
  emb_assert(!d->complete || d->gone.sorted);
  return 1;
}

#endif
