/* SPDX-License-Identifier: MIT
**
** layout.c -- tests of engine/storage/rec/layout.c: sizes for every dimension
** and type, and addresses.
*/
#include "test.h"
#include "layout_help.h"

#include "engine/emb.h"
#include "engine/storage/rec/layout.h"

static int fails(uint32_t dim, uint32_t type, const char *what) {
  return test_check(0, __FILE__, __LINE__, "dim %u type %u: %s", dim, type,
                    what);
}

#define HOLDS(expr) ((expr) ? 1 : fails(l->dim, l->type, #expr))

static void check_sizes(const struct layout *l) {
  uint32_t vector = l->dim * (l->type == EMB_F16 ? 2 : 4);
  HOLDS(l->vector_bytes == vector);
  HOLDS(l->rec_bytes >= REC_HEAD_BYTES + vector);
  HOLDS(l->rec_bytes < REC_HEAD_BYTES + vector + 8);
  HOLDS(l->rec_bytes % 8 == 0);
  HOLDS(l->page_bytes > 0 && l->page_bytes % PAGE_UNIT == 0);
  HOLDS(l->slots >= 1);
  uint64_t used = (uint64_t)l->slots * l->rec_bytes;
  HOLDS(PAGE_HEAD_BYTES + used <= l->page_bytes);
  HOLDS((l->page_bytes - used) * 100 <= (uint64_t)l->page_bytes * 5);
  HOLDS(PAGE_HEAD_BYTES + used + l->rec_bytes > l->page_bytes);
  HOLDS(l->slots <= UINT16_MAX); /* the count in a page's info */
  HOLDS(l->slots <= UINT32_C(1) << l->slot_bits);
  HOLDS(l->slot_bits == 0 || l->slots > UINT32_C(1) << (l->slot_bits - 1));
  HOLDS(l->tombs >= 1 && l->tombs <= UINT16_MAX);
  HOLDS(PAGE_HEAD_BYTES + (uint64_t)l->tombs * 8 <= l->page_bytes);
  HOLDS(l->tombs / 2 >= 1); /* pairs of a page of voids */
  HOLDS(l->extent_pages == UINT32_C(1) << l->extent_bits);
  HOLDS(l->extent_bytes == (uint64_t)l->extent_pages * l->page_bytes);
  HOLDS(l->extent_bytes <= 256 * 1024 || l->extent_pages == 1);
  HOLDS((uint64_t)l->extent_bytes * 2 > 256 * 1024);
}

/* A smaller page would waste more than 5 %. */
static void check_smallest(const struct layout *l) {
  for (uint32_t page = PAGE_UNIT; page < l->page_bytes; page += PAGE_UNIT) {
    uint32_t slots = (page - PAGE_HEAD_BYTES) / l->rec_bytes;
    uint64_t waste = page - (uint64_t)slots * l->rec_bytes;
    HOLDS(slots == 0 || waste * 20 > page);
  }
}

static void check_address(const struct layout *l, uint64_t page,
                          uint32_t slot) {
  uint64_t address = layout_address(l, page, slot);
  HOLDS(layout_page(l, address) == page);
  HOLDS(layout_slot(l, address) == slot);
  HOLDS(layout_extent(l, address) == page / l->extent_pages);
  uint64_t page_offset = page % l->extent_pages * l->page_bytes;
  HOLDS(layout_page_offset(l, page) == page_offset);
  uint64_t offset = layout_rec_offset(l, address);
  HOLDS(offset == page_offset + PAGE_HEAD_BYTES + slot * l->rec_bytes);
  HOLDS(offset % 8 == 0);
  HOLDS(offset + l->rec_bytes <= page_offset + l->page_bytes);
  /* Addresses order as pages and slots do. */
  if (slot + 1 < l->slots)
    HOLDS(layout_address(l, page, slot + 1) > address);
  HOLDS(layout_address(l, page + 1, 0) > address);
}

static void check_all(uint32_t dim, uint32_t type) {
  struct layout layout, *l = &layout;
  layout_plain(l, dim, type);
  HOLDS(l->dim == dim && l->type == type);
  check_sizes(l);
  check_smallest(l);
  for (int i = 0; i < 4; i++) {
    uint64_t page = test_random() >> (18 + test_random() % 40);
    check_address(l, page, (uint32_t)(test_random() % l->slots));
    check_address(l, page, 0);
    check_address(l, page, l->slots - 1);
  }
}

TEST(every_dimension_of_float32) {
  for (uint32_t dim = 1; dim <= EMB_DIM_MAX; dim++)
    check_all(dim, EMB_F32);
}

TEST(every_dimension_of_float16) {
  for (uint32_t dim = 1; dim <= EMB_DIM_MAX; dim++)
    check_all(dim, EMB_F16);
}

/* As in engine/FORMAT.md. */
TEST(well_known_sizes) {
  struct layout l;
  layout_plain(&l, 64, EMB_F32);
  CHECK_EQ_INT(l.rec_bytes, 272);
  CHECK_EQ_INT(l.page_bytes, 4096);
  CHECK_EQ_INT(l.slots, 15);
  CHECK_EQ_INT(l.extent_pages, 64);
  layout_plain(&l, 1, EMB_F16);
  CHECK_EQ_INT(l.rec_bytes, 24);
  CHECK_EQ_INT(l.page_bytes, 4096);
  layout_plain(&l, EMB_DIM_MAX, EMB_F32);
  CHECK_EQ_INT(l.extent_pages, 1);
  CHECK_EQ_INT(l.slots, 1);
}

/* Page 0 is in extent 0, which is never used: no record has address 0. */
TEST(address_zero_is_nowhere) {
  for (uint32_t dim = 1; dim <= EMB_DIM_MAX; dim *= 2) {
    struct layout l;
    layout_plain(&l, dim, EMB_F32);
    CHECK(layout_address(&l, l.extent_pages, 0) > 0);
    CHECK_EQ_INT(layout_extent(&l, layout_address(&l, l.extent_pages, 0)), 1);
  }
}
