/* SPDX-License-Identifier: MIT
**
** store_threads.c -- many parallel sessions on a store with the least memory,
** so that records are paged out, read back, cached, moved and compacted all
** the time.  Each range of keys belongs to one kind of thread, and the
** results that it must find are known:
**
**   shared   putters write any value, getters read: a vector is never torn and
**            never another key's; versions of a key never go down
**   sums     adders add; at the end each key is the sum of what was added
**   own      one thread puts, deletes and reads keys that no other touches
**   txn      one thread changes all keys of a group to one number in a
**            transaction, or rolls back; another sees each key whole
**   scanned  stable keys, moved by the putters: each exactly once per scan
**
** In a third run one more thread changes the memory all the time.
**
** A watchdog ends the program when a thread does not come back.
*/
#include "engine/table/session/session.h"
#include "store_help.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum {
  DIM = 64,
  SHARED = 20000, /* keys 0 .. */
  SUMS = 8000,    /* keys SUMS_AT .. */
  OWN = 4000,     /* of each of the two threads, from OWN_AT */
  GROUP = 600,    /* from GROUP_AT */
  SUMS_AT = 100000,
  OWN_AT = 200000,
  GROUP_AT = 300000,
  BATCH = 64,
  THREADS = 13,
};

struct world {
  emb_store *store;
  /* Set by main, read by all; relaxed. */
  _Atomic int over;
  /* Grows with the work of each thread; relaxed, for the watchdog. */
  _Atomic uint64_t work;
  _Atomic uint64_t scans, commits, checkpoints, resizes;
  _Atomic int64_t added[SUMS];
  uint64_t seed;
};

struct worker {
  struct world *w;
  void (*run)(struct worker *);
  int number;
  pthread_t thread;
  _Atomic int ended;
  emb_session *s;
  uint64_t random;
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  uint64_t versions[BATCH];
  float vectors[BATCH * DIM];
};

static uint32_t below(struct worker *k, uint64_t n) {
  return (uint32_t)(test_random_from(&k->random) % n);
}

static int going(struct worker *k) {
  atomic_fetch_add_explicit(&k->w->work, 1, memory_order_relaxed);
  return !atomic_load_explicit(&k->w->over, memory_order_relaxed);
}

/* Small on purpose, so that whole numbers stay exact. */
static int32_t any_value(struct worker *k) {
  return (int32_t)below(k, 100000) - 50000;
}

/* ---- shared keys --------------------------------------------------------- */

static void putter(struct worker *k) {
  while (going(k)) {
    size_t n = 1 + below(k, BATCH);
    uint32_t hot = below(k, 2) ? SHARED : SHARED / 50;
    for (size_t i = 0; i < n; i++) {
      k->keys[i] = below(k, hot);
      help_vector(k->vectors + i * DIM, DIM, k->keys[i], any_value(k));
    }
    if (!OK(k->s, emb_put(k->s, k->keys, n, k->vectors, NULL)))
      return;
  }
}

static void getter(struct worker *k) {
  static const int times = 2;
  uint64_t *seen = calloc(SHARED, sizeof *seen);
  while (seen != NULL && going(k)) {
    size_t n = 1 + below(k, BATCH);
    uint32_t hot = below(k, 2) ? SHARED : SHARED / 50;
    for (size_t i = 0; i < n; i++)
      k->keys[i] = below(k, hot);
    for (int t = 0; t < times; t++) {
      int peek = below(k, 4) == 0;
      if (!OK(k->s, (peek ? emb_peek : emb_get)(k->s, k->keys, n, k->vectors,
                                                k->found, k->versions)))
        goto out;
      for (size_t i = 0; i < n; i++) {
        int64_t key = k->keys[i];
        if (!CHECK(k->found[i]) ||
            !CHECK(help_value(k->vectors + i * DIM, DIM, key) != INT32_MIN) ||
            !CHECK(k->versions[i] >= seen[key]))
          goto out;
      }
      for (size_t i = 0; i < n; i++)
        if (k->versions[i] > seen[k->keys[i]])
          seen[k->keys[i]] = k->versions[i];
    }
  }
out:
  free(seen);
}

