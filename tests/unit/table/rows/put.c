/* SPDX-License-Identifier: MIT
**
** put.c -- Puts of whole vectors whose rows are new, repeated, or older than a
** checkpoint: the vectors against a model, the versions against the rule that
** they grow, and the slots that they take.
*/
#include "store_help.h"

#include "engine/table/store/store.h"

#include <pthread.h>
#include <stdlib.h>

enum { DIM = 64, KEYS = 3000, BATCH = 256, THREADS = 3, ROUNDS = 4000 };

static emb_config config(uint32_t flags) {
  return (emb_config){.dim = DIM,
                      .memory_bytes = 8 << 20,
                      .timeout_ms = 10000,
                      .flags = EMB_OPEN_CREATE | flags};
}

/* Only the first row of a new key takes a slot; the last one counts. */
TEST(a_new_key_many_times_in_a_batch) {
  enum { ROWS = 6000 };
  static int64_t keys[ROWS];
  static float vectors[ROWS * DIM];
  static uint64_t versions[ROWS];
  emb_config c = config(EMB_OPEN_STEP);
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (int i = 0; i < ROWS; i++) {
    keys[i] = i % 2 + 1;
    help_vector(vectors + (size_t)i * DIM, DIM, keys[i], i);
  }
  uint64_t before = atomic_load(&store->core.log.tail);
  OK(s, emb_put(s, keys, ROWS, vectors, versions));
  CHECK(atomic_load(&store->core.log.tail) - before <= 1); /* one page */
  CHECK_EQ_INT(help_stat(store, "keys"), 2);
  CHECK_EQ_INT(help_peek(s, 1), ROWS - 2);
  CHECK_EQ_INT(help_peek(s, 2), ROWS - 1);
  for (int i = 2; i < ROWS; i++)
    CHECK(versions[i] > versions[i - 2]);
  CHECK(help_close(store, s));
}

/* Each Put of a key gives a higher version than the one that is read, and that
** version is then read, wherever the old record is. */
TEST(versions_grow_across_checkpoints) {
  static int32_t model[KEYS];
  static uint64_t last[KEYS];
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH];
  uint64_t got[BATCH];
  emb_config c = config(EMB_OPEN_STEP);
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  unsigned rounds = help_amount(600);
  for (unsigned round = 1; round <= rounds; round++) {
    for (int i = 0; i < BATCH; i++) {
      keys[i] = (int64_t)(test_random() % KEYS);
      model[keys[i]] = (int32_t)(round * BATCH) + i;
      help_vector(vectors + (size_t)i * DIM, DIM, keys[i], model[keys[i]]);
    }
    OK(s, emb_put(s, keys, BATCH, vectors, got));
    for (int i = 0; i < BATCH; i++) {
      CHECK(got[i] > last[keys[i]]);
      last[keys[i]] = got[i];
    }
    OK(s, emb_get(s, keys, BATCH, vectors, NULL, got));
    for (int i = 0; i < BATCH; i++) {
      CHECK_EQ_INT(got[i], last[keys[i]]);
      CHECK(help_is(vectors + (size_t)i * DIM, DIM, keys[i], model[keys[i]]));
    }
    if (test_random() % 8 == 0)
      OK(s, emb_checkpoint(s));
    if (test_random() % 64 == 0) {
      CHECK(help_close(store, s));
      if (!help_open(help_path("store"), &c, &store, &s))
        return;
    }
  }
  CHECK(help_verify(s));
  CHECK(help_close(store, s));
}

/* ---- several sessions ---------------------------------------------------- */

struct putter {
  emb_store *store;
  uint64_t versions[ROUNDS]; /* of the Puts of key 1 */
  unsigned rounds;
};
static struct putter putters[THREADS];
static _Atomic int putting;

/* Puts key 1 as the last row of a batch, so that the version of another
** session's later batch is often written first. */
static void *put_hot(void *arg) {
  struct putter *p = arg;
  emb_session *s;
  emb_err err;
  if (emb_session_open(p->store, &s, &err))
    return NULL;
  static float vectors[64 * DIM];
  for (unsigned i = 0; i < p->rounds; i++) {
    int64_t keys[64];
    uint64_t versions[64], seen;
    size_t n = 1 + i * 7 % 64;
    for (size_t k = 0; k < n; k++)
      keys[k] = k + 1 == n ? 1 : (int64_t)(2 + (i * 64 + k) % KEYS);
    OK(s, emb_put(s, keys, n, vectors, versions));
    p->versions[i] = versions[n - 1];
    OK(s, emb_get(s, keys + n - 1, 1, NULL, NULL, &seen));
    CHECK(seen >= versions[n - 1]);
    CHECK(seen <= atomic_load(&p->store->core.version));
  }
  emb_session_close(s);
  atomic_fetch_sub(&putting, 1);
  return NULL;
}

/* While checkpoints make key 1's record old again and again, no two Puts of it
** get the same version, and none gets one above the store's counter. */
TEST(versions_of_sessions_differ) {
  emb_config c = config(0);
  emb_store *store;
  emb_session *s;
  pthread_t threads[THREADS];
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  unsigned rounds = help_amount(ROUNDS) < ROUNDS ? help_amount(ROUNDS) : ROUNDS;
  atomic_store(&putting, THREADS);
  for (int i = 0; i < THREADS; i++) {
    putters[i].store = store;
    putters[i].rounds = rounds;
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, put_hot, &putters[i]), 0);
  }
  while (atomic_load(&putting))
    OK(s, emb_checkpoint(s));
  static int64_t all[THREADS * ROUNDS];
  size_t n = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    for (unsigned k = 0; k < rounds; k++) {
      CHECK(k == 0 || putters[i].versions[k] > putters[i].versions[k - 1]);
      all[n++] = (int64_t)putters[i].versions[k];
    }
  }
  qsort(all, n, sizeof *all, help_compare_keys);
  for (size_t i = 1; i < n; i++)
    CHECK(all[i] > all[i - 1]);
  CHECK(help_verify(s));
  CHECK(help_close(store, s));
}
