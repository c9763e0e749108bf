/* SPDX-License-Identifier: MIT
**
** snap_bits.c -- the slots of the log that a scan of a snapshot returns, a bit
** each, and the pages it needs for them; see snap.h.
*/
#include "snap.h"

uint64_t snap__bit_bytes(const emb_snap *snap) {
  const struct layout *l = &snap->s->core->layout;
  return snap->snapshot->head.extents * l->extent_pages * l->slots / 8 + 1;
}

static uint64_t extent_of(const struct snapshot *snapshot, uint64_t number) {
  uint64_t low = 0, high = snapshot->head.extents;
  uint64_t guess = high ? number - snapshot->extents[0][0] : 0;
  if (guess < high && snapshot->extents[guess][0] == number) {
    return guess; /* right while nothing was compacted */
  }
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (snapshot->extents[middle][0] < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int snap__bit(const emb_snap *snap, uint64_t address, uint64_t *bit) {
  const struct layout *l = &snap->s->core->layout;
  const struct snapshot *snapshot = snap->snapshot;
  uint64_t at = extent_of(snapshot, layout_extent(l, address));
  uint64_t page = layout_page(l, address) & (l->extent_pages - 1);
  uint32_t slot = layout_slot(l, address);
  if (at == snapshot->head.extents ||
      snapshot->extents[at][0] != layout_extent(l, address) ||
      slot >= l->slots || layout_page(l, address) >= snapshot->head.mark) {
    return session_error(
        snap->s, EMB_CORRUPT,
        "snapshot '%s' is damaged: it names an impossible record",
        snapshot->name);
  }
  *bit = (at * l->extent_pages + page) * l->slots + slot;
  return EMB_OK;
}

int snap__choose(emb_snap *snap, uint64_t address) {
  uint64_t bit;
  int rc = snap__bit(snap, address, &bit);
  if (!rc) {
    snap->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
  }
  return rc;
}

uint32_t snap__wanted(const emb_snap *snap, uint64_t at,
                      uint8_t wanted[SNAP_PAGES_MAX]) {
  const struct layout *l = &snap->s->core->layout;
  uint64_t bit = at * l->extent_pages * l->slots;
  uint32_t pages = 0;
  for (uint32_t i = 0; i < l->extent_pages; i++) {
    wanted[i] = 0;
    for (uint32_t k = 0; k < l->slots && !wanted[i]; k++) {
      wanted[i] = (uint8_t)snap_has_bit(snap, bit + (uint64_t)i * l->slots + k);
    }
    pages = wanted[i] ? i + 1 : pages;
  }
  return pages;
}

uint64_t snap__bad_page(const emb_snap *snap, uint64_t page, uint32_t pages,
                        const char *bytes, const uint8_t *wanted) {
  const struct core *core = snap->s->core;
  const struct layout *l = &core->layout;
  for (uint32_t i = 0; i < pages; i++, bytes += l->page_bytes) {
    if ((!wanted || wanted[i]) &&
        (!page_valid(l, bytes, core->salt, page + i) ||
         page_kind(bytes) != PAGE_DATA)) {
      return page + i;
    }
  }
  return 0;
}