/* ---- sums ---------------------------------------------------------------- */

static void adder(struct worker *k) {
  while (going(k)) {
    size_t n = 1 + below(k, BATCH);
    uint32_t hot = below(k, 2) ? SUMS : SUMS / 50;
    for (size_t i = 0; i < n; i++) {
      int32_t delta = (int32_t)below(k, 7) - 3;
      uint32_t at = below(k, hot);
      k->keys[i] = SUMS_AT + at;
      for (uint32_t d = 0; d < DIM; d++)
        k->vectors[i * DIM + d] = (float)delta;
      atomic_fetch_add_explicit(&k->w->added[at], delta, memory_order_relaxed);
    }
    if (!OK(k->s, emb_rmw(k->s, k->keys, n, k->vectors, k->found, NULL)))
      return;
    for (size_t i = 0; i < n; i++)
      if (!CHECK(k->found[i]))
        return;
  }
}

static void check_sums(struct worker *k) {
  for (uint32_t at = 0; at < SUMS; at++) {
    int64_t key = SUMS_AT + at;
    if (!OK(k->s, emb_get(k->s, &key, 1, k->vectors, k->found, NULL)))
      return;
    if (!CHECK_EQ_INT(help_value(k->vectors, DIM, key),
                      atomic_load(&k->w->added[at])))
      return;
  }
}

/* ---- own keys ------------------------------------------------------------ */

static void owner(struct worker *k) {
  int32_t *now = malloc(OWN * sizeof *now);
  int64_t base = OWN_AT + (int64_t)k->number * OWN;
  for (int i = 0; now != NULL && i < OWN; i++)
    now[i] = INT32_MIN;
  while (now != NULL && going(k)) {
    size_t n = 1 + below(k, BATCH);
    uint32_t rows[BATCH], what = below(k, 4);
    for (size_t i = 0; i < n; i++) {
      rows[i] = (uint32_t)(below(k, OWN) / BATCH * BATCH + i) % OWN;
      k->keys[i] = base + rows[i];
    }
    if (what == 0) {
      if (!OK(k->s, emb_delete(k->s, k->keys, n, k->found)))
        break;
    } else if (what == 1) {
      for (size_t i = 0; i < n; i++)
        help_vector(k->vectors + i * DIM, DIM, k->keys[i], (int32_t)i);
      if (!OK(k->s, emb_put(k->s, k->keys, n, k->vectors, NULL)))
        break;
    } else if (!OK(k->s,
                   emb_get(k->s, k->keys, n, k->vectors, k->found, NULL))) {
      break;
    }
    for (size_t i = 0; i < n; i++) {
      int32_t *was = &now[rows[i]];
      /* A key that a batch deletes twice is there the first time only. */
      int good = what == 1 || k->found[i] == (*was != INT32_MIN);
      if (what == 0)
        *was = INT32_MIN;
      if (what == 1) {
        *was = INT32_MIN + 1;
        for (size_t j = 0; j < n; j++) /* the last row of a key stays */
          if (rows[j] == rows[i])
            *was = (int32_t)j;
      }
      if (what > 1 && k->found[i])
        good &= help_value(k->vectors + i * DIM, DIM, k->keys[i]) == *was;
      if (!CHECK(good))
        goto out;
    }
  }
out:
  free(now);
}

/* ---- transactions -------------------------------------------------------- */

