/* SPDX-License-Identifier: MIT
**
** layout.h -- sizes of records, pages and extents, and addresses.
**
**   record   16 bytes + value, rounded up to 8:    | key | stamp | value ... |
**            The value begins with the vectors.  Many tables have nothing
**            else; schema/schema.h describes the rest.
**   page     16 bytes + slots * record:            | sum | info | slot 0 | ...
**            The smallest multiple of 4 KiB that wastes at most 5 %.  64 floats
**            give 15 slots in exactly 4096 bytes.
**   extent   a power of two of pages, about 256 KiB: the unit in which disk
**            space and frames are allocated, written and freed.
**
** An address names a slot permanently: page number << slot_bits | slot.  Page
** numbers grow with time and are never reused; page / pages per extent is the
** extent.  Numbers start at extent 1, so address 0 means "nowhere".
*/
#ifndef EMB_REC_LAYOUT_H
#define EMB_REC_LAYOUT_H

#include <stdint.h>

#include "engine/base/debug.h"

#define REC_HEAD_BYTES 16
#define PAGE_HEAD_BYTES 16
#define PAGE_UNIT 4096
#define EXTENT_BYTES_TARGET (256u * 1024)

#define LAYOUT_MIXED 2 /* segments of both types */

struct layout {
  uint32_t dim;
  uint32_t type;         /* EMB_F32, EMB_F16, LAYOUT_MIXED */
  uint32_t vector_bytes; /* stored: what a Get copies */
  uint32_t value_bytes;  /* the vectors and the rest of the value */
  uint32_t rec_bytes;
  uint32_t page_bytes;
  uint32_t slots;       /* records per page */
  uint32_t slot_bits;   /* bits of the slot in an address */
  uint32_t tombs;       /* keys per tombstone page */
  uint32_t extent_bits; /* log2 of pages per extent */
  uint32_t extent_pages;
  uint32_t extent_bytes;
};

/* Computes the sizes for records whose value has value_bytes bytes,
** vector_bytes of them vectors. */
void layout_init(struct layout *layout, uint32_t dim, uint32_t type,
                 uint32_t vector_bytes, uint32_t value_bytes);

/* Only in self-checking builds. */
int layout_valid(const struct layout *layout);

static inline uint64_t layout_page(const struct layout *l, uint64_t address) {
  return address >> l->slot_bits;
}
static inline uint32_t layout_slot(const struct layout *l, uint64_t address) {
  return (uint32_t)(address & ((UINT64_C(1) << l->slot_bits) - 1));
}
static inline uint64_t layout_address(const struct layout *l, uint64_t page,
                                      uint32_t slot) {
  emb_assert(slot < UINT32_C(1) << l->slot_bits);
  return page << l->slot_bits | slot;
}
static inline uint64_t layout_extent(const struct layout *l, uint64_t address) {
  return address >> (l->slot_bits + l->extent_bits);
}
static inline int layout_begins_extent(const struct layout *l,
                                       uint64_t address) {
  return (address & ((UINT64_C(1) << (l->slot_bits + l->extent_bits)) - 1)) ==
         0;
}
/* Byte offset of a page within its extent. */
static inline uint64_t layout_page_offset(const struct layout *l,
                                          uint64_t page) {
  return (page & (l->extent_pages - 1)) * (uint64_t)l->page_bytes;
}
/* Byte offset of a record within its extent. */
static inline uint64_t layout_rec_offset(const struct layout *l,
                                         uint64_t address) {
  return layout_page_offset(l, layout_page(l, address)) + PAGE_HEAD_BYTES +
         (uint64_t)layout_slot(l, address) * l->rec_bytes;
}

#endif
