/* SPDX-License-Identifier: MIT
**
** bank_valid.c -- each assertion about pending gradients fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/bank/piece.h"

enum { DIM = 4 };

static emb_store *store;
static emb_session *s;
static struct bank *bank;
static struct bank_shard *shard;
static struct bank_key *key;

/* A store that averages, with one pending gradient. */
static int begin(void) {
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                             .optimizer = "sgd(lr=1)",
                             .gradients = "average(expire=1h)"};
  const float row[DIM] = {1, 2, 3, 4};
  const int64_t number = 7;
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !OK(s, emb_apply_gradients(s, &number, 1, row, NULL, NULL)))
    return 0;
  bank = bank_of(store);
  shard = bank__shard(bank, hash_key(number));
  key = bank__find(shard, number);
  return CHECK(key != NULL) && CHECK(bank_shard_valid(bank, shard));
}

static void check(void) { bank_shard_valid(bank, shard); }

TEST(a_shard) {
  if (!begin())
    return;
  CHECK_FIRES(key->n = 0; check());
  CHECK_FIRES(key->first = NULL; check());
  CHECK_FIRES(key->number = 0; check());
  CHECK_FIRES(key->taken_n = 1; check());
  CHECK_FIRES(key->n = 2 * bank->rule.max + 1; check());
  CHECK_FIRES(key->taken = key->number; key->taken_n = 1; check());
  CHECK_FIRES(key->older = key; check());
  CHECK_FIRES(key->key++; check());
  CHECK_FIRES(shard->newest = NULL; check());
  CHECK_FIRES(shard->keys = 2; check());
  CHECK_FIRES(shard->gradients++; check());
  CHECK_FIRES(shard->bytes = 0; check());
  CHECK_FIRES(shard->spares = 5; check());
  CHECK_FIRES(shard->spare_keys = 5; check());
  CHECK_ALL_FIRED("engine/table/bank/bank_valid.c");
  help_close(store, s);
}

TEST(a_flush) {
  const int64_t number = 7;
  struct bank_want both = {.keys = &number, .n = 1};
  const struct bank_want all = {.waits = 1};
  const struct bank_rule rule = {.outlier = OUTLIER_NORM};
  const struct bank_set none = {.dim = DIM};
  struct bank_piece *piece;
  struct bank_item item;
  double scratch[DIM];
  float row[DIM];
  if (!begin())
    return;
  both.only = shard;
  piece = bank__piece_new(s);
  CHECK_FIRES(bank__settle(s, &both, NULL));
  CHECK_FIRES(epoch_enter(&s->core->epoch, s->slot);
              bank__settle(s, &all, NULL));
  CHECK_FIRES(piece->n = 1; bank__piece_free(s, piece));
  CHECK_FIRES(bank__apply(s, piece, 1));
  CHECK_FIRES(epoch_enter(&s->core->epoch, s->slot); bank__apply(s, piece, 1));
  CHECK_ALL_FIRED("engine/table/bank/piece.c");
  CHECK_FIRES(bank__average(&rule, &none, scratch, row));
  CHECK_ALL_FIRED("engine/table/bank/average.c");
  CHECK_FIRES(bank__take(shard, key, &item); bank__take(shard, key, &item));
  CHECK_FIRES(shard->gradients++; bank__shard_free(bank, shard));
  bank__piece_free(s, piece);
  help_close(store, s);
}