static void transactor(struct worker *k) {
  int32_t value = 0;
  while (going(k)) {
    int32_t next = value + 1;
    int commit = below(k, 3) != 0, prepare = below(k, 2) != 0;
    uint64_t number;
    if (!OK(k->s, emb_begin(k->s)))
      return;
    for (uint32_t at = 0; at < GROUP; at += BATCH) {
      size_t n = GROUP - at < BATCH ? GROUP - at : BATCH;
      for (size_t i = 0; i < n; i++) {
        k->keys[i] = GROUP_AT + at + (int64_t)i;
        help_vector(k->vectors + i * DIM, DIM, k->keys[i], next);
      }
      if (below(k, 4) == 0) { /* undone again */
        if (!OK(k->s, emb_savepoint(k->s, 1)) ||
            !OK(k->s, emb_txn_delete(k->s, k->keys, n, NULL)) ||
            !OK(k->s, emb_rollback_to(k->s, 1)) ||
            !OK(k->s, emb_savepoint_release(k->s, 1)))
          return;
      }
      if (!OK(k->s, emb_txn_put(k->s, k->keys, n, k->vectors)))
        return;
    }
    if (prepare && !OK(k->s, emb_prepare(k->s, &number)))
      return;
    if (commit) {
      if (!OK(k->s, emb_commit(k->s)))
        return;
      value = next;
      atomic_fetch_add(&k->w->commits, 1);
    } else {
      emb_rollback(k->s);
    }
    for (uint32_t at = 0; at + BATCH <= GROUP; at += BATCH) {
      for (size_t i = 0; i < BATCH; i++)
        k->keys[i] = GROUP_AT + at + (int64_t)i;
      if (!OK(k->s, emb_get(k->s, k->keys, BATCH, k->vectors, k->found, NULL)))
        return;
      for (size_t i = 0; i < BATCH; i++)
        if (!CHECK_EQ_INT(help_value(k->vectors + i * DIM, DIM, k->keys[i]),
                          value))
          return;
    }
  }
}

/* The value of each key in the group only ever grows, and no key is ever
** absent. */
static void txn_reader(struct worker *k) {
  int32_t seen[GROUP] = {0};
  while (going(k)) {
    uint32_t at = below(k, GROUP - BATCH);
    for (size_t i = 0; i < BATCH; i++)
      k->keys[i] = GROUP_AT + at + (int64_t)i;
    if (!OK(k->s, emb_get(k->s, k->keys, BATCH, k->vectors, k->found, NULL)))
      return;
    for (size_t i = 0; i < BATCH; i++) {
      int32_t value = help_value(k->vectors + i * DIM, DIM, k->keys[i]);
      if (!CHECK(k->found[i]) || !CHECK(value >= seen[at + i]))
        return;
      seen[at + i] = value;
    }
  }
}

/* ---- scans and maintenance ----------------------------------------------- */

static int one_scan(struct worker *k, int order, uint8_t *came) {
  emb_scan *scan;
  size_t n;
  int64_t last = 0;
  int started = 0, good = 1;
  memset(came, 0, SHARED + SUMS + GROUP);
  if (!OK(k->s, emb_scan_open(k->s, INT64_MIN, INT64_MAX, order, &scan)))
    return 0;
  do {
    good = OK(k->s, emb_scan_next(scan, 1 + below(k, BATCH), k->keys,
                                  k->vectors, k->versions, &n));
    for (size_t i = 0; good && i < n; i++) {
      int64_t key = k->keys[i];
      good = CHECK(help_value(k->vectors + i * DIM, DIM, key) != INT32_MIN);
      if (order != EMB_SCAN_ANY && started)
        good = good && CHECK(order == EMB_SCAN_ASC ? key > last : key < last);
      last = key;
      started = 1;
      if (key < SHARED)
        came[key]++;
      else if (key >= SUMS_AT && key < SUMS_AT + SUMS)
        came[SHARED + key - SUMS_AT]++;
      else if (key >= GROUP_AT)
        came[SHARED + SUMS + key - GROUP_AT]++;
    }
  } while (good && n > 0 &&
           !atomic_load_explicit(&k->w->over, memory_order_relaxed));
  emb_scan_close(scan);
  for (int i = 0; good && n == 0 && i < SHARED + SUMS + GROUP; i++)
    good =
        test_check(came[i] == 1, __FILE__, __LINE__,
                   "stable key %d came %d times, order %d", i, came[i], order);
  atomic_fetch_add(&k->w->scans, n == 0);
  return good;
}

