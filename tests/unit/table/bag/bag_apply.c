/* SPDX-License-Identifier: MIT
**
** bag_apply.c -- tests of emb_bag_apply: against SGD computed here in double
** precision, and bit for bit against emb_apply_gradients with one row for each
** key, for optimizers with state and for rows on disk, tracked or averaged.
*/
#include "bag_help.h"

#include <math.h>

enum { KEYS = 1000, DIM = 9 };

static struct bag_batch batch;
static float gradients[BAG_COUNT_MAX * DIM];
static float expanded[BAG_KEYS_MAX * DIM];

static void any_gradients(size_t count) {
  for (size_t i = 0; i < count * DIM; i++)
    gradients[i] = (float)(test_random() % 2001) / 1000 - 1;
}

static void put_rows(emb_session *s) {
  static float rows[KEYS * DIM];
  static int64_t keys[KEYS];
  for (int64_t i = 0; i < KEYS; i++) {
    keys[i] = i;
    for (int64_t k = 0; k < DIM; k++)
      rows[i * DIM + k] = (float)((i * 31 + k * 17) % 257 - 128) / 8;
  }
  OK(s, emb_put(s, keys, KEYS, rows, NULL));
}

TEST(sgd_by_hand) {
  static double want[KEYS * DIM];
  static float got[KEYS * DIM];
  static int64_t keys[KEYS];
  static uint8_t found[BAG_KEYS_MAX];
  emb_config c = {.dim = DIM,
                  .flags = EMB_OPEN_TEMPORARY,
                  .insert_on = EMB_INSERT_ON_PUT,
                  .optimizer = "sgd(lr=0.5)"};
  emb_store *store;
  emb_session *s;
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  put_rows(s);
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  for (unsigned round = 0; round < help_amount(20); round++) {
    /* Two keys in a hundred are absent. */
    bag_any(&batch, test_random() % BAG_KEYS_MAX, KEYS + 19, 20);
    any_gradients(batch.bags.count);
    OK(s, emb_peek(s, keys, KEYS, got, NULL, NULL));
    for (size_t i = 0; i < KEYS * DIM; i++)
      want[i] = (double)got[i];
    for (size_t bag = 0; bag < batch.bags.count; bag++)
      for (size_t i = (size_t)batch.offsets[bag]; i < bag_help_end(&batch, bag);
           i++)
        for (size_t k = 0; k < DIM && batch.keys[i] < KEYS; k++)
          want[(size_t)batch.keys[i] * DIM + k] -=
              0.5 * bag_help_by(&batch, bag, i) *
              (double)gradients[bag * DIM + k];
    batch.bags.found = found;
    OK(s, emb_bag_apply(s, batch.keys, batch.n, &batch.bags, gradients, NULL));
    for (size_t i = 0; i < batch.n; i++)
      if (!CHECK_EQ_INT(found[i], batch.keys[i] < KEYS))
        return;
    OK(s, emb_peek(s, keys, KEYS, got, NULL, NULL));
    for (size_t i = 0; i < KEYS * DIM; i++)
      if (!CHECK(fabs((double)got[i] - want[i]) < 1e-4))
        return;
  }
  CHECK_EQ_INT(emb_count(s), KEYS);
  help_close(store, s);
}

/* ---- against the same gradients, row by row ------------------------------ */

/* Computed in float32, as documented. */
static void expand(void) {
  for (size_t bag = 0; bag < batch.bags.count; bag++) {
    size_t first = (size_t)batch.offsets[bag], end = bag_help_end(&batch, bag);
    float keys = (float)(end - first);
    float by = batch.bags.mode == EMB_BAG_SUM    ? 1
               : batch.bags.mode == EMB_BAG_MEAN ? keys
                                                 : sqrtf(keys);
    for (size_t i = first; i < end; i++) {
      float weight = (batch.bags.weights ? batch.weights[i] : 1) / by;
      for (size_t k = 0; k < DIM; k++)
        expanded[i * DIM + k] = weight * gradients[bag * DIM + k];
    }
  }
}

struct pair {
  emb_store *store[2];
  emb_session *s[2]; /* the second gets a row for each key */
};

static int pair_open(struct pair *p, emb_config c) {
  c.flags |= EMB_OPEN_CREATE;
  for (int i = 0; i < 2; i++) {
    if (!help_open(help_path(i ? "rows" : "bags"), &c, &p->store[i], &p->s[i]))
      return 0;
    put_rows(p->s[i]);
  }
  return 1;
}

