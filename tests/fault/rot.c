/* SPDX-License-Identifier: MIT
**
** rot.c -- single bits of a store's files flip: no answer is ever wrong.
**
** Each story of damage_help.h is told once; then one bit of one file flips, in
** a copy, and the copy is opened, read in every way and verified.  All bytes
** of the small structures are tried, and a sample of the large ones (LONG=n:
** n times as many, and every bit of the small ones).
**
** For every structure the test knows the possible results of a flip: whether
** it must be found, or whether it is never read.
*/
#include "damage_help.h"

enum { SAMPLE = 105 }; /* of each structure and store */

/* ---- structures ---------------------------------------------------------- */

enum {
  MANIFEST_NEW, /* the slot that is in use */
  MANIFEST_NEW_ZERO,
  MANIFEST_OTHER,
  LOG_HEAD,
  LOG_HEAD_ZERO,
  PAGE_HEAD,
  PAGE_KEY,
  PAGE_STAMP,
  PAGE_VECTOR,
  PAGE_REST,
  PAGE_OF_TOMBS,
  PAGE_OF_VOIDS,
  PAGE_OF_ABORT,
  NO_PAGE, /* a place of the log that holds no page */
  INDEX_HEAD,
  INDEX_SIZES,
  INDEX_ENTRIES,
  INDEX_EXTENTS,
  INDEX_REST,
  INDEX_SPARE,
  COUNTS_HEAD,
  COUNTS_REST,
  CONSUMER,
  POSITION,
  CHAIN,
  KINDS
};

static const struct {
  const char *name;
  int all; /* every byte is tried */
} kinds[KINDS] = {
    [MANIFEST_NEW] = {"manifest, slot in use", 1},
    [MANIFEST_NEW_ZERO] = {"  its zeros", 0},
    [MANIFEST_OTHER] = {"manifest, other slot", 0},
    [LOG_HEAD] = {"log head", 1},
    [LOG_HEAD_ZERO] = {"  its zeros", 0},
    [PAGE_HEAD] = {"page head", 1},
    [PAGE_KEY] = {"record, key", 0},
    [PAGE_STAMP] = {"record, stamp", 0},
    [PAGE_VECTOR] = {"record, vector", 0},
    [PAGE_REST] = {"page, rest", 0},
    [PAGE_OF_TOMBS] = {"page of deletions", 0},
    [PAGE_OF_VOIDS] = {"page of voids", 0},
    [PAGE_OF_ABORT] = {"page of an abort", 0},
    [NO_PAGE] = {"place without a page", 0},
    [INDEX_HEAD] = {"index, block head", 1},
    [INDEX_SIZES] = {"index, sizes", 0},
    [INDEX_ENTRIES] = {"index, entries", 0},
    [INDEX_EXTENTS] = {"index, extents", 1},
    [INDEX_REST] = {"index, rest", 0},
    [INDEX_SPARE] = {"index, kept for the next", 0},
    [COUNTS_HEAD] = {"admission, heads", 1},
    [COUNTS_REST] = {"admission, rest", 0},
    [CONSUMER] = {"consumer", 0},
    [POSITION] = {"position", 1},
    [CHAIN] = {"chain", 1},
};

static struct { uint64_t flips, verdicts[VERDICTS + 1]; } tally[KINDS];

static const struct file_page *page_at(const struct damage_store *d,
                                       size_t offset) {
  for (size_t i = 0; i < d->page_count; i++)
    if (offset >= d->pages[i].offset &&
        offset - d->pages[i].offset < d->layout.page_bytes)
      return &d->pages[i];
  return NULL;
}

static int kind_in_log(const struct damage_store *d, size_t offset) {
  if (offset < LOG_FILE_HEAD)
    return offset < 40 ? LOG_HEAD : LOG_HEAD_ZERO;
  const struct file_page *page = page_at(d, offset);
  if (page == NULL)
    return NO_PAGE;
  offset -= page->offset;
  if (offset < PAGE_HEAD_BYTES)
    return PAGE_HEAD;
  if (page->kind != PAGE_DATA)
    return page->kind == PAGE_TOMB   ? PAGE_OF_TOMBS
           : page->kind == PAGE_VOID ? PAGE_OF_VOIDS
                                     : PAGE_OF_ABORT;
  offset -= PAGE_HEAD_BYTES;
  if (offset / d->layout.rec_bytes >= page->count)
    return PAGE_REST;
  offset %= d->layout.rec_bytes;
  return offset < 8                             ? PAGE_KEY
         : offset < 16                          ? PAGE_STAMP
         : offset < 16 + d->layout.vector_bytes ? PAGE_VECTOR
                                                : PAGE_REST;
}

