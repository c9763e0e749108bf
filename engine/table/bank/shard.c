/* SPDX-License-Identifier: MIT
**
** shard.c -- pending gradients, by key.
**
**            buckets             key             gradients
**            +---+   chain   +---------+ first  +---+   +---+
**            |   |---------->| key, n  |------->|   |-->|   |
**            +---+           +---------+        +---+   +---+
**                             older  newer       in the order of arrival
**
** A shard is a hash table with chains, and a list of its keys by the number of
** their first gradient.  If no outliers are looked for, the gradients of a key
** are a single element, their sum in double.
**
** FAILURE   If there is no memory for more buckets, the chains get longer.
*/
#include <string.h>

#include "bank.h"

#define BUCKETS_LEAST 64
#define SPARES_MOST 64
#define PREFETCH_BYTES 1024

int bank__shard_init(struct bank *bank, struct bank_shard *shard) {
  struct env *env = bank->store->core.env;
  pthread_condattr_t clock;
  pthread_mutex_init(&shard->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&shard->done, &clock);
  pthread_condattr_destroy(&clock);
  shard->room = BUCKETS_LEAST;
  shard->buckets = env->allocate(env, shard->room * sizeof *shard->buckets);
  return shard->buckets ? EMB_OK : EMB_NOMEM;
}

static void free_all_given(struct env *env, struct bank_given *given) {
  while (given) {
    struct bank_given *next = given->next;
    env->release(env, given);
    given = next;
  }
}

void bank__shard_free(struct bank *bank, struct bank_shard *shard) {
  struct env *env = bank->store->core.env;
  emb_check(bank_shard_valid(bank, shard));
  while (shard->oldest) {
    struct bank_key *key = shard->oldest;
    shard->oldest = key->newer;
    free_all_given(env, key->first);
    env->release(env, key);
  }
  while (shard->spare_key) {
    struct bank_key *key = shard->spare_key;
    shard->spare_key = key->chain;
    env->release(env, key);
  }
  free_all_given(env, shard->spare);
  env->release(env, (void *)shard->buckets);
  pthread_cond_destroy(&shard->done);
  pthread_mutex_destroy(&shard->lock);
}

/* ---- keys ---------------------------------------------------------------- */

static struct bank_key **bank_bucket(const struct bank_shard *shard,
                                     int64_t key) {
  return &shard->buckets[hash_key(key) & (shard->room - 1)];
}

struct bank_key *bank__find(const struct bank_shard *shard, int64_t key) {
  struct bank_key *at = *bank_bucket(shard, key);
  while (at && at->key != key) {
    at = at->chain;
  }
  return at;
}

/* The list goes from the oldest to the newest. */
static void link_newest(struct bank_shard *shard, struct bank_key *key) {
  key->older = shard->newest;
  key->newer = NULL;
  *(shard->newest ? &shard->newest->newer : &shard->oldest) = key;
  shard->newest = key;
}

static void link_oldest(struct bank_shard *shard, struct bank_key *key) {
  key->newer = shard->oldest;
  key->older = NULL;
  *(shard->oldest ? &shard->oldest->older : &shard->newest) = key;
  shard->oldest = key;
}

static void unlink_key(struct bank_shard *shard, struct bank_key *key) {
  *(key->older ? &key->older->newer : &shard->oldest) = key->newer;
  *(key->newer ? &key->newer->older : &shard->newest) = key->older;
}

static void more_buckets(struct env *env, struct bank_shard *shard) {
  size_t room = shard->room * 2;
  struct bank_key **buckets = env->allocate(env, room * sizeof *buckets);
  if (!buckets) {
    return;
  }
  env->release(env, (void *)shard->buckets);
  shard->buckets = buckets;
  shard->room = room;
  for (struct bank_key *key = shard->oldest; key; key = key->newer) {
    struct bank_key **at = bank_bucket(shard, key->key);
    key->chain = *at;
    *at = key;
  }
}

static struct bank_key *add_key(struct env *env, struct bank_shard *shard,
                                int64_t number) {
  struct bank_key *key = shard->spare_key;
  if (key) {
    shard->spare_key = key->chain;
    shard->spare_keys--;
    memset(key, 0, sizeof *key);
  } else {
    key = env->allocate(env, sizeof *key);
  }
  if (!key) {
    return NULL;
  }
  uint32_t keys = atomic_load_explicit(&shard->keys, memory_order_relaxed);
  if (keys * 2 >= shard->room) {
    more_buckets(env, shard);
  }
  struct bank_key **at = bank_bucket(shard, number);
  key->key = number;
  key->chain = *at;
  *at = key;
  link_newest(shard, key);
  atomic_store_explicit(&shard->keys, keys + 1, memory_order_release);
  return key;
}

