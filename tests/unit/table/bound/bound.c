/* SPDX-License-Identifier: MIT
**
** bound.c -- defects of published stores with a staleness bound, which this
** store must not have.  Each test covers one defect.
*/
#include "staleness_help.h"

#include "engine/table/session/session.h"

/* ---- the hot key that hangs ---------------------------------------------- */

/* The text names the key, its pending reads and the bound. */
static void check_busy_text(emb_session *s, int64_t key, uint32_t bound) {
  char numbers[3][40];
  (void)snprintf(numbers[0], sizeof numbers[0], "%" PRId64, key);
  (void)snprintf(numbers[1], sizeof numbers[1], "has %" PRIu32 " pending",
                 bound + 1);
  (void)snprintf(numbers[2], sizeof numbers[2], "bound is %" PRIu32, bound);
  for (int i = 0; i < 3; i++)
    (void)test_check(strstr(emb_errmsg(s), numbers[i]) != NULL, __FILE__,
                     __LINE__, "\"%s\" does not say \"%s\"", emb_errmsg(s),
                     numbers[i]);
  CHECK_EQ_INT(emb_errcode(s), EMB_BUSY);
}

static void hot_key(uint32_t bound) {
  struct bounded x;
  struct waiting w = {0, 20};
  int64_t key = 70123;
  if (!bounded_open(&x, bound, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  emb_session_interrupt(x.a, waiting_ask, &w);
  OK(x.a, help_put(x.a, key, 1));
  for (uint32_t i = 0; i <= bound; i++)
    if (!OK(x.a, get_one(x.a, key, NULL)))
      break;
  CHECK_EQ_INT(pending_of(x.b, key), bound + 1);
  /* No other session could end this wait.  A Get that did wait is interrupted.
   */
  for (int i = 0; i < 3; i++) {
    GIVES(x.a, EMB_BUSY, get_one(x.a, key, NULL));
    check_busy_text(x.a, key, bound);
  }
  CHECK_EQ_INT(pending_of(x.b, key), bound + 1);
  CHECK_EQ_INT(emb_leases(x.a), bound + 1);
  OK(x.a, help_put(x.a, key, 2));
  OK(x.a, get_one(x.a, key, NULL));
  GIVES(x.a, EMB_BUSY, get_one(x.a, key, NULL));
  CHECK_EQ_INT(emb_release(x.a), bound + 1);
  CHECK_EQ_INT(pending_of(x.a, key), 0);
  CHECK_EQ_INT(help_peek(x.a, key), 2);
  bounded_close(&x);
}

TEST(hot_key_of_one_session) {
  hot_key(0);
  hot_key(1);
  hot_key(128);
}

enum { SKEWED_KEYS = 1000, SKEWED_CALLS = 200000 };

struct skewed {
  emb_session *s;
  uint64_t random;
  int refused;
};

/* Gets and Puts of unrelated keys: the Gets that were not given back add up on
** the most frequent key. */
static void *skewed_calls(void *arg) {
  struct skewed *k = arg;
  for (int i = 0; i < SKEWED_CALLS; i++) {
    uint64_t r = test_random_from(&k->random);
    int64_t key = (int64_t)((r >> 32) % (1 + (r & 0xffffff) % SKEWED_KEYS));
    int rc = (r >> 29 & 7) < 5 ? get_one(k->s, key, NULL)
                               : help_put(k->s, key, i % 9);
    if (rc == EMB_BUSY) {
      k->refused++;
      (void)emb_release(k->s);
    } else if (!OK(k->s, rc)) {
      break;
    }
  }
  return NULL;
}

TEST(skewed_reads_and_writes_of_two_threads_end) {
  struct bounded x;
  pthread_t thread;
  if (!bounded_open(&x, 128, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.c, 0, 1, SKEWED_KEYS, 0);
  struct skewed one = {x.a, test_random(), 0}, two = {x.b, test_random(), 0};
  if (!CHECK_EQ_INT(pthread_create(&thread, NULL, skewed_calls, &two), 0))
    abort();
  (void)skewed_calls(&one);
  (void)pthread_join(thread, NULL);
  CHECK(one.refused + two.refused > 0);
  size_t out = 0;
  for (int64_t key = 0; key < SKEWED_KEYS; key++)
    out += (size_t)pending_of(x.c, key);
  CHECK_EQ_INT(out, emb_leases(x.a) + emb_leases(x.b));
  bounded_close(&x);
}

/* ---- the waiter that stops the whole store ------------------------------- */

struct waiter {
  emb_session *s;
  int64_t key;
  int rc;
  int32_t value;
};

static void *wait_for_key(void *arg) {
  struct waiter *w = arg;
  w->rc = get_one(w->s, w->key, &w->value);
  return NULL;
}

static void waiter_beside_writer(int64_t key) {
  struct bounded x;
  struct waiting w = {0, 0};
  pthread_t thread;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.b, 0, 1, 1000, 1);
  OK(x.b, get_one(x.b, key, NULL));
  struct waiter waiter = {x.a, key, -1, 0};
  emb_session_interrupt(x.a, waiting_ask, &w);
  if (!CHECK_EQ_INT(pthread_create(&thread, NULL, wait_for_key, &waiter), 0))
    abort();
  if (waiting_began(&w)) {
    /* This needs every frame several times over: the waiter may hold none. */
    CHECK(help_put_rows(x.b, 1000, 1, 2 * MANY, 2));
    CHECK(help_stat(x.store, "evictions") > 16);
    OK(x.b, emb_checkpoint(x.b));
    OK(x.b, emb_optimize(x.b));
    CHECK_EQ_INT(pending_of(x.b, key), 1);
  }
  OK(x.b, help_put(x.b, key, 3));
  (void)pthread_join(thread, NULL);
  CHECK_EQ_INT(waiter.rc, EMB_OK);
  CHECK_EQ_INT(waiter.value, 3);
  CHECK_EQ_INT(pending_of(x.b, key), 1);
  CHECK_EQ_INT(emb_count(x.b), 1000 + 2 * MANY);
  bounded_close(&x);
}

TEST(waiter_does_not_stop_the_store) { waiter_beside_writer(7); }

/* A lease that is given back wakes the sessions that wait for its key, and few
** others; NULL, all. */
TEST(a_release_wakes_those_who_wait_for_the_key) {
  enum { KEYS = 4096 };
  struct bounded x;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  struct core *core = x.a->core;
  struct release_waiter waiter = {.hash = hash_key(-1)};
  struct released all = {{0}};
  CHECK_EQ_INT(pthread_cond_init(&waiter.woken, NULL), 0);
  core->waiting = &waiter;
  int woken = 0;
  for (int64_t key = 0; key < KEYS; key++) {
    struct released released = {{0}};
    released_add(&released, hash_key(key));
    core_signal_release(core, &released);
    woken += waiter.is_woken;
    waiter.is_woken = 0;
    CHECK(memcmp(&released, &all, sizeof all) == 0); /* cleared */
  }
  CHECK(woken <= 8); /* one is expected */
  released_add(&all, hash_key(5));
  released_add(&all, hash_key(-1));
  core_signal_release(core, &all);
  CHECK_EQ_INT(waiter.is_woken, 1);
  waiter.is_woken = 0;
  core_signal_release(core, NULL);
  CHECK_EQ_INT(waiter.is_woken, 1);
  core->waiting = NULL;
  pthread_cond_destroy(&waiter.woken);
  bounded_close(&x);
}

/* Many sessions that wait for each other's keys all get them. */
enum { CROWD = 24, CROWD_KEYS = 40, CROWD_ROUNDS = 30 };

static void *crowd_main(void *arg) {
  struct waiter *w = arg;
  int64_t keys[8];
  float vectors[8 * DIM] = {0};
  for (int i = 0; i < CROWD_ROUNDS && w->rc == EMB_OK; i++) {
    uint64_t first = test_random_from((uint64_t *)&w->key) % CROWD_KEYS;
    for (int j = 0; j < 8; j++)
      keys[j] = (int64_t)((first + (uint64_t)j * 5) % CROWD_KEYS);
    w->rc = emb_get(w->s, keys, 8, vectors, NULL, NULL);
    w->rc = w->rc ? w->rc : emb_put(w->s, keys, 8, vectors, NULL);
  }
  return NULL;
}

TEST(a_crowd_waits_for_each_other) {
  struct bounded x;
  struct waiter crowd[CROWD];
  pthread_t threads[CROWD];
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.b, 0, 1, CROWD_KEYS, 1);
  for (int i = 0; i < CROWD; i++) {
    crowd[i] = (struct waiter){.key = (int64_t)test_random()};
    OK(x.a, emb_session_open(x.store, &crowd[i].s, NULL));
  }
  for (int i = 0; i < CROWD; i++)
    if (!CHECK_EQ_INT(pthread_create(&threads[i], NULL, crowd_main, &crowd[i]),
                      0))
      abort();
  for (int i = 0; i < CROWD; i++) {
    (void)pthread_join(threads[i], NULL);
    CHECK_EQ_INT(crowd[i].rc, EMB_OK);
    CHECK_EQ_INT(emb_leases(crowd[i].s), 0);
    emb_session_close(crowd[i].s);
  }
  CHECK(x.a->core->waiting == NULL);
  CHECK_EQ_INT(atomic_load(&x.a->core->release_waiters), 0);
  bounded_close(&x);
}

/* ---- torn reads ---------------------------------------------------------- */

struct beside {
  emb_session *s;
  int64_t key;
  int counts; /* Get instead of peek */
  _Atomic int *over;
};

static void *read_whole(void *arg) {
  struct beside *r = arg;
  float vector[DIM];
  uint64_t version = 0;
  for (int i = 0; !atomic_load(r->over); i++) {
    uint64_t now;
    if (!OK(r->s, (r->counts ? emb_get : emb_peek)(r->s, &r->key, 1, vector,
                                                   NULL, &now)) ||
        !CHECK(help_value(vector, DIM, r->key) != INT32_MIN) ||
        !CHECK(now >= version))
      break;
    version = now;
    if (i % 64 == 0)
      (void)emb_release(r->s);
  }
  return NULL;
}

TEST(vectors_are_whole_beside_a_writer) {
  struct bounded x;
  _Atomic int over = 0;
  pthread_t threads[2];
  if (!bounded_open(&x, EMB_STALENESS_MAX, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  OK(x.c, help_put(x.c, 5, 0));
  struct beside readers[2] = {{x.a, 5, 0, &over}, {x.b, 5, 1, &over}};
  for (int i = 0; i < 2; i++)
    if (!CHECK_EQ_INT(
            pthread_create(&threads[i], NULL, read_whole, &readers[i]), 0))
      abort();
  for (int i = 0; i < 100000 * (int)help_long(); i++)
    if (!OK(x.c, help_put(x.c, 5, i % 1000000)))
      break;
  atomic_store(&over, 1);
  for (int i = 0; i < 2; i++)
    (void)pthread_join(threads[i], NULL);
  bounded_close(&x);
}

/* ---- the counter that overflows into the lock ---------------------------- */

/* The pending count is full. No other operation on the key changes it, and no
** change of it touches the rest of the record. */
static void full_of_pending(struct bounded *x, int64_t key, int32_t value) {
  enum { FULL = EMB_STALENESS_MAX + 1 };
  for (int i = 0; i < FULL; i++)
    if (!OK(x->a, get_one(i % 2 ? x->a : x->b, key, NULL)))
      return;
  CHECK_EQ_INT(pending_of(x->c, key), FULL);
  GIVES(x->c, EMB_BUSY, get_one(x->c, key, NULL));
  for (int i = 0; i < 20000; i++)
    if (!CHECK_EQ_INT(help_peek(x->c, key), value))
      return;
  CHECK_EQ_INT(pending_of(x->c, key), FULL);
  for (int i = 0; i < 20000; i++)
    if (!OK(x->c, help_put(x->c, key, value + i % 100)))
      return;
  CHECK_EQ_INT(pending_of(x->c, key), FULL);
  OK(x->a, help_put(x->a, key, value));
  CHECK_EQ_INT(pending_of(x->c, key), FULL - 1);
  OK(x->c, get_one(x->c, key, NULL));
  GIVES(x->c, EMB_BUSY, get_one(x->c, key, NULL));
  for (int i = 0; i < FULL / 2; i++)
    if (!OK(x->b, help_put(x->b, key, value)))
      return;
  CHECK_EQ_INT(emb_release(x->b) + emb_release(x->a) + emb_release(x->c),
               FULL - FULL / 2);
  CHECK_EQ_INT(pending_of(x->c, key), 0);
  CHECK_EQ_INT(help_peek(x->c, key), value);
}

TEST(pending_at_its_largest) {
  struct bounded x;
  if (!bounded_open(&x, EMB_STALENESS_MAX, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, MANY, 1);
  CHECK(get_until_cached(&x, 11));
  for (int i = 0; i < 10; i++) /* fill its frequency bits */
    CHECK_EQ_INT(help_peek(x.a, 11), 1);
  full_of_pending(&x, 11, 1);
  full_of_pending(&x, MANY - 1, 1);
  CHECK_EQ_INT(emb_count(x.a), MANY);
  CHECK(help_verify(x.a));
  bounded_close(&x);
}

TEST(bound_above_the_largest_is_refused) {
  emb_err err = {0, ""};
  emb_store *store;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                       .staleness = EMB_STALENESS_MAX + 1};
  CHECK_EQ_INT(emb_open(help_path("store"), &config, &store, &err), EMB_RANGE);
  CHECK(err.text[0]);
}

/* ---- the counter below zero ---------------------------------------------- */

TEST(blind_puts_do_not_allow_more_gets) {
  struct bounded x;
  if (!bounded_open(&x, 4, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  for (int i = 0; i < 1000; i++)
    OK(x.a, help_put(i % 2 ? x.a : x.b, 9, i));
  CHECK_EQ_INT(pending_of(x.a, 9), 0);
  for (int i = 0; i < 5; i++)
    OK(x.a, get_one(x.a, 9, NULL));
  GIVES(x.a, EMB_BUSY, get_one(x.a, 9, NULL));
  /* Nor do blind Puts of another session while leases are held. */
  for (int i = 0; i < 1000; i++)
    OK(x.b, help_put(x.b, 9, i));
  CHECK_EQ_INT(pending_of(x.a, 9), 5);
  GIVES(x.a, EMB_BUSY, get_one(x.a, 9, NULL));
  for (int i = 0; i < 10; i++)
    OK(x.a, help_put(x.a, 9, i));
  CHECK_EQ_INT(pending_of(x.a, 9), 0);
  CHECK_EQ_INT(emb_leases(x.a), 0);
  bounded_close(&x);
}

/* ---- new keys, absent keys ----------------------------------------------- */

TEST(put_of_a_new_key_is_there) {
  struct bounded x;
  if (!bounded_open(&x, 0, FOR_EVER, 0))
    return;
  CHECK(help_put_rows(x.a, 0, 1, 1000, 6));
  OK(x.a, help_put(x.a, INT64_MIN, 1));
  OK(x.a, help_put(x.a, INT64_MAX, 2));
  CHECK_EQ_INT(emb_count(x.b), 1002);
  CHECK_EQ_INT(help_peek(x.b, 999), 6);
  CHECK_EQ_INT(help_peek(x.b, INT64_MIN), 1);
  CHECK_EQ_INT(help_peek(x.b, INT64_MAX), 2);
  bounded_close(&x);
  if (!bounded_open(&x, 0, FOR_EVER, 0))
    return;
  CHECK_EQ_INT(emb_count(x.b), 1002);
  CHECK_EQ_INT(help_peek(x.b, 500), 6);
  bounded_close(&x);
}

TEST(get_of_an_absent_key_adds_none) {
  struct bounded x;
  int64_t keys[3] = {1, 1000001, -5};
  float vectors[3 * DIM];
  uint8_t found[3];
  uint64_t versions[3], ticket;
  emb_ahead ahead;
  if (!bounded_open(&x, 0, FOR_EVER, 0))
    return;
  CHECK(help_put_rows(x.a, 0, 1, 100, 1));
  for (int round = 0; round < 3; round++) {
    memset(vectors, 1, sizeof vectors);
    memset(found, 7, sizeof found);
    memset(versions, 7, sizeof versions);
    if (round < 2) {
      OK(x.a,
         (round ? emb_peek : emb_get)(x.a, keys, 3, vectors, found, versions));
    } else {
      OK(x.a, emb_prefetch(x.a, keys, 3,
                           &(emb_rows){.vectors = vectors,
                                       .found = found,
                                       .versions = versions},
                           &ticket));
      OK(x.a, emb_prefetch_synchronize(x.a, ticket, NULL));
    }
    CHECK(found[0] == 1 && found[1] == 0 && found[2] == 0);
    CHECK(versions[0] > 0 && versions[1] == 0 && versions[2] == 0);
    for (int i = DIM; i < 3 * DIM; i++)
      CHECK(vectors[i] == 0);
    CHECK_EQ_INT(emb_leases(x.a), round == 1 ? 0 : 1);
    (void)emb_release(x.a);
  }
  OK(x.a, emb_lookahead(x.a, keys + 1, 2, EMB_AHEAD_BUFFER, &ahead));
  OK(x.a, emb_lookahead(x.a, keys + 1, 2, EMB_AHEAD_CACHE, NULL));
  CHECK_EQ_INT(ahead.absent, 2);
  OK(x.a, emb_rmw(x.a, keys + 1, 2, vectors, found, versions));
  CHECK(found[0] == 0 && found[1] == 0 && versions[0] == 0);
  CHECK_EQ_INT(pending_of(x.a, 1000001), 0);
  OK(x.a, emb_exists(x.a, keys, 3, found));
  CHECK(found[0] == 1 && found[1] == 0 && found[2] == 0);
  CHECK_EQ_INT(emb_count(x.a), 100);
  CHECK(help_verify(x.a));
  bounded_close(&x);
}

/* The found flags are right for keys on disk, too. */
TEST(found_of_cold_keys) {
  struct bounded x;
  int64_t keys[CHUNK];
  uint8_t found[CHUNK];
  uint64_t ticket;
  float *vectors = malloc(sizeof(float[CHUNK][DIM]));
  if (!vectors || !bounded_open(&x, EMB_STALENESS_MAX, 1, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 2, MANY, 3); /* the even keys */
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < CHUNK; i++)
      keys[i] = (int64_t)(test_random() % (3 * MANY));
    memset(found, 9, sizeof found);
    int rc = round % 2
                 ? emb_get(x.a, keys, CHUNK, vectors, found, NULL)
                 : emb_prefetch(x.a, keys, CHUNK,
                                &(emb_rows){.vectors = vectors, .found = found},
                                &ticket);
    OK(x.a, rc);
    if (round % 2 == 0)
      OK(x.a, emb_prefetch_synchronize(x.a, ticket, NULL));
    for (int i = 0; i < CHUNK; i++) {
      int there = keys[i] % 2 == 0 && keys[i] < 2 * MANY;
      if (!CHECK_EQ_INT(found[i], there) ||
          (there && !CHECK(help_is(vectors + i * DIM, DIM, keys[i], 3))))
        goto out;
    }
    (void)emb_release(x.a);
  }
  CHECK(help_stat(x.store, "get_disk") > 0);
  /* There is no fixed allocation of half a gigabyte. */
  CHECK(help_stat(x.store, "memory_bytes") <= 8 << 20);
out:
  free(vectors);
  bounded_close(&x);
}

/* ---- the caller's buffer ------------------------------------------------- */

/* Keys and vectors are overwritten as soon as the call returns. */
static void buffers_are_free(int asynchronous) {
  struct bounded x;
  int64_t keys[CHUNK];
  uint64_t ticket;
  float *vectors = malloc(sizeof(float[CHUNK][DIM]));
  if (!vectors || !bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  help_put_rows(x.a, 0, 1, MANY, 1);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < CHUNK; i++) { /* far apart: cold except the last */
      keys[i] = round + (int64_t)i * (MANY / CHUNK);
      help_vector(vectors + i * DIM, DIM, keys[i], 100 + round);
    }
    OK(x.a, asynchronous ? emb_write_back(x.a, keys, CHUNK, vectors, &ticket)
                         : emb_put(x.a, keys, CHUNK, vectors, NULL));
    memset(keys, -1, sizeof keys);
    memset(vectors, 0x45, sizeof(float[CHUNK][DIM]));
    if (asynchronous && round % 2)
      OK(x.a, emb_write_back_synchronize(x.a, ticket, NULL));
  }
  while (emb_tickets(x.a, NULL) > 0)
    if (!OK(x.a, emb_write_back_synchronize(x.a, 0, NULL)))
      break;
  for (int round = 0; round < 20; round++)
    for (int i = 0; i < CHUNK; i++)
      if (!CHECK_EQ_INT(help_peek(x.b, round + (int64_t)i * (MANY / CHUNK)),
                        100 + round))
        goto out;
  CHECK_EQ_INT(emb_count(x.b), MANY);
out:
  free(vectors);
  bounded_close(&x);
}

TEST(buffers_are_free_after_put) { buffers_are_free(0); }
TEST(buffers_are_free_after_write_back) { buffers_are_free(1); }

/* ---- the get that changes the value -------------------------------------- */

TEST(get_leaves_the_value) {
  struct bounded x;
  emb_err err = {0, ""};
  emb_store *store;
  uint64_t before, after;
  int64_t key = 3;
  if (!bounded_open(&x, 8, FOR_EVER, 0))
    return;
  CHECK(help_put_rows(x.a, 0, 1, 100, 1));
  OK(x.a, emb_peek(x.a, &key, 1, NULL, NULL, &before));
  for (int i = 0; i < 5; i++)
    OK(x.a, get_one(x.a, key, NULL));
  OK(x.a, emb_peek(x.a, &key, 1, NULL, NULL, &after));
  CHECK_EQ_INT(before, after);
  CHECK_EQ_INT(help_peek(x.a, key), 1);
  /* The dimension is the store's; no Get can use another. */
  emb_config other = x.config;
  other.dim = DIM / 2;
  CHECK_EQ_INT(emb_open(help_path("store"), &other, &store, &err),
               EMB_MISMATCH);
  bounded_close(&x);
  CHECK_EQ_INT(emb_open(help_path("store"), &other, &store, &err),
               EMB_MISMATCH);
  other.dim = 0;
  emb_session *s;
  if (help_open(help_path("store"), &other, &store, &s)) {
    CHECK_EQ_INT(emb_dim(store), DIM);
    CHECK_EQ_INT(help_peek(s, key), 1);
    help_close(store, s);
  }
}
