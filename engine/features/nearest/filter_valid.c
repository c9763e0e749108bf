/* SPDX-License-Identifier: MIT
**
** filter_valid.c -- is a filter as filter.h says?  Only in self-checking builds
** (base/debug.h).  A filter received from another process is checked when it
** is opened; it is not checked here.
*/
#include "filter.h"

#include <string.h>

#if EMB_DEBUG > 0

static void check_bits(const struct emb_filter *f) {
  const struct filter_shape *shape = &f->shape;
  uint64_t bits = 0, rest = shape->size % 64;
  emb_assert(shape->words == (shape->size - 1) / 64 + 1);
  for (uint64_t i = 0; i < shape->words; i++) {
    bits += (uint64_t)__builtin_popcountll(f->words[i]);
  }
  emb_assert(bits == shape->count);
  emb_assert(!rest || f->words[shape->words - 1] >> rest == 0);
}

static void check_slots_of_keys(const struct emb_filter *f) {
  const struct filter_shape *shape = &f->shape;
  uint64_t keys = 0;
  emb_assert(shape->words == shape->size &&
             (shape->size & (shape->size - 1)) == 0);
  emb_assert(shape->count <= shape->size / 2);
  for (uint64_t i = 0; i < shape->size; i++) {
    int64_t key = (int64_t)f->words[i];
    keys += key != shape->base;
    emb_assert(key == shape->base || filter__has(f, key));
  }
  emb_assert(keys == shape->count);
}

int filter_valid(const struct emb_filter *f) {
  emb_assert(f->words == f->block + FILTER_HEAD);
  /* A client sends the block. */
  emb_assert(memcmp(f->block, &f->shape, sizeof f->shape) == 0);
  if (f->shape.kind == FILTER_BITS) {
    check_bits(f);
  } else {
    check_slots_of_keys(f);
  }
  return 1;
}

#endif
