/* SPDX-License-Identifier: MIT
**
** scan_valid.c -- checks an open scan against scan.h.  Only in self-checking
** builds (base/debug.h).
*/
#include "scan.h"

#if EMB_DEBUG > 0

/* In storage order: the rows of one page, and an extent. */
static void check_pages(const emb_scan *scan) {
  emb_assert(scan->row_keys && scan->row_values && !scan->keys);
  emb_assert(scan->row_at <= scan->rows &&
             scan->rows <= scan->s->core->layout.slots);
  emb_assert(scan->batch_keys <= SCAN_BATCH);
  emb_assert(!scan->extent_no || scan->extent);
}

/* In key order: the block ends with the last key chosen. */
static void check_block(const emb_scan *scan) {
  int turned = scan->order == EMB_SCAN_DESC;
  emb_assert(!scan->started || (scan->last >= (turned ? ~scan->hi : scan->lo) &&
                                scan->last <= (turned ? ~scan->lo : scan->hi)));
  emb_assert(!scan->key_count || scan->keys[scan->key_count - 1] == scan->last);
}

int scan_valid(const emb_scan *scan) {
  emb_assert(scan->order >= EMB_SCAN_ANY && scan->order <= EMB_SCAN_KEYS);
  if (scan->order == EMB_SCAN_ANY) {
    check_pages(scan);
    return 1;
  }
  emb_assert(!scan->row_keys && !scan->extent);
  emb_assert(scan->key_at <= scan->key_count &&
             scan->key_count <= scan->key_room);
  if (scan->order == EMB_SCAN_KEYS) {
    emb_assert(scan->part <= index_parts(&scan->s->core->index));
  } else {
    check_block(scan);
  }
  return 1;
}

#endif
