/* SPDX-License-Identifier: MIT
**
** forget_threads.c -- expiry and eviction while other threads write, read,
** commit and checkpoint.  Each key has one thread that writes it, so the key
** has the last value written, or no row.
*/
#include "store_help.h"

#include <pthread.h>

enum { WRITERS = 3, RANGE = 3000, DIM = 24, BATCH = 100, CAPACITY = 2000 };

static emb_store *store;
static _Atomic int stop;
static int32_t last[WRITERS * RANGE]; /* of the key's thread, until it ends */

struct writer {
  int number;
  uint64_t seed;
  unsigned rounds;
};

static void write_batch(emb_session *s, struct writer *w, int32_t value) {
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
  int transaction = test_random_from(&w->seed) % 8 == 0;
  int64_t from = (int64_t)(test_random_from(&w->seed) % (RANGE - BATCH));
  for (int i = 0; i < BATCH; i++) {
    keys[i] = w->number * RANGE + from + i;
    help_vector(vectors + i * DIM, DIM, keys[i], value);
    last[keys[i]] = value;
  }
  if (!transaction) {
    OK(s, emb_put(s, keys, BATCH, vectors, NULL));
    return;
  }
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, keys, BATCH, vectors));
  OK(s, emb_commit(s));
}

static void *write_on(void *arg) {
  struct writer *w = arg;
  emb_session *s;
  if (!OK(NULL, emb_session_open(store, &s, NULL)))
    return NULL;
  for (unsigned round = 0; round < w->rounds; round++)
    write_batch(s, w, (int32_t)(round % 1900));
  emb_session_close(s);
  return NULL;
}

static void *read_on(void *arg) {
  uint64_t seed = *(uint64_t *)arg;
  emb_session *s;
  if (!OK(NULL, emb_session_open(store, &s, NULL)))
    return NULL;
  while (!atomic_load(&stop)) {
    int64_t keys[BATCH];
    float vectors[BATCH * DIM];
    uint8_t found[BATCH];
    for (int i = 0; i < BATCH; i++)
      keys[i] = (int64_t)(test_random_from(&seed) % (WRITERS * RANGE));
    OK(s, emb_get(s, keys, BATCH, vectors, found, NULL));
    for (int i = 0; i < BATCH; i++)
      if (found[i])
        CHECK(help_value(vectors + i * DIM, DIM, keys[i]) != INT32_MIN);
  }
  emb_session_close(s);
  return NULL;
}

struct told {
  uint64_t seed, since, n, checkpoints;
};

static void read_told(emb_session *s, struct told *t) {
  int64_t keys[BATCH];
  uint8_t ops[BATCH];
  uint64_t positions[BATCH];
  size_t n = 1;
  while (n) {
    OK(s,
       emb_evicted(
           s, t->since, BATCH,
           &(emb_rows){.keys = keys, .ops = ops, .positions = positions}, &n));
    for (size_t i = 0; i < n; i++) {
      CHECK(keys[i] >= 0 && keys[i] < WRITERS * RANGE);
      CHECK(positions[i] > t->since);
      t->since = positions[i];
    }
    t->n += n;
  }
}

static void *maintain(void *arg) {
  struct told *t = arg;
  emb_session *s;
  if (!OK(NULL, emb_session_open(store, &s, NULL)))
    return NULL;
  while (!atomic_load(&stop)) {
    switch (test_random_from(&t->seed) % 4) {
    case 0:
      OK(s, emb_evict(s, NULL));
      break;
    case 1:
      OK(s, emb_expire(s, NULL));
      break;
    case 2:
      OK(s, emb_checkpoint(s));
      t->checkpoints++;
      break;
    default:
      read_told(s, t);
    }
  }
  emb_session_close(s);
  return NULL;
}

static void check_end(emb_session *s) {
  for (int64_t key = 0; key < WRITERS * RANGE; key++) {
    float vector[DIM];
    uint8_t found;
    OK(s, emb_peek(s, &key, 1, vector, &found, NULL));
    if (found)
      CHECK(help_is(vector, DIM, key, last[key]));
  }
  help_verify(s);
}

static void beside(uint32_t evict) {
  /* With fewer nothing is forgotten. */
  unsigned writes = help_amount(200) > 25 ? help_amount(200) : 25;
  emb_config c = {.dim = DIM,
                  .ttl = "1s",
                  .capacity = CAPACITY,
                  .evict = evict,
                  .memory_bytes = 1,
                  .timeout_ms = 60000,
                  .flags = EMB_OPEN_CREATE};
  struct writer writers[WRITERS];
  struct told told = {test_random(), 0, 0, 0};
  uint64_t seed = test_random();
  pthread_t id[WRITERS + 2];
  emb_session *s;
  atomic_store(&stop, 0);
  memset(last, 0, sizeof last);
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  OK(s, emb_delta_begin(s, "all", EMB_DELTA_NOW, UINT64_C(1) << 40));
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (struct writer){i, test_random(), writes};
    CHECK_EQ_INT(pthread_create(&id[i], NULL, write_on, &writers[i]), 0);
  }
  CHECK_EQ_INT(pthread_create(&id[WRITERS], NULL, read_on, &seed), 0);
  CHECK_EQ_INT(pthread_create(&id[WRITERS + 1], NULL, maintain, &told), 0);
  for (int i = 0; i < WRITERS; i++)
    CHECK_EQ_INT(pthread_join(id[i], NULL), 0);
  /* Each writer's last call, and a transaction. */
  CHECK(emb_count(s) <= CAPACITY + CAPACITY / 8 + (WRITERS + 1) * BATCH);
  atomic_store(&stop, 1);
  CHECK_EQ_INT(pthread_join(id[WRITERS], NULL), 0);
  CHECK_EQ_INT(pthread_join(id[WRITERS + 1], NULL), 0);
  OK(s, emb_evict(s, NULL));
  CHECK(emb_count(s) <= CAPACITY);
  check_end(s);
  /* The background may remove rows while we count. */
  int64_t before =
      help_stat(store, "evicted_keys") + help_stat(store, "expired_keys");
  read_told(s, &told);
  int64_t after =
      help_stat(store, "evicted_keys") + help_stat(store, "expired_keys");
  CHECK(before > 0);
  CHECK((int64_t)told.n >= before && (int64_t)told.n <= after);
  test_count("rows forgotten beside threads", (uint64_t)after);
  help_close(store, s);
}

TEST(lru_beside_threads) { beside(EMB_EVICT_LRU); }
TEST(lfu_beside_threads) { beside(EMB_EVICT_LFU); }
