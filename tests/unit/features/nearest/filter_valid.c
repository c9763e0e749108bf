/* SPDX-License-Identifier: MIT
**
** filter_valid.c -- each assertion of engine/features/nearest/filter_valid.c
** fires.
*/
#include "store_help.h"
#include "death.h"

#include "engine/features/nearest/filter.h"

enum { KEYS = 100 };

/* A filter of keys that lie this far apart. */
static emb_filter *make(emb_session *s, int64_t step) {
  int64_t keys[KEYS];
  emb_filter *filter = NULL;
  for (int64_t i = 0; i < KEYS; i++) {
    keys[i] = i * step;
  }
  CHECK_EQ_INT(emb_filter_new(s, keys, KEYS, 0, &filter), EMB_OK);
  CHECK(filter_valid(filter));
  return filter;
}

static uint64_t *words_of(emb_filter *f) { return f->block + FILTER_HEAD; }

/* Changes the shape, in the block, too. */
static void shape(emb_filter *f, uint64_t size, uint64_t words,
                  uint64_t count) {
  f->shape.size = size;
  f->shape.words = words;
  f->shape.count = count;
  memcpy(f->block, &f->shape, sizeof f->shape);
}

/* One in four is checked. */
static void free_many(emb_session *s) {
  for (int i = 0; i < 1000; i++) {
    emb_filter *f = make(s, 3);
    f->block[0]++;
    emb_filter_free(f);
  }
}

static void bits(emb_session *s, emb_filter *f) {
  CHECK_EQ_INT(f->shape.kind, FILTER_BITS);
  CHECK_FIRES(f->words++; filter_valid(f));
  CHECK_FIRES(f->block[0]++; filter_valid(f));
  CHECK_FIRES(shape(f, f->shape.size, f->shape.words - 1, KEYS);
              filter_valid(f));
  CHECK_FIRES(words_of(f)[0] &= ~UINT64_C(1); filter_valid(f));
  CHECK_FIRES(shape(f, f->shape.size - 1, f->shape.words, KEYS);
              filter_valid(f));
  CHECK_FIRES(free_many(s));
  emb_filter_free(f);
}

/* Moves the key of slot `at` to a slot where no search for it comes. */
static void misplace(emb_filter *f, uint64_t at) {
  uint64_t *words = words_of(f), mask = f->shape.size - 1;
  uint64_t before = (hash_key((int64_t)words[at]) - 1) & mask, key = words[at];
  words[at] = (uint64_t)f->shape.base;
  words[before] = key;
}

static void slots(emb_filter *f) {
  uint64_t at = 0;
  CHECK_EQ_INT(f->shape.kind, FILTER_SLOTS);
  while ((int64_t)f->words[at] == f->shape.base) {
    at++;
  }
  CHECK_FIRES(shape(f, f->shape.size - 1, f->shape.words - 1, KEYS);
              filter_valid(f));
  CHECK_FIRES(shape(f, f->shape.size, f->shape.words, f->shape.size / 2 + 1);
              filter_valid(f));
  CHECK_FIRES(shape(f, f->shape.size, f->shape.words, KEYS - 1);
              filter_valid(f));
  CHECK_FIRES(misplace(f, at); filter_valid(f));
  emb_filter_free(f);
}

TEST(filters) {
  emb_store *store;
  emb_session *s;
  const emb_config config = {.dim = 4,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  if (!help_open(help_path("filters"), &config, &store, &s)) {
    return;
  }
  bits(s, make(s, 3));
  slots(make(s, 1000000));
  CHECK_ALL_FIRED("engine/features/nearest/filter_valid.c");
  help_close(store, s);
}