static void scanner(struct worker *k) {
  uint8_t *came = malloc(SHARED + SUMS + GROUP);
  for (int i = 0; came != NULL && going(k); i++)
    if (!one_scan(k,
                  i % 4 == 1   ? EMB_SCAN_ASC
                  : i % 4 == 3 ? EMB_SCAN_DESC
                               : EMB_SCAN_ANY,
                  came))
      break;
  free(came);
}

static void keeper(struct worker *k) {
  while (going(k)) {
    int what = (int)below(k, 10);
    if (what == 1
            ? !help_verify(k->s)
            : !OK(k->s, what == 0 ? emb_optimize(k->s) : emb_checkpoint(k->s)))
      return;
    atomic_fetch_add(&k->w->checkpoints, 1);
    (void)sched_yield();
  }
}

static void visitor(struct worker *k) { /* sessions come and go */
  while (going(k)) {
    emb_err err;
    emb_session *s;
    int64_t key = below(k, SHARED);
    if (!CHECK_EQ_INT(emb_session_open(k->w->store, &s, &err), EMB_OK) ||
        !OK(s, emb_get(s, &key, 1, k->vectors, k->found, NULL)))
      return;
    CHECK(help_value(k->vectors, DIM, key) != INT32_MIN);
    CHECK(emb_count(s) > 0);
    CHECK(help_stat(k->w->store, "keys") > 0);
    emb_session_close(s);
  }
}

static void resizer(struct worker *k) {
  while (going(k)) {
    uint64_t mib = 4 + (below(k, 2) ? below(k, 8) : below(k, 40));
    int64_t bytes;
    if (!OK(k->s, emb_set_memory(k->s, mib << 20)))
      return;
    bytes = help_stat(k->w->store, "memory_bytes");
    CHECK(bytes > (int64_t)(mib << 20) - (1 << 20) &&
          bytes <= (int64_t)(mib << 20));
    CHECK(help_stat(k->w->store, "log_bytes_in_memory") +
              help_stat(k->w->store, "cache_bytes") <=
          bytes + (1 << 20) /* a frame may be on its way */);
    atomic_fetch_add(&k->w->resizes, 1);
  }
}

static void idle_thread(struct worker *k) { (void)k; }

/* ---- all of it ----------------------------------------------------------- */

static void *start(void *arg) {
  struct worker *k = arg;
  k->run(k);
  atomic_store(&k->ended, 1);
  return NULL;
}

static void load(struct worker *k, int64_t from, int n) {
  for (int at = 0; at < n; at += BATCH) {
    size_t m = n - at < BATCH ? (size_t)(n - at) : BATCH;
    for (size_t i = 0; i < m; i++) {
      k->keys[i] = from + at + (int64_t)i;
      help_vector(k->vectors + i * DIM, DIM, k->keys[i], 0);
    }
    if (!OK(k->s, emb_put(k->s, k->keys, m, k->vectors, NULL)))
      return;
  }
}

/* What every run must have seen. */
static const char *const needed[] = {"get_disk", "get_cache",
                                     "compacted_records"};
enum { NEEDED = sizeof needed / sizeof needed[0] };

/* Every kind of thread has done some of the work that the test is about. */
static int all_came(struct world *w, int resize) {
  int came = atomic_load(&w->scans) > 0 && atomic_load(&w->commits) > 0 &&
             atomic_load(&w->checkpoints) > 0 &&
             (!resize || atomic_load(&w->resizes) > 2);
  for (int i = 0; i < NEEDED; i++)
    came = came && help_stat(w->store, needed[i]) > 0;
  return came;
}

/* Waits until the time is over, and on a slow machine until all have done
** some work; ends earlier if nothing moves for a minute. */
static void watch(struct world *w, unsigned ms, int resize) {
  uint64_t last = 0;
  unsigned still = 0;
  for (unsigned t = 0;
       (t < ms || (t < 120000 && !all_came(w, resize))) && still < 60000;
       t += 50) {
    struct timespec pause = {0, 50000000};
    (void)nanosleep(&pause, NULL);
    uint64_t now = atomic_load_explicit(&w->work, memory_order_relaxed);
    still = now == last ? still + 50 : 0;
    last = now;
    if (atomic_load(&test_state.failures) > 0)
      break;
  }
  atomic_store(&w->over, 1);
}