static int kind_in_index(const struct damage_store *d, const struct file *index,
                         size_t offset) {
  char present[40];
  (void)snprintf(present, sizeof present, "index-%016" PRIx64,
                 d->manifest.index_generation);
  if (strcmp(index->name, present) != 0 ||
      offset / 65536 >= d->manifest.index_blocks)
    return INDEX_SPARE;
  const char *block = index->bytes + offset / 65536 * 65536;
  uint32_t kind, count;
  memcpy(&kind, block + 8, 4);
  memcpy(&count, block + 12, 4);
  offset %= 65536;
  if (offset < 16)
    return INDEX_HEAD;
  if (offset >= 16 + (size_t)count * (kind == 1 ? 4 : 16))
    return INDEX_REST;
  return kind == 1 ? INDEX_SIZES : kind == 2 ? INDEX_ENTRIES : INDEX_EXTENTS;
}

static int kind_of(struct damage_store *d, const struct file *file,
                   size_t offset) {
  if (strcmp(file->name, "manifest") == 0) {
    if (offset / MANIFEST_SLOT != d->manifest.generation % 2)
      return MANIFEST_OTHER;
    return offset % MANIFEST_SLOT < 128 ? MANIFEST_NEW : MANIFEST_NEW_ZERO;
  }
  if (strcmp(file->name, "admission") == 0)
    return offset % 65536 < (offset < 65536 ? 160 : 16) ? COUNTS_HEAD
                                                        : COUNTS_REST;
  return strncmp(file->name, "consumer-", 9) == 0 ? CONSUMER
         : strcmp(file->name, "position") == 0    ? POSITION
         : strcmp(file->name, "chain") == 0       ? CHAIN
         : strcmp(file->name, "log") == 0         ? kind_in_log(d, offset)
                                          : kind_in_index(d, file, offset);
}

/* ---- flips --------------------------------------------------------------- */

/* Not allowed: an undetected flip in data that the store reads.  One of the
** manifest's two slots is enough. */
static int allowed(const struct damage_store *d, int kind,
                   const struct file_page *page, enum verdict verdict) {
  if (kind <= MANIFEST_OTHER)
    return verdict == COUNTED || verdict == VERIFY;
  if (kind >= COUNTS_HEAD) /* no row depends on it; recovery replaces counts */
    return verdict == VERIFY || (verdict == COUNTED && kind <= COUNTS_REST);
  if (verdict != ALIKE && verdict != CUT)
    return 1;
  if (verdict == CUT)
    return page && page->number >= d->tail_page;
  switch (kind) {
  case LOG_HEAD:
  case LOG_HEAD_ZERO:
  case INDEX_HEAD:
  case INDEX_SIZES:
  case INDEX_ENTRIES:
  case INDEX_EXTENTS:
  case INDEX_REST:
    return 0;
  default:
    return 1;
  }
}

static void flip(struct damage_store *d, const char *dir, struct file *file,
                 size_t offset, unsigned bit) {
  char what[200];
  int kind = kind_of(d, file, offset);
  const struct file_page *page =
      strcmp(file->name, "log") == 0 ? page_at(d, offset) : NULL;
  int clean = d->manifest.clean != 0, on = test_random() % 32 == 0;
  (void)snprintf(what, sizeof what, "%s: bit %u of byte %zu flipped (%s)",
                 file->name, bit, offset, kinds[kind].name);
  file->bytes[offset] = (char)(file->bytes[offset] ^ (1 << bit));
  CHECK(files_write_byte(file, dir, offset));
  enum verdict verdict =
      damage_judge(d, dir, what, clean && !on ? EMB_OPEN_READONLY : 0,
                   page && page->number >= d->tail_page, on);
  file->bytes[offset] = (char)(file->bytes[offset] ^ (1 << bit));
  if (clean && !on) /* the store was only read */
    CHECK(files_write_byte(file, dir, offset));
  else
    CHECK(files_write(&d->files, dir));
  test_check(allowed(d, kind, page, verdict), __FILE__, __LINE__,
             "%s: %s: verdict %d", d->story->name, what, verdict);
  tally[kind].flips++;
  tally[kind].verdicts[verdict]++;
}

