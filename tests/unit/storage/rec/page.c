/* SPDX-License-Identifier: MIT
**
** page.c -- tests of engine/storage/rec/page.h: a page that is damaged, or from
** another place or another store, is never valid.
*/
#include "test.h"
#include "layout_help.h"

#include "engine/emb.h"
#include "engine/storage/rec/page.h"

#define SALT UINT64_C(0x1234567890abcdef)
#define NUMBER UINT64_C(77)

static struct layout layout;
static uint64_t memory[262144 / 8 + 8192];

/* A page of this kind with random contents. */
static char *page_of(uint32_t dim, uint32_t kind, uint32_t count) {
  char *page = (char *)memory;
  layout_plain(&layout, dim, EMB_F32);
  for (uint32_t i = PAGE_HEAD_BYTES; i + 8 <= layout.page_bytes; i += 8) {
    uint64_t word = test_random();
    memcpy(page + i, &word, 8);
  }
  page_set_info(page, page_info(kind, 0, count, 0));
  return page;
}

static void sign(char *page, uint64_t salt, uint64_t number) {
  uint64_t sum = page_sum(&layout, page, salt, number);
  memcpy(page, &sum, 8);
}

static int valid(const char *page) {
  return page_valid(&layout, page, SALT, NUMBER);
}

TEST(info_holds_its_four_fields) {
  for (int i = 0; i < 1000; i++) {
    uint32_t kind = (uint32_t)(test_random() % 16);
    uint32_t flags = (uint32_t)(test_random() % 16);
    uint32_t count = (uint32_t)(test_random() % 65536);
    uint64_t txn = test_random() & PAGE_TXN_MAX;
    if (i == 0)
      kind = flags = 15, count = 65535, txn = PAGE_TXN_MAX;
    struct page_head head = {0, 0};
    page_set_info(&head, page_info(kind, flags, count, txn));
    CHECK_EQ_INT(page_kind(&head), kind);
    CHECK_EQ_INT(page_flags(&head), flags);
    CHECK_EQ_INT(page_count(&head), count);
    CHECK(page_txn(&head) == txn);
    CHECK(head.sum == 0);
  }
}

TEST(each_flipped_bit_is_detected) {
  const uint32_t dims[] = {1, 64, 100};
  for (size_t d = 0; d < 3; d++) {
    char *page = page_of(dims[d], PAGE_DATA, 3);
    sign(page, SALT, NUMBER);
    CHECK(valid(page));
    for (uint32_t bit = 0; bit < layout.page_bytes * 8; bit++) {
      page[bit / 8] = (char)(page[bit / 8] ^ 1 << bit % 8);
      if (valid(page))
        test_check(0, __FILE__, __LINE__, "dim %u bit %u", dims[d], bit);
      page[bit / 8] = (char)(page[bit / 8] ^ 1 << bit % 8);
    }
    CHECK(valid(page));
  }
}

/* A page mixed from two versions, cut at each sector. */
TEST(torn_page_is_detected) {
  static char old[4096];
  char *page = page_of(64, PAGE_DATA, 15);
  CHECK_EQ_INT(layout.page_bytes, sizeof old);
  sign(page, SALT, NUMBER);
  memcpy(old, page, sizeof old);
  page = page_of(64, PAGE_DATA, 15);
  sign(page, SALT, NUMBER);
  for (size_t cut = 512; cut < sizeof old; cut += 512) {
    char kept[4096];
    memcpy(kept, page, sizeof kept);
    memcpy(page + cut, old + cut, sizeof old - cut);
    CHECK(!valid(page));
    memcpy(page, kept, sizeof kept);
  }
  CHECK(valid(page));
}

TEST(zeros_are_no_page) {
  char *page = page_of(64, PAGE_DATA, 0);
  memset(page, 0, layout.page_bytes);
  for (uint64_t number = 0; number < 1000; number++)
    CHECK(!page_valid(&layout, page, SALT, number));
  /* Invalid even if the sum happens to be right. */
  sign(page, SALT, NUMBER);
  CHECK(!valid(page));
}

TEST(page_is_valid_in_its_place_and_store_only) {
  char *page = page_of(64, PAGE_DATA, 15);
  sign(page, SALT, NUMBER);
  CHECK(page_valid(&layout, page, SALT, NUMBER));
  for (uint64_t i = 0; i < 64; i++) {
    CHECK(!page_valid(&layout, page, SALT ^ UINT64_C(1) << i, NUMBER));
    CHECK(!page_valid(&layout, page, SALT, NUMBER ^ UINT64_C(1) << i));
  }
}

TEST(number_comes_back_from_the_sum) {
  for (int i = 0; i < 500; i++) {
    char *page = page_of(1 + (uint32_t)(test_random() % 200), PAGE_DATA, 1);
    uint64_t number = test_random() >> (test_random() % 64);
    uint64_t salt = test_random();
    sign(page, salt, number);
    CHECK(page_number(&layout, page, salt) == number);
    CHECK(page_number(&layout, page, salt + 1) != number);
  }
}

static int valid_with(uint32_t kind, uint32_t count) {
  char *page = (char *)memory;
  page_set_info(page, page_info(kind, PAGE_LAST | PAGE_SYNCED, count, 9));
  sign(page, SALT, NUMBER);
  return valid(page);
}

/* Counts limit loops over the page, so they must be within it. */
TEST(counts_beyond_the_page_are_refused) {
  const uint32_t dims[] = {1, 3, 64, 1000, 1024, 30000, EMB_DIM_MAX};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
    (void)page_of(dims[d], PAGE_DATA, 0);
    CHECK(valid_with(PAGE_DATA, 0));
    CHECK(valid_with(PAGE_DATA, layout.slots));
    CHECK(!valid_with(PAGE_DATA, layout.slots + 1));
    CHECK(valid_with(PAGE_TOMB, layout.tombs));
    CHECK(layout.tombs == UINT16_MAX ||
          !valid_with(PAGE_TOMB, layout.tombs + 1));
    CHECK(valid_with(PAGE_VOID, layout.tombs / 2));
    CHECK(!valid_with(PAGE_VOID, layout.tombs / 2 + 1));
    CHECK(valid_with(PAGE_ABORT, 1));
  }
}

TEST(unknown_kinds_are_refused) {
  (void)page_of(64, PAGE_DATA, 0);
  for (uint32_t kind = 0; kind < 16; kind++)
    CHECK_EQ_INT(valid_with(kind, 0), kind >= PAGE_DATA && kind <= PAGE_ABORT);
}