/* Reports a thread that does not return; its number is its index in `kinds`. */
static void *watchdog(void *arg) {
  struct worker *workers = arg;
  struct timespec pause = {SANITIZED ? 420 : 120, 0};
  (void)nanosleep(&pause, NULL);
  for (int i = 0; i < THREADS; i++)
    if (!atomic_load(&workers[i].ended))
      printf("thread %d hangs\n", i);
  printf("a thread hangs; SEED=%" PRIu64 "\n", test_state.seed);
  (void)fflush(stdout);
  abort();
}

static void run_all(uint32_t io, int resize, unsigned ms) {
  void (*const kinds[THREADS])(struct worker *) = {putter,
                                                   putter,
                                                   getter,
                                                   getter,
                                                   adder,
                                                   adder,
                                                   owner,
                                                   owner,
                                                   scanner,
                                                   transactor,
                                                   keeper,
                                                   visitor,
                                                   resize ? resizer
                                                          : idle_thread};
  struct world *w = calloc(1, sizeof *w);
  struct worker *workers = calloc(THREADS + 1, sizeof *workers);
  struct worker *me = &workers[THREADS];
  emb_config config = {.dim = DIM,
                       .io = io,
                       .flags = EMB_OPEN_CREATE,
                       .memory_bytes = 1,
                       .timeout_ms = 60000};
  pthread_t dog;
  emb_err err;
  if (w == NULL || workers == NULL ||
      !help_open(help_path("store"), &config, &w->store, &me->s))
    goto out;
  me->w = w;
  load(me, 0, SHARED);
  load(me, SUMS_AT, SUMS);
  load(me, GROUP_AT, GROUP);
  for (int i = 0; i < THREADS; i++) {
    workers[i].w = w;
    workers[i].run = i == 3 && io == EMB_IO_URING ? txn_reader : kinds[i];
    workers[i].number = i;
    workers[i].random = test_random();
    if (!CHECK_EQ_INT(emb_session_open(w->store, &workers[i].s, &err), 0))
      goto out;
  }
  for (int i = 0; i < THREADS; i++)
    if (!CHECK_EQ_INT(
            pthread_create(&workers[i].thread, NULL, start, &workers[i]), 0))
      abort();
  watch(w, ms, resize);
  if (!CHECK_EQ_INT(pthread_create(&dog, NULL, watchdog, workers), 0))
    abort();
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(workers[i].thread, NULL);
    emb_session_close(workers[i].s);
  }
  test_count("rounds of threads", atomic_load(&w->work));
  check_sums(me);
  CHECK(help_verify(me->s));
  CHECK(atomic_load(&w->scans) > 0);
  CHECK(atomic_load(&w->commits) > 0);
  CHECK(atomic_load(&w->checkpoints) > 0);
  for (int i = 0; i < NEEDED; i++)
    CHECK(help_stat(w->store, needed[i]) > 0);
  if (resize) {
    CHECK(atomic_load(&w->resizes) > 2);
    test_count("changes of memory", atomic_load(&w->resizes));
  }
  help_close(w->store, me->s);

  config.flags = 0;
  if (help_open(help_path("store"), &config, &w->store, &me->s)) {
    check_sums(me);
    CHECK(help_verify(me->s));
    help_close(w->store, me->s);
  }
  (void)pthread_cancel(dog);
  (void)pthread_join(dog, NULL);
out:
  free(workers);
  free(w);
}

TEST(threads_uring) { run_all(EMB_IO_URING, 0, help_amount(4000)); }
TEST(threads_pread) { run_all(EMB_IO_PREAD, 0, help_amount(4000)); }
TEST(threads_resized) { run_all(EMB_IO_AUTO, 1, help_amount(4000)); }

/* ---- growth -------------------------------------------------------------- */

