/* SPDX-License-Identifier: MIT
**
** layout_valid.c -- checks the sizes of records, pages and extents against
** layout.h.  Only in self-checking builds (base/debug.h).
*/
#include "layout.h"

#if EMB_DEBUG > 0

int layout_valid(const struct layout *l) {
  emb_assert(l->vector_bytes > 0 && l->vector_bytes <= l->value_bytes);
  emb_assert(l->rec_bytes % 8 == 0 &&
             l->rec_bytes >= REC_HEAD_BYTES + l->value_bytes);
  emb_assert(l->page_bytes % PAGE_UNIT == 0);
  emb_assert(l->slots > 0 &&
             PAGE_HEAD_BYTES + (uint64_t)l->slots * l->rec_bytes <=
                 l->page_bytes);
  emb_assert(l->slots <= UINT32_C(1) << l->slot_bits);
  emb_assert(l->tombs > 0 &&
             PAGE_HEAD_BYTES + (uint64_t)l->tombs * 8 <= l->page_bytes);
  emb_assert(l->extent_pages == UINT32_C(1) << l->extent_bits &&
             l->extent_bytes == l->extent_pages * l->page_bytes);
  return 1;
}

#endif