static void pair_close(struct pair *p) {
  help_close(p->store[0], p->s[0]);
  help_close(p->store[1], p->s[1]);
}

static void pair_is_same(struct pair *p) {
  static int64_t keys[KEYS + 20];
  static float got[2][(KEYS + 20) * DIM];
  for (int64_t i = 0; i < KEYS + 20; i++)
    keys[i] = i;
  for (int i = 0; i < 2; i++)
    OK(p->s[i], emb_peek(p->s[i], keys, KEYS + 20, got[i], NULL, NULL));
  CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
  CHECK_EQ_INT(emb_count(p->s[0]), emb_count(p->s[1]));
}

static void pair_step(struct pair *p, size_t n) {
  static uint8_t found[2][BAG_KEYS_MAX];
  const emb_update how = {.lr = test_random() % 2 ? 0.25f : 0,
                          .step = test_random() % 3};
  bag_any(&batch, n, KEYS + 19, 20);
  any_gradients(batch.bags.count);
  expand();
  batch.bags.found = found[0];
  OK(p->s[0],
     emb_bag_apply(p->s[0], batch.keys, batch.n, &batch.bags, gradients, &how));
  OK(p->s[1], emb_apply_gradients(p->s[1], batch.keys, batch.n, expanded, &how,
                                  &(emb_rows){.found = found[1]}));
  CHECK(memcmp(found[0], found[1], n) == 0);
}

static void compare(emb_config c) {
  struct pair p;
  if (!pair_open(&p, c))
    return;
  for (unsigned round = 0; round < help_amount(20); round++)
    pair_step(&p, test_random() % BAG_KEYS_MAX);
  pair_is_same(&p);
  pair_close(&p);
}

TEST(adagrad) { compare((emb_config){.dim = DIM, .optimizer = "adagrad"}); }

TEST(adam_on_disk) {
  compare(
      (emb_config){.dim = DIM, .optimizer = "adam", .memory_bytes = 64 << 10});
}

TEST(rows_that_appear) {
  compare((emb_config){.dim = DIM,
                       .optimizer = "sgd",
                       .initializer = "uniform(low=-1, high=1)",
                       .insert_on = EMB_INSERT_ON_UPDATE,
                       .admission = "count(n=3)"});
}

TEST(halves_that_track) {
  struct pair p;
  static emb_track tracks[2][KEYS];
  static int64_t keys[KEYS];
  if (!pair_open(&p, (emb_config){.dim = DIM,
                                  .type = EMB_F16,
                                  .optimizer = "sgd",
                                  .track = EMB_TRACK_DATA}))
    return;
  for (int64_t i = 0; i < KEYS; i++)
    keys[i] = i;
  for (int i = 0; i < 2; i++)
    emb_session_time(p.s[i], 1000);
  for (unsigned round = 0; round < help_amount(10); round++)
    pair_step(&p, test_random() % BAG_KEYS_MAX);
  pair_is_same(&p);
  for (int i = 0; i < 2; i++)
    OK(p.s[i], emb_tracks(p.s[i], keys, KEYS, tracks[i], NULL));
  CHECK(memcmp(tracks[0], tracks[1], sizeof tracks[0]) == 0);
  pair_close(&p);
}

/* A call counts as one gradient for each of its keys. */
TEST(averaged) {
  struct pair p;
  static emb_pending_key pending[2][KEYS + 20];
  size_t n[2];
  if (!pair_open(&p, (emb_config){.dim = DIM,
                                  .optimizer = "adagrad",
                                  .track = EMB_TRACK_WALL,
                                  .gradients = "average(max=4, expire=1h)"}))
    return;
  pair_step(&p, 1500);
  pair_step(&p, 1500);
  for (int i = 0; i < 2; i++)
    OK(p.s[i], emb_pending(p.s[i], pending[i], KEYS + 20, &n[i]));
  CHECK_EQ_INT(n[0], n[1]);
  CHECK(n[0] > KEYS / 2);
  for (unsigned round = 0; round < help_amount(10); round++)
    pair_step(&p, test_random() % BAG_KEYS_MAX);
  for (int i = 0; i < 2; i++)
    OK(p.s[i], emb_flush_gradients(p.s[i], NULL));
  pair_is_same(&p);
  /* emb_bag sees pending gradients. */
  static float got[BAG_COUNT_MAX * DIM], want[BAG_COUNT_MAX * DIM];
  pair_step(&p, 700);
  OK(p.s[0], emb_bag(p.s[0], batch.keys, batch.n, &batch.bags, got));
  OK(p.s[1], emb_flush_gradients(p.s[1], NULL));
  OK(p.s[1], emb_bag(p.s[1], batch.keys, batch.n, &batch.bags, want));
  CHECK(memcmp(got, want, batch.bags.count * DIM * sizeof(float)) == 0);
  pair_close(&p);
}

