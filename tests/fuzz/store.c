/* SPDX-License-Identifier: MIT
**
** store.c -- fuzzes a whole directory.
**
** INPUT     byte 0  which store, and how it is used
**           byte 1  0: checksums stay as they were; else they are right
**           then changes until the end, each a byte for the kind, and numbers
*/
#include "lib_store.h"

static struct file *any_file(struct fuzz_store *store, struct fuzz_input *in) {
  return &store->files.list[fuzz_byte(in) % store->files.n];
}

static char *any_page(struct fuzz_store *store, struct fuzz_input *in) {
  struct file *log = files_find(&store->files, "log");
  const struct file_page *page =
      &store->pages[fuzz_byte(in) % store->page_count];
  return log && page->offset + store->layout.page_bytes <= log->size
             ? log->bytes + page->offset
             : NULL;
}

/* Bytes of any file. */
static void patch(struct fuzz_store *store, struct fuzz_input *in) {
  struct file *file = any_file(store, in);
  uint64_t at = fuzz_bytes(in, 3), n = fuzz_byte(in) % 32;
  for (uint64_t i = 0; i < n && file->size; i++)
    file->bytes[(at + i) % file->size] = (char)fuzz_byte(in);
}

/* A field of the manifest, in one slot or both. */
static void set_field(struct fuzz_store *store, struct fuzz_input *in) {
  static const struct {
    uint8_t at, bytes;
  } fields[] = {{16, 4}, {20, 4},  {24, 8},  {40, 8}, {48, 4}, {52, 4},
                {56, 4}, {60, 4},  {64, 8},  {72, 8}, {80, 8}, {88, 8},
                {96, 8}, {104, 8}, {112, 8}, {120, 8}};
  struct file *file = files_find(&store->files, "manifest");
  unsigned field = fuzz_byte(in) % (sizeof fields / sizeof fields[0]);
  unsigned slots = fuzz_byte(in);
  uint64_t value = fuzz_number(in);
  for (unsigned slot = 0; slot < 2; slot++)
    if (file && slots >> slot & 1 && file->size >= 2 * MANIFEST_SLOT)
      memcpy(file->bytes + slot * MANIFEST_SLOT + fields[field].at, &value,
             fields[field].bytes);
}

static void set_info(struct fuzz_store *store, struct fuzz_input *in) {
  char *page = any_page(store, in);
  uint32_t kind = fuzz_byte(in), flags = fuzz_byte(in) & 15;
  uint32_t count = (uint32_t)fuzz_number(in) & 0xffff;
  if (page)
    page_set_info(page, page_info(kind & 15, flags, count, fuzz_number(in)));
}

/* A record's key or stamp, a deleted key, the end of a void. */
static void set_item(struct fuzz_store *store, struct fuzz_input *in) {
  char *page = any_page(store, in);
  uint64_t item = fuzz_byte(in) % 64, word = fuzz_byte(in) % 2;
  uint64_t value = fuzz_number(in);
  size_t at = PAGE_HEAD_BYTES + item * store->layout.rec_bytes + word * 8;
  if (page && at + 8 <= store->layout.page_bytes)
    memcpy(page + at, &value, 8);
}

static void set_pair(struct fuzz_store *store, struct fuzz_input *in) {
  struct file *index = files_find(&store->files, "index-0");
  uint64_t block = fuzz_byte(in), item = fuzz_number(in) % 4095;
  uint64_t a = fuzz_number(in), b = fuzz_number(in);
  if (index == NULL || index->size < 65536)
    return;
  char *to = index->bytes + block % (index->size / 65536) * 65536 + 16;
  memcpy(to + item * 16, &a, 8);
  memcpy(to + item * 16 + 8, &b, 8);
}

static void copy_page(struct fuzz_store *store, struct fuzz_input *in) {
  char *to = any_page(store, in), *from = any_page(store, in);
  if (to && from)
    memmove(to, from, store->layout.page_bytes);
}

static void change(struct fuzz_store *store, struct fuzz_input *in) {
  struct file *file;
  switch (fuzz_byte(in) % 8) {
  case 0:
    patch(store, in);
    break;
  case 1:
    set_field(store, in);
    break;
  case 2:
    set_info(store, in);
    break;
  case 3:
    set_item(store, in);
    break;
  case 4:
    set_pair(store, in);
    break;
  case 5:
    copy_page(store, in);
    break;
  case 6: /* a page takes the place of another */
    store->pages[fuzz_byte(in) % store->page_count].number = fuzz_number(in);
    break;
  default:
    file = any_file(store, in);
    file->size = file->size * fuzz_byte(in) / 256;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in), right = fuzz_byte(&in);
  struct fuzz_store *store = fuzz_store_copy((int)(how % FUZZ_STORES));
  while (in.left)
    change(store, &in);
  if (right)
    fuzz_store_seal(store);
  fuzz_store_use(store, how >> 4);
  return 0;
}