enum { GROW_THREADS = 4, GROW_KEYS = 60000 };

/* Puts its own new keys, reading back earlier ones. */
static void grower(struct worker *k) {
  for (int at = 0; at < GROW_KEYS && going(k); at += BATCH) {
    for (size_t i = 0; i < BATCH; i++) {
      k->keys[i] = ((int64_t)at + (int64_t)i) * GROW_THREADS + k->number;
      help_vector(k->vectors + i * DIM, DIM, k->keys[i], k->number);
    }
    if (!OK(k->s, emb_put(k->s, k->keys, BATCH, k->vectors, NULL)))
      return;
    for (size_t i = 0; i < BATCH; i++)
      k->keys[i] =
          (int64_t)below(k, (uint64_t)at + BATCH) * GROW_THREADS + k->number;
    if (!OK(k->s, emb_get(k->s, k->keys, BATCH, k->vectors, k->found, NULL)))
      return;
    for (size_t i = 0; i < BATCH; i++)
      if (!CHECK(k->found[i]) ||
          !CHECK_EQ_INT(help_value(k->vectors + i * DIM, DIM, k->keys[i]),
                        k->number))
        return;
  }
}

TEST(threads_grow) {
  struct world *w = calloc(1, sizeof *w);
  struct worker *workers = calloc(GROW_THREADS, sizeof *workers);
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 1};
  emb_err err;
  emb_session *s;
  if (w == NULL || workers == NULL ||
      !help_open(help_path("store"), &config, &w->store, &s))
    goto out;
  for (int i = 0; i < GROW_THREADS; i++) {
    workers[i].w = w;
    workers[i].run = grower;
    workers[i].number = i;
    workers[i].random = test_random();
    CHECK_EQ_INT(emb_session_open(w->store, &workers[i].s, &err), 0);
    if (!CHECK_EQ_INT(
            pthread_create(&workers[i].thread, NULL, start, &workers[i]), 0))
      abort();
  }
  for (int i = 0; i < GROW_THREADS; i++) {
    (void)pthread_join(workers[i].thread, NULL);
    emb_session_close(workers[i].s);
  }
  int rounded = (GROW_KEYS + BATCH - 1) / BATCH * BATCH;
  CHECK_EQ_INT(emb_count(s), rounded * GROW_THREADS);
  CHECK(help_verify(s));
  help_close(w->store, s);
out:
  free(workers);
  free(w);
}

/* ---- the check with concurrent writers ----------------------------------- */

struct halt {
  emb_session *s;
  uint64_t address;
  _Atomic int there;
};

/* Acts as a writer that lost its processor after it changed an extent's count
** and before it changed the index. */
static void *halt(void *arg) {
  struct halt *h = arg;
  struct core *core = h->s->core;
  epoch_enter(&core->epoch, h->s->slot);
  log_live(&core->log, h->address, 1);
  atomic_store(&h->there, 1);
  (void)nanosleep(&(struct timespec){0, 100000000}, NULL);
  log_live(&core->log, h->address, -1);
  epoch_leave(h->s->slot);
  return NULL;
}

TEST(a_writer_in_the_middle_is_no_damage) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 1};
  struct halt h = {0};
  emb_store *store;
  emb_session *s;
  emb_err err;
  pthread_t thread;
  int64_t key = 1;
  float vector[DIM] = {1};
  if (!help_open(help_path("store"), &config, &store, &s))
    return;
  OK(s, emb_put(s, &key, 1, vector, NULL));
  OK(s, emb_checkpoint(s));
  h.address = key_find_address(&store->core, key, hash_key(key));
  CHECK_EQ_INT(emb_session_open(store, &h.s, &err), 0);
  if (!CHECK_EQ_INT(pthread_create(&thread, NULL, halt, &h), 0))
    abort();
  while (!atomic_load(&h.there))
    sched_yield();
  CHECK(help_verify(s));
  (void)pthread_join(thread, NULL);
  CHECK(help_verify(s));
  emb_session_close(h.s);
  help_close(store, s);
}