/* ---- leases, locks, errors ----------------------------------------------- */

TEST(it_gives_leases_back) {
  emb_config c = {.dim = DIM,
                  .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_BOUNDED,
                  .staleness = 0,
                  .timeout_ms = 50,
                  .optimizer = "sgd"};
  emb_store *store;
  emb_session *s;
  int64_t keys[] = {1, 2, 1}, offsets[] = {0, 2};
  const emb_bags bags = {.offsets = offsets, .count = 2, .mode = EMB_BAG_MEAN};
  float got[2 * DIM];
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  put_rows(s);
  for (int i = 0; i < 3; i++) {
    OK(s, emb_bag(s, keys, 3, &bags, got));
    CHECK_EQ_INT(emb_leases(s), 2);
    OK(s, emb_bag_apply(s, keys, 3, &bags, got, NULL));
    CHECK_EQ_INT(emb_leases(s), 0);
  }
  OK(s, emb_bag(s, keys, 3, &bags, got));
  GIVES(s, EMB_BUSY, emb_bag(s, keys, 3, &bags, got));
  help_close(store, s);
}

TEST(keys_of_a_transaction) {
  emb_config c = {.dim = DIM,
                  .flags = EMB_OPEN_CREATE,
                  .timeout_ms = 50,
                  .optimizer = "sgd"};
  emb_store *store;
  emb_session *s, *other;
  emb_err err;
  int64_t key = 5, offset = 0;
  const emb_bags bags = {.offsets = &offset, .count = 1, .mode = EMB_BAG_SUM};
  float zeros[DIM] = {0};
  if (!help_open(help_path("store"), &c, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK))
    return;
  put_rows(s);
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, zeros));
  GIVES(s, EMB_LOCKED, emb_bag_apply(s, &key, 1, &bags, zeros, NULL));
  GIVES(other, EMB_BUSY, emb_bag_apply(other, &key, 1, &bags, zeros, NULL));
  emb_rollback(s);
  OK(other, emb_bag_apply(other, &key, 1, &bags, zeros, NULL));
  emb_session_close(other);
  help_close(store, s);
}

TEST(what_is_refused) {
  emb_config c = {.dim = 2, .flags = EMB_OPEN_TEMPORARY};
  emb_store *store;
  emb_session *s;
  int64_t keys[] = {1, 2, 1}, offsets[] = {0, 1, 2};
  const emb_bags bags = {.offsets = offsets, .count = 3, .mode = EMB_BAG_SUM};
  const emb_bags none = {.offsets = offsets, .count = 1, .mode = EMB_BAG_SUM};
  float rows[] = {1, 1, 1, 1, 1, 1}, got[2];
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  GIVES(s, EMB_UNFIT, emb_bag_apply(s, keys, 3, &bags, rows, NULL));
  GIVES(s, EMB_UNFIT, emb_bag_apply(s, keys, 0, &none, rows, NULL));
  help_close(store, s);
  c.optimizer = "sgd(lr=1)";
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  GIVES(s, EMB_RANGE,
        emb_bag_apply(s, keys, 3, &bags, rows, &(emb_update){.lr = -1}));
  GIVES(s, EMB_RANGE,
        emb_bag_apply(s, keys, 3, &bags, rows, &(emb_update){.read = rows}));
  CHECK(strstr(emb_errmsg(s), "emb_update.read") != NULL);
  rows[3] = NAN;
  GIVES(s, EMB_NONFINITE, emb_bag_apply(s, keys, 3, &bags, rows, NULL));
  CHECK(strstr(emb_errmsg(s), "element 1 of gradient 1") != NULL);
  rows[3] = 1;
  rows[0] = rows[4] = 3e38f; /* both are for key 1 */
  GIVES(s, EMB_NONFINITE, emb_bag_apply(s, keys, 3, &bags, rows, NULL));
  CHECK(strstr(emb_errmsg(s), "key 1: element 0 of the sum") != NULL);
  CHECK_EQ_INT(emb_count(s), 0);
  rows[4] = 0;
  OK(s, emb_bag_apply(s, keys, 3, &bags, rows, NULL));
  OK(s, emb_peek(s, keys, 1, got, NULL, NULL));
  CHECK(got[0] == -3e38f && got[1] == -2);
  help_close(store, s);
}
