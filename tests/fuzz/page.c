/* SPDX-License-Identifier: MIT
**
** page.c -- fuzzes one page of the log, where recovery reads it.
**
** INPUT     byte 0  which store, and how it is used
**           byte 1  which page
**           then its bytes from the second word on, whose checksum is right
*/
#include "lib_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in);
  struct fuzz_store *store = fuzz_store_copy((int)(how % FUZZ_STORES));
  struct file *log = files_find(&store->files, "log");
  const struct file_page *page =
      &store->pages[fuzz_byte(&in) % store->page_count];
  size_t room = store->layout.page_bytes - 8;
  memcpy(log->bytes + page->offset + 8, in.at, in.left < room ? in.left : room);
  fuzz_store_seal(store);
  fuzz_store_use(store, how >> 4);
  return 0;
}
