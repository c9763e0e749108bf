/* SPDX-License-Identifier: MIT
**
** filter.c -- see filter.h.
*/
#include "filter.h"

#include <string.h>

#include "engine/table/session/session.h"

/* Bits are used as long as they need no more memory than slots would: two slots
** of eight bytes per key. */
#define BITS_PER_KEY 128

static uint64_t filter_slots_for(size_t n) {
  uint64_t slots = 4;
  while (slots < 2 * (uint64_t)n) {
    slots *= 2;
  }
  return slots;
}

/* A key that is not in the set, to mark empty slots. */
static int64_t filter_free_key(const int64_t *keys, size_t n) {
  for (uint64_t try = 1;; try++) {
    int64_t key = (int64_t)hash_mix(try);
    size_t i = 0;
    while (i < n && keys[i] != key) {
      i++;
    }
    if (i == n) {
      return key;
    }
  }
}

static void filter_shape_for(struct filter_shape *shape, const int64_t *keys,
                             size_t n) {
  int64_t least = n ? keys[0] : 0, most = least;
  for (size_t i = 1; i < n; i++) {
    least = keys[i] < least ? keys[i] : least;
    most = keys[i] > most ? keys[i] : most;
  }
  uint64_t span = (uint64_t)most - (uint64_t)least;
  shape->count = 0;
  if (span / BITS_PER_KEY <= n) {
    shape->kind = FILTER_BITS;
    shape->base = least;
    shape->size = span + 1;
    shape->words = span / 64 + 1;
  } else {
    shape->kind = FILTER_SLOTS;
    shape->base = most < INT64_MAX ? INT64_MAX : filter_free_key(keys, n);
    shape->size = shape->words = filter_slots_for(n);
  }
}

static void filter_add_bit(struct emb_filter *f, uint64_t *words, int64_t key) {
  uint64_t bit = (uint64_t)key - (uint64_t)f->shape.base;
  uint64_t one = UINT64_C(1) << (bit % 64);
  f->shape.count += !(words[bit / 64] & one);
  words[bit / 64] |= one;
}

static void filter_add_slot(struct emb_filter *f, uint64_t *words,
                            int64_t key) {
  uint64_t mask = f->shape.size - 1, at = hash_key(key) & mask;
  while ((int64_t)words[at] != f->shape.base && (int64_t)words[at] != key) {
    at = (at + 1) & mask;
  }
  f->shape.count += (int64_t)words[at] != key;
  words[at] = (uint64_t)key;
}

static void filter_fill(struct emb_filter *f, const int64_t *keys, size_t n) {
  uint64_t *words = f->block + FILTER_HEAD;
  int bits = f->shape.kind == FILTER_BITS;
  for (uint64_t i = 0; i < f->shape.words; i++) {
    words[i] = bits ? 0 : (uint64_t)f->shape.base;
  }
  for (size_t i = 0; i < n; i++) {
    if (bits) {
      filter_add_bit(f, words, keys[i]);
    } else {
      filter_add_slot(f, words, keys[i]);
    }
  }
  memcpy(f->block, &f->shape, sizeof f->shape);
  f->words = words;
}

int emb_filter_new(emb_session *session, const int64_t *keys, size_t n,
                   int without, emb_filter **filter) {
  struct env *env = session->core->env;
  struct emb_filter *f = env->allocate(env, sizeof *f);
  *filter = NULL;
  if (f) {
    memset(f, 0, sizeof *f);
    f->env = env;
    f->shape.without = without != 0;
    filter_shape_for(&f->shape, keys, n);
    f->block = env->allocate(env, filter_block(f) * sizeof *f->block);
  }
  if (!f || !f->block) {
    env->release(env, f);
    return session_error(session, EMB_NOMEM, "out of memory");
  }
  filter_fill(f, keys, n);
  emb_check(filter_valid(f));
  *filter = f;
  return EMB_OK;
}

void emb_filter_free(emb_filter *filter) {
  if (filter) {
    struct env *env = filter->env;
    emb_check_some(4, filter_valid(filter));
    env->release(env, filter->block);
    env->release(env, filter);
  }
}

size_t emb_filter_bytes(const emb_filter *filter) {
  return sizeof *filter + filter_block(filter) * sizeof *filter->block;
}

int filter_open(struct emb_filter *filter, const uint64_t *block, uint64_t n) {
  struct filter_shape *shape = &filter->shape;
  memset(filter, 0, sizeof *filter);
  if (n < FILTER_HEAD) {
    return 0;
  }
  memcpy(shape, block, sizeof *shape);
  filter->words = block + FILTER_HEAD;
  if (shape->words != n - FILTER_HEAD || !shape->size || shape->without > 1) {
    return 0;
  }
  return shape->kind == FILTER_BITS
             ? shape->words == (shape->size - 1) / 64 + 1
             : shape->kind == FILTER_SLOTS && shape->words == shape->size &&
                   (shape->size & (shape->size - 1)) == 0;
}

int filter__next(const struct emb_filter *f, uint64_t *at, int64_t *key) {
  const struct filter_shape *shape = &f->shape;
  if (shape->kind == FILTER_SLOTS) {
    while (*at < shape->size && (int64_t)f->words[*at] == shape->base) {
      ++*at;
    }
    if (*at == shape->size) {
      return 0;
    }
    *key = (int64_t)f->words[(*at)++];
    return 1;
  }
  while (*at < shape->size) {
    uint64_t rest = f->words[*at / 64] >> (*at % 64);
    if (rest) {
      *at += (uint64_t)__builtin_ctzll(rest);
      if (*at >= shape->size) {
        return 0;
      }
      *key = (int64_t)((uint64_t)shape->base + (*at)++);
      return 1;
    }
    *at = (*at / 64 + 1) * 64;
  }
  return 0;
}