/* The key has no gradients left. */
static void remove_key(struct env *env, struct bank_shard *shard,
                       struct bank_key *key) {
  struct bank_key **at = bank_bucket(shard, key->key);
  while (*at != key) {
    at = &(*at)->chain;
  }
  *at = key->chain;
  unlink_key(shard, key);
  if (shard->spare_keys < SPARES_MOST) {
    key->chain = shard->spare_key;
    shard->spare_key = key;
    shard->spare_keys++;
  } else {
    env->release(env, key);
  }
  atomic_store_explicit(
      &shard->keys,
      atomic_load_explicit(&shard->keys, memory_order_relaxed) - 1,
      memory_order_release);
}

/* ---- gradients ----------------------------------------------------------- */

static void bytes_add(struct bank_shard *shard, size_t plus, size_t minus) {
  uint64_t bytes = atomic_load_explicit(&shard->bytes, memory_order_relaxed);
  atomic_store_explicit(&shard->bytes, bytes + plus - minus,
                        memory_order_relaxed);
}

static struct bank_given *new_given(struct bank *bank,
                                    struct bank_shard *shard) {
  struct env *env = bank->store->core.env;
  struct bank_given *given = shard->spare;
  if (given) {
    shard->spare = given->next;
    shard->spares--;
  } else {
    given = env->resize(env, NULL, bank->given_bytes);
  }
  if (given) {
    memset(given, 0, offsetof(struct bank_given, u));
    bytes_add(shard, bank->given_bytes, 0);
  }
  return given;
}

static void end_given(struct bank *bank, struct bank_shard *shard,
                      struct bank_given *given) {
  struct env *env = bank->store->core.env;
  bytes_add(shard, 0, bank->given_bytes);
  if (shard->spares < SPARES_MOST &&
      shard->spares * bank->given_bytes < (size_t)1 << 15) {
    given->next = shard->spare;
    shard->spare = given;
    shard->spares++;
  } else {
    env->release(env, given);
  }
}

static int sums_up(const struct bank *bank) {
  return bank->rule.outlier == OUTLIER_NONE;
}

typedef double two_doubles __attribute__((vector_size(16)));

static void add_row(const struct bank *bank, struct bank_given *given,
                    const float *row) {
  if (!sums_up(bank)) {
    memcpy(given->u.row, row, bank->dim * sizeof *row);
    return;
  }
  double *sum = given->u.sum;
  uint32_t k = 0;
  if (!given->n) {
    for (; k < bank->dim; k++) {
      sum[k] = (double)row[k];
    }
    return;
  }
  /* Two at a time: compilers vectorize this loop only at -O3. */
  for (; k + 2 <= bank->dim; k += 2) {
    two_doubles a, b = {(double)row[k], (double)row[k + 1]};
    memcpy(&a, sum + k, sizeof a);
    a += b;
    memcpy(sum + k, &a, sizeof a);
  }
  for (; k < bank->dim; k++) {
    sum[k] += (double)row[k];
  }
}

/* Is there room for the next gradient of the key (NULL: of a new key)? */
static int has_room(const struct bank *bank, const struct bank_shard *shard,
                    const struct bank_key *key) {
  const struct core *core = &bank->store->core;
  uint64_t all = (uint64_t)frames_count(&core->frames) *
                 core->frames.frame_bytes / BANK_PART / BANK_SHARDS;
  uint64_t bytes = atomic_load_explicit(&shard->bytes, memory_order_relaxed);
  size_t need = (key ? 0 : sizeof *key) +
                (key && key->first && sums_up(bank) ? 0 : bank->given_bytes);
  return !shard->oldest || !need || bytes + need <= all;
}

/* The first gradient of an average: gives it a number and a time. */
static void begin_key(struct bank *bank, struct bank_shard *shard,
                      struct bank_key *key) {
  struct env *env = bank->store->core.env;
  key->number = atomic_fetch_add(&bank->number, 1) + 1;
  key->since_us = env->now_us(env);
  unlink_key(shard, key);
  link_newest(shard, key);
}

/* Under the shard's lock.  key: the gradient's, or NULL if it is new; *fresh is
** set if the shard was empty. */
static int shard_keep(struct bank *bank, struct bank_shard *shard,
                      const struct bank_gradient *g, struct bank_key *key,
                      int *fresh) {
  struct env *env = bank->store->core.env;
  uint32_t max = bank->rule.max;
  if (key && (key->n >= max || key->n + key->taken_n >= 2 * max)) {
    return KEEP_FULL;
  }
  if (!has_room(bank, shard, key)) {
    return KEEP_ROOM;
  }
  *fresh |= !shard->oldest;
  struct bank_given *given =
      key && key->last && sums_up(bank) ? key->last : new_given(bank, shard);
  if (given && !key) {
    key = add_key(env, shard, g->key);
    if (!key) {
      end_given(bank, shard, given);
    } else {
      bytes_add(shard, sizeof *key, 0);
    }
  }
  if (!given || !key) {
    return EMB_NOMEM;
  }
  if (given != key->last) {
    *(key->last ? &key->last->next : &key->first) = given;
    key->last = given;
  }
  add_row(bank, given, g->row);
  given->n++;
  given->times = given->times < UINT32_MAX - g->times ? given->times + g->times
                                                      : UINT32_MAX;
  given->lr = g->lr;
  given->step = g->step;
  given->time = g->time;
  if (!key->n++) {
    begin_key(bank, shard, key);
  }
  shard->gradients++;
  return key->n >= max ? KEEP_RIPE : EMB_OK;
}

