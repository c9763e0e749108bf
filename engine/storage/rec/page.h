/* SPDX-License-Identifier: MIT
**
** page.h -- the header of a log page, and its checksum.
**
**   00-07  sum    hash_sum of bytes 8 .. page_bytes-1 at position page number
**   08-15  info   bits  0- 3  kind
**                 bits  4- 7  flags
**                 bits  8-23  count: slots or items in use
**                 bits 24-63  transaction number; 0 for immediate writes
**   16-..  kind PAGE_DATA  records
**          kind PAGE_TOMB  count keys of 8 bytes that were deleted
**          kind PAGE_VOID  count pairs of addresses [from, to): records of
**                          this transaction that a savepoint undid
**          kind PAGE_ABORT nothing; the transaction was prepared and undone
**
** A transaction's last page carries PAGE_LAST, which makes the transaction
** complete.  PAGE_SYNCED on the last page says that everything before it was
** made durable with it (a prepare); without it the engine decided alone.
** PAGE_EXPIRED and PAGE_EVICTED say why the keys of a tombstone page were
** deleted; without either flag they were deleted on request.
*/
#ifndef EMB_REC_PAGE_H
#define EMB_REC_PAGE_H

#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "layout.h"

enum { PAGE_DATA = 1, PAGE_TOMB = 2, PAGE_VOID = 3, PAGE_ABORT = 4 };
enum { PAGE_LAST = 1, PAGE_SYNCED = 2, PAGE_EXPIRED = 4, PAGE_EVICTED = 8 };

#define PAGE_FLAG_SHIFT 4
#define PAGE_KIND_MASK 15

#define PAGE_TXN_MAX ((UINT64_C(1) << 40) - 1)

struct page_head {
  uint64_t sum;  /* 00-07 */
  uint64_t info; /* 08-15 */
};
_Static_assert(sizeof(struct page_head) == PAGE_HEAD_BYTES, "page header");

static inline uint64_t page_info(uint32_t kind, uint32_t flags, uint32_t count,
                                 uint64_t txn) {
  return (uint64_t)kind | (uint64_t)flags << PAGE_FLAG_SHIFT |
         (uint64_t)count << 8 | txn << 24;
}
/* The info of a page in memory is written when the page is opened and closed,
** while a scan may be reading it: relaxed atomic. */
static inline uint64_t page_info_of(const void *page) {
  return __atomic_load_n(&((const struct page_head *)page)->info,
                         __ATOMIC_RELAXED);
}
static inline void page_set_info(void *page, uint64_t info) {
  __atomic_store_n(&((struct page_head *)page)->info, info, __ATOMIC_RELAXED);
}
static inline uint32_t page_kind(const void *page) {
  return (uint32_t)(page_info_of(page) & PAGE_KIND_MASK);
}
static inline uint32_t page_flags(const void *page) {
  return (uint32_t)(page_info_of(page) >> PAGE_FLAG_SHIFT & 15);
}
static inline uint32_t page_count(const void *page) {
  return (uint32_t)(page_info_of(page) >> 8 & 0xffff);
}
static inline uint64_t page_txn(const void *page) {
  return page_info_of(page) >> 24;
}

static inline uint64_t page_sum(const struct layout *l, const void *page,
                                uint64_t salt, uint64_t number) {
  return hash_sum((const char *)page + 8, l->page_bytes - 8, salt, number);
}
/* Returns the page number for which the page's checksum was computed. */
static inline uint64_t page_number(const struct layout *l, const void *page,
                                   uint64_t salt) {
  return hash_position((const char *)page + 8, l->page_bytes - 8, salt,
                       ((const struct page_head *)page)->sum);
}
/* Are checksum, kind and count valid? */
static inline int page_valid(const struct layout *l, const void *page,
                             uint64_t salt, uint64_t number) {
  if (!EMB_SEED(SEED_PAGE_SUM_UNCHECKED) &&
      ((const struct page_head *)page)->sum !=
          page_sum(l, page, salt, number)) {
    return 0;
  }
  uint32_t kind = page_kind(page), count = page_count(page);
  switch (kind) {
  case PAGE_DATA:
    return count <= l->slots;
  case PAGE_TOMB:
    return count <= l->tombs;
  case PAGE_VOID:
    return count <= l->tombs / 2;
  case PAGE_ABORT:
    return 1;
  default:
    return 0;
  }
}

/* For assertions: is the page ready to be written?  It was opened and closed,
** its items fit, and no record in it is being changed. */
static inline int page_is_closed(const struct layout *l, const void *page) {
  uint32_t kind = page_kind(page), count = page_count(page);
  const char *stamp = (const char *)page + PAGE_HEAD_BYTES + 8;
  if (kind != PAGE_DATA) {
    return (kind == PAGE_TOMB && count <= l->tombs) || kind == PAGE_ABORT ||
           (kind == PAGE_VOID && count <= l->tombs / 2);
  }
  for (uint32_t i = 0; i < l->slots; i++, stamp += l->rec_bytes) {
    if ((*stamp & 1) != 0) { /* busy (rec.h) */
      return 0;
    }
  }
  return count <= l->slots;
}

/* Prepares a page that was read from disk for the log in memory.  The busy bit
** and sequence of its stamps mean nothing, and readers would wait for a busy
** record. */
static inline void page_settle(const struct layout *l, void *page) {
  uint32_t n = page_kind(page) == PAGE_DATA ? l->slots : 0;
  char *stamp = (char *)page + PAGE_HEAD_BYTES + 8;
  for (uint32_t i = 0; i < n; i++, stamp += l->rec_bytes) {
    memset(stamp, 0, 2);
  }
}

#endif
