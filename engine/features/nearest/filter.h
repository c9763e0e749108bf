/* SPDX-License-Identifier: MIT
**
** filter.h -- a set of keys tested for every row of a search (emb.h,
** emb_filter), in a few instructions.
**
**   FILTER_BITS   a bit per key from `base` on, for dense keys
**   FILTER_SLOTS  a hash table of the keys, open addressing, at most half full.
**                 An empty slot holds `base`, which is not a key of the set
**
** A filter never changes, so any thread may read it.  A client sends the block
** to the owner, which checks that its shape fits.
*/
#ifndef EMB_NEAREST_FILTER_H
#define EMB_NEAREST_FILTER_H

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "engine/emb.h"
#include "engine/base/env/env.h"

enum { FILTER_BITS = 1, FILTER_SLOTS = 2 };

struct filter_shape {
  uint32_t kind;
  uint32_t without; /* the set holds the keys that do not fit */
  int64_t base;
  uint64_t count; /* keys */
  uint64_t size;  /* bits, or slots: a power of two */
  uint64_t words;
};

#define FILTER_HEAD (sizeof(struct filter_shape) / sizeof(uint64_t))

struct emb_filter {
  struct filter_shape shape;
  const uint64_t *words;
  struct env *env;
  uint64_t *block; /* the shape in FILTER_HEAD words, then `words` */
};

/* Opens a block of n words received from elsewhere, in place.  0: it is not a
** valid filter. */
int filter_open(struct emb_filter *filter, const uint64_t *block, uint64_t n);
static inline uint64_t filter_block(const struct emb_filter *f) {
  return FILTER_HEAD + f->shape.words;
}

static inline int filter__has(const struct emb_filter *f, int64_t key) {
  const struct filter_shape *shape = &f->shape;
  if (shape->kind == FILTER_BITS) {
    uint64_t bit = (uint64_t)key - (uint64_t)shape->base;
    return bit < shape->size && (f->words[bit / 64] >> (bit % 64) & 1);
  }
  if (key == shape->base) {
    return 0;
  }
  uint64_t mask = shape->size - 1, at = hash_key(key) & mask;
  for (uint64_t i = 0; i < shape->size; i++, at = (at + 1) & mask) {
    int64_t slot = (int64_t)f->words[at];
    if (slot == key || slot == shape->base) {
      return slot == key;
    }
  }
  return 0;
}

static inline int filter__admits(const struct emb_filter *f, int64_t key) {
  return filter__has(f, key) != (int)f->shape.without;
}

/* For a filter made in this process.  Only in self-checking builds. */
int filter_valid(const struct emb_filter *f);

/* Iterates over the keys of the set, in no order; *at is 0 at first.  0: there
** is none left. */
int filter__next(const struct emb_filter *f, uint64_t *at, int64_t *key);

#endif
