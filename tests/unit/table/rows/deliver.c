/* SPDX-License-Identifier: MIT
**
** deliver.c -- batches of Gets in every width of the processor, for vectors
** that fill registers and cache lines and for others, against the formula of
** their elements.
*/
#include "store_help.h"

#include "engine/math/vec/vec.h"
#include "engine/table/session/session.h"

enum { KEYS = 500, BATCH = 700, DIM_MAX = 1100 };

static float want(int64_t key, uint32_t j) {
  return (float)(key * 131 + (int64_t)j * 7 - 300);
}

static float vectors[BATCH * DIM_MAX];
static int64_t keys[BATCH];
static uint8_t found[BATCH];
static uint64_t versions[BATCH], put_versions[KEYS];

static void fill(emb_session *s, uint32_t dim) {
  for (int64_t key = 0; key < KEYS; key++) {
    keys[key] = key;
    for (uint32_t j = 0; j < dim; j++)
      vectors[(size_t)key * dim + j] = want(key, j);
  }
  OK(s, emb_put(s, keys, KEYS, vectors, put_versions));
}

/* Keys from KEYS on are absent. */
static void check_batch(emb_session *s, uint32_t dim, int asks) {
  size_t n = test_random() % (BATCH + 1), wrong = 0;
  float guard = 4711.5F;
  for (size_t i = 0; i < n; i++)
    keys[i] = (int64_t)(test_random() % (KEYS + 20));
  memset(vectors, 0x55, sizeof vectors);
  vectors[n * dim] = guard;
  OK(s, emb_get(s, keys, n, vectors, asks & 1 ? found : NULL,
                asks & 2 ? versions : NULL));
  for (size_t i = 0; i < n; i++) {
    int there = keys[i] < KEYS;
    for (uint32_t j = 0; j < dim; j++)
      wrong += vectors[i * dim + j] != (there ? want(keys[i], j) : 0);
    wrong += (asks & 1) && found[i] != there;
    wrong += (asks & 2) && versions[i] != (there ? put_versions[keys[i]] : 0);
  }
  CHECK_EQ_INT(wrong, 0);
  CHECK(vectors[n * dim] == guard);
}

TEST(every_width_and_dimension) {
  static const uint32_t dims[] = {1, 7, 8, 12, 16, 24, 63, 64, 65, 128, 1040};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
    const emb_config config = {.dim = dims[d],
                               .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_STEP};
    emb_store *store;
    emb_session *s;
    if (!help_open(help_path(""), &config, &store, &s))
      return;
    fill(s, dims[d]);
    for (int f = 0; vec__form(f); f++) {
      s->core->vec = vec__form(f);
      for (int round = 0; round < 12; round++)
        check_batch(s, dims[d], round % 4);
    }
    help_close(store, s);
  }
}