/* Flips in every byte of the small structures (every bit with LONG, some bytes
** with SHARE), and `sample` flips in each of the others. */
static void flip_all(struct damage_store *d, const char *dir, size_t sample) {
  for (size_t f = 0; f < d->files.n; f++) {
    struct file *file = &d->files.list[f];
    uint64_t size[KINDS] = {0};
    for (size_t at = 0; at < file->size; at++)
      size[kind_of(d, file, at)]++;
    for (size_t at = 0; at < file->size; at++) {
      int kind = kind_of(d, file, at);
      if (kinds[kind].all && help_long() > 1) {
        for (unsigned bit = 0; bit < 8; bit++)
          flip(d, dir, file, at, bit);
      } else if (kinds[kind].all ? test_random() % help_share() == 0
                                 : test_random() % size[kind] < sample) {
        flip(d, dir, file, at, (unsigned)(test_random() % 8));
      }
    }
  }
}

static void print_tally(void) {
  uint64_t flips = 0;
  printf("%-24s %7s %8s %6s %7s %6s %8s %7s\n", "", "flips", "refused", "read",
         "verify", "cut", "counted", "unused");
  for (int k = 0; k < KINDS; k++) {
    printf("%-24s %7" PRIu64 " %8" PRIu64 " %6" PRIu64 " %7" PRIu64 " %6" PRIu64
           " %8" PRIu64 " %7" PRIu64 "\n",
           kinds[k].name, tally[k].flips, tally[k].verdicts[REFUSED],
           tally[k].verdicts[READ], tally[k].verdicts[VERIFY],
           tally[k].verdicts[CUT], tally[k].verdicts[COUNTED],
           tally[k].verdicts[ALIKE]);
    flips += tally[k].flips;
  }
  test_count("bits flipped", flips);
}

static void tell_and_flip(const struct story *story) {
  static struct damage_store d;
  if (damage_tell(&d, story, damage_path("origin"))) {
    const char *copy = damage_path("copy");
    CHECK(files_write(&d.files, copy));
    enum verdict verdict = damage_judge(&d, copy, "no damage", 0, 0, 1);
    test_check(verdict == ALIKE, __FILE__, __LINE__,
               "%s: it gives %d without any damage", story->name, verdict);
    CHECK(files_write(&d.files, copy));
    flip_all(&d, copy, (size_t)SAMPLE * help_long() / help_share());
  }
  damage_forget(&d);
}

TEST(closed) { tell_and_flip(&damage_stories[0]); }
TEST(closed_of_several_extents) { tell_and_flip(&damage_stories[1]); }
TEST(closed_at_its_first_checkpoint) { tell_and_flip(&damage_stories[2]); }
TEST(killed_after_a_commit) { tell_and_flip(&damage_stories[3]); }
TEST(killed_before_the_commit) { tell_and_flip(&damage_stories[4]); }
TEST(killed_before_a_checkpoint) { tell_and_flip(&damage_stories[5]); }
TEST(killed_with_a_tail) { tell_and_flip(&damage_stories[6]); }
TEST(killed_in_its_second_life) { tell_and_flip(&damage_stories[7]); }
TEST(killed_with_extents_to_find) { tell_and_flip(&damage_stories[8]); }
TEST(killed_with_a_transaction_open) { tell_and_flip(&damage_stories[9]); }

TEST(closed_with_every_file) { tell_and_flip(&damage_stories[10]); }
TEST(killed_with_every_file) {
  tell_and_flip(&damage_stories[11]);
  for (int kind = COUNTS_HEAD; kind < KINDS; kind++)
    HELP_CAME(tally[kind].flips > 0);
}

TEST(table) { print_tally(); }
