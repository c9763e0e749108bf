/* SPDX-License-Identifier: MIT
**
** lib_store.h -- a small store in memory that fuzzers damage.
**
** The store is written once by the engine, and copied for each input.  Then
** the fuzzer changes bytes, checksums are computed where it chooses, and the
** store is used as its owner would.
*/
#ifndef EMB_FUZZ_LIB_STORE_H
#define EMB_FUZZ_LIB_STORE_H

#include "fuzz.h"

#include "files.h"

enum { FUZZ_CLOSED, FUZZ_KILLED, FUZZ_IN_DOUBT, FUZZ_STORES };
enum { FUZZ_DIM = 16, FUZZ_PAGES = 256, FUZZ_KEYS = 300 };

struct fuzz_store {
  struct files files;
  struct layout layout;
  struct file_page pages[FUZZ_PAGES];
  size_t page_count;
};

/* A fresh copy of one of the stores above; the same buffers each time. */
struct fuzz_store *fuzz_store_copy(int which);
/* The checksums of manifest, log head, known pages and index blocks. */
void fuzz_store_seal(struct fuzz_store *store);
/* Opens it, reads, writes, closes, reopens.  Bits of how: 1 read-only, 2
** writes, 4 commits the transaction in doubt, 8 optimizes. */
void fuzz_store_use(const struct fuzz_store *store, unsigned how);

#endif
