/* SPDX-License-Identifier: MIT
**
** index.c -- fuzzes the index file.
**
** INPUT     byte 0  which store, and how it is used
**           then changes until the end: a byte for the kind, a block, an
**           item, and one or two numbers
*/
#include "lib_store.h"

static void change(struct fuzz_input *in, struct file *index,
                   struct manifest *m) {
  unsigned what = fuzz_byte(in);
  size_t blocks = index->size / 65536;
  char *block = index->bytes + fuzz_byte(in) % (blocks + !blocks) * 65536;
  uint64_t a, b, n = fuzz_number(in) % 4095;
  uint32_t small;
  switch (what % 6) {
  case 0: /* a pair */
    a = fuzz_number(in), b = fuzz_number(in);
    memcpy(block + 16 + n * 16, &a, 8);
    memcpy(block + 24 + n * 16, &b, 8);
    break;
  case 1: /* a size */
    small = (uint32_t)fuzz_number(in);
    memcpy(block + 16 + n * 4, &small, 4);
    break;
  case 2:
    small = (uint32_t)fuzz_number(in);
    memcpy(block + 8, &small, 4); /* kind */
    break;
  case 3:
    small = (uint32_t)fuzz_number(in);
    memcpy(block + 12, &small, 4); /* count */
    break;
  case 4:
    m->keys = fuzz_number(in);
    break;
  default:
    m->index_blocks = fuzz_number(in);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in);
  struct fuzz_store *store = fuzz_store_copy((int)(how % FUZZ_STORES));
  struct file *index = files_find(&store->files, "index-0");
  struct manifest *m = files_manifest(&store->files); /* before it changes */
  while (in.left)
    change(&in, index, m);
  fuzz_store_seal(store);
  fuzz_store_use(store, how >> 4);
  return 0;
}