static void prefetch_lines(const void *at, size_t bytes, int writes) {
  for (size_t k = 0; at && k < bytes && k < PREFETCH_BYTES; k += 64) {
    if (writes) {
      __builtin_prefetch((const char *)at + k, 1);
    } else {
      __builtin_prefetch((const char *)at + k, 0);
    }
  }
}

/* Finds the keys of some rows, prefetching one stage ahead: the buckets, then
** the keys, then the gradients. */
static void find_keys(const struct bank *bank, const struct bank_shard *shard,
                      const struct bank_gradient *g, uint32_t n,
                      struct bank_key **keys) {
  for (uint32_t i = 0; i < n; i++) {
    __builtin_prefetch((const void *)bank_bucket(shard, g[i].key));
  }
  for (uint32_t i = 0; i < n; i++) {
    __builtin_prefetch(*bank_bucket(shard, g[i].key), 1);
    prefetch_lines(g[i].row, bank->dim * sizeof(float), 0);
  }
  for (uint32_t i = 0; i < n; i++) {
    keys[i] = bank__find(shard, g[i].key);
    if (keys[i] && sums_up(bank)) {
      prefetch_lines(keys[i]->last, bank->given_bytes, 1);
    }
  }
}

uint32_t bank__keep(struct bank *bank, struct bank_shard *shard,
                    const struct bank_gradient *g, uint32_t n, int *rc) {
  struct bank_key *keys[BANK_PIECE];
  int fresh = 0;
  uint32_t i = 0;
  emb_assert(n <= BANK_PIECE);
  *rc = EMB_OK;
  pthread_mutex_lock(&shard->lock);
  find_keys(bank, shard, g, n, keys);
  for (; i < n && !*rc; i++) {
    *rc = shard_keep(bank, shard, &g[i], keys[i], &fresh);
  }
  emb_check_some(64, bank_shard_valid(bank, shard));
  pthread_mutex_unlock(&shard->lock);
  if (fresh) { /* the task must compute when to wake up */
    core_changed(&bank->store->core);
  }
  return *rc ? i - 1 : i;
}

/* ---- flushing ------------------------------------------------------------ */

void bank__take(struct bank_shard *shard, struct bank_key *key,
                struct bank_item *item) {
  emb_assert(key->n && !key->taken);
  *item = (struct bank_item){.shard = shard,
                             .key = key,
                             .first = key->first,
                             .last = key->last,
                             .n = key->n,
                             .number = key->number,
                             .since_us = key->since_us};
  key->taken = key->number;
  key->taken_n = key->n;
  key->taken_us = key->since_us;
  key->first = key->last = NULL;
  key->n = 0;
  key->number = 0;
}

static void put_back(struct bank_shard *shard, const struct bank_item *item) {
  struct bank_key *key = item->key;
  item->last->next = key->first;
  key->first = item->first;
  key->last = key->last ? key->last : item->last;
  key->n += item->n;
  key->number = item->number;
  key->since_us = item->since_us;
  unlink_key(shard, key);
  link_oldest(shard, key);
}

void bank__finish(struct bank *bank, const struct bank_item *item, int applied,
                  uint64_t pass) {
  struct env *env = bank->store->core.env;
  struct bank_shard *shard = item->shard;
  struct bank_key *key = item->key;
  pthread_mutex_lock(&shard->lock);
  emb_assert(key->taken == item->number);
  key->taken = 0;
  key->taken_n = 0;
  if (!applied && !EMB_SEED(SEED_PENDING_LOST_BY_ERROR)) {
    key->pass = pass;
    put_back(shard, item);
  } else {
    shard->gradients -= item->n;
    for (struct bank_given *given = item->first, *next; given; given = next) {
      next = given->next;
      end_given(bank, shard, given);
    }
    if (!key->n) {
      bytes_add(shard, 0, sizeof *key);
      remove_key(env, shard, key);
    }
  }
  emb_check_some(64, bank_shard_valid(bank, shard));
  pthread_cond_broadcast(&shard->done);
  pthread_mutex_unlock(&shard->lock);
}
