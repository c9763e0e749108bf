/* SPDX-License-Identifier: MIT
**
** bank_valid.c -- checks a shard of pending gradients against bank.h.  Only in
** self-checking builds (base/debug.h); under the shard's lock.
*/
#include "bank.h"
#include "piece.h"

#if EMB_DEBUG > 0

/* The states of a key: pending, taken, or both. */
static void check_bank_key(const struct bank *bank,
                           const struct bank_key *key) {
  emb_assert(key->n || key->taken);
  emb_assert((key->n != 0) == (key->first && key->last));
  emb_assert((key->n != 0) == (key->number != 0));
  emb_assert((key->taken != 0) == (key->taken_n != 0));
  emb_assert(key->n <= 2 * bank->rule.max); /* B2 */
  emb_assert(!key->taken || !key->n || key->taken < key->number);
}

/* The list and the counts of a shard. */
static void check_bank_list(const struct bank *bank,
                            const struct bank_shard *shard) {
  const struct bank_key *before = NULL;
  uint64_t gradients = 0;
  uint32_t keys = 0;
  for (const struct bank_key *key = shard->oldest; key; key = key->newer) {
    emb_assert(key->older == before);
    emb_assert(bank__find(shard, key->key) == key);
    check_bank_key(bank, key);
    gradients += key->n + key->taken_n;
    keys++;
    before = key;
  }
  emb_assert(shard->newest == before);
  emb_assert(keys == atomic_load(&shard->keys));
  emb_assert(gradients == shard->gradients);
  emb_assert(atomic_load(&shard->bytes) >= keys * sizeof *before);
}

int bank_shard_valid(const struct bank *bank, const struct bank_shard *shard) {
  check_bank_list(bank, shard);
  emb_assert((shard->spares != 0) == (shard->spare != NULL));
  emb_assert((shard->spare_keys != 0) == (shard->spare_key != NULL));
  return 1;
}

#endif
