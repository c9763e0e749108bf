/* SPDX-License-Identifier: MIT
**
** layout.c -- chooses the sizes; see layout.h.
*/
#include "layout.h"

#include "engine/emb.h"

static uint32_t bits_for(uint32_t n) {
  uint32_t bits = 0;
  while ((UINT32_C(1) << bits) < n) {
    bits++;
  }
  return bits;
}

void layout_init(struct layout *l, uint32_t dim, uint32_t type,
                 uint32_t vector_bytes, uint32_t value_bytes) {
  l->dim = dim;
  l->type = type;
  l->vector_bytes = vector_bytes;
  l->value_bytes = value_bytes;
  l->rec_bytes = (REC_HEAD_BYTES + l->value_bytes + 7) / 8 * 8;
  uint32_t page = PAGE_UNIT;
  for (;; page += PAGE_UNIT) {
    uint32_t room = page - PAGE_HEAD_BYTES;
    uint32_t slots = room / l->rec_bytes;
    if (slots > 0 && (page - slots * l->rec_bytes) * 20 <= page) {
      l->slots = slots;
      break;
    }
  }
  l->page_bytes = page;
  l->slot_bits = bits_for(l->slots);
  l->tombs = (page - PAGE_HEAD_BYTES) / 8;
  if (l->tombs > UINT16_MAX) {
    l->tombs = UINT16_MAX;
  }
  l->extent_bits = 0;
  while ((page << (l->extent_bits + 1)) <= EXTENT_BYTES_TARGET) {
    l->extent_bits++;
  }
  l->extent_pages = UINT32_C(1) << l->extent_bits;
  l->extent_bytes = page << l->extent_bits;
  emb_check(layout_valid(l));
}
