/* SPDX-License-Identifier: MIT
**
** staleness_history.c -- eight sessions in parallel on a bounded store of the
** least memory; afterwards tests/lib/history.c decides whether what each of
** them saw keeps the bound, key by key.
**
** The keys are a few hot ones, on which sessions wait, a few hundred warm ones
** and many cold ones.  Beside the workers one thread checkpoints and optimizes,
** and one adds keys, so that the index grows, and then writes them again: with
** so little memory the log turns over many times.  So all keys are changed in
** place, copied to the tail, paged out, read from disk, cached, looked ahead
** and moved by compaction, while leases are out.
**
** A vector carries its writer and the writer's count: so a torn one is seen,
** and one that came with another's version.
**
**   mixed    A worker keeps leases while it asks for more, so workers wait for
**            each other in circles.  The timeout is short; one that is
**            refused gives back everything.  Puts without a lease occur, and
**            leases that end by emb_release.
**   ordered  A worker puts back all it got before it asks again.  Then none
**            may ever be refused: the timeout is longer than the test.
**
** A session that does nothing for half a minute fails the test.
*/
#include "store_help.h"

#include "history.h"

#include <pthread.h>

enum {
  DIM = 64,
  HOT = 6,
  WARM = 300,
  KEYS = 16000,
  ADDED_AT = 1000000,
  ADDED = 24000,
  WORKERS = 8,
  BATCH = 8,
  HELD_MAX = 24, /* keys with leases: then the worker gives back */
  STILL_MS = 30000,
};

struct world {
  emb_store *store;
  uint32_t bound;
  int ordered;
  /* Set by main, read by all; relaxed. */
  _Atomic int over;
  /* Relaxed counters of what has happened. */
  _Atomic uint64_t refused, released, blind;
};

struct held {
  int64_t key;
  int leases;
};

struct worker {
  struct world *w;
  uint32_t number; /* of the writer, from 1; main is 0 */
  pthread_t thread;
  emb_session *s;
  uint64_t random;
  /* Grows with each round; relaxed, for the watchdog. */
  _Atomic uint64_t rounds;
  struct history history;
  uint32_t sequence;
  struct held held[HELD_MAX + 3 * BATCH];
  uint32_t held_n;
  size_t leases;
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  uint64_t versions[BATCH];
  float vectors[BATCH * DIM];
};

static uint32_t below(struct worker *k, uint64_t n) {
  return (uint32_t)(test_random_from(&k->random) % n);
}

static int going(struct worker *k) {
  atomic_fetch_add_explicit(&k->rounds, 1, memory_order_relaxed);
  return !atomic_load_explicit(&k->w->over, memory_order_relaxed) &&
         !atomic_load_explicit(&test_state.failures, memory_order_relaxed);
}

static void count(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- vectors ------------------------------------------------------------- */

/* All whole numbers below 2^24, which a float holds exactly. */
static void write_vector(float *to, int64_t key, uint64_t value) {
  uint64_t writer = value >> 32, sequence = value & UINT32_MAX;
  float x[4] = {
      (float)key, (float)writer, (float)sequence,
      (float)(((uint64_t)key * 31 + writer * 17 + sequence * 7) % 4093)};
  for (int i = 0; i < DIM; i++)
    to[i] = x[i & 3];
}

/* 1 when the vector is whole and the key's. */
static int read_vector(const float *vector, int64_t key, uint64_t *value) {
  float whole[DIM];
  *value = (uint64_t)vector[1] << 32 | (uint64_t)vector[2];
  write_vector(whole, key, *value);
  return memcmp(whole, vector, sizeof whole) == 0;
}

/* ---- leases -------------------------------------------------------------- */

static struct held *held_of(struct worker *k, int64_t key) {
  for (uint32_t i = 0; i < k->held_n; i++)
    if (k->held[i].key == key)
      return &k->held[i];
  return NULL;
}

static void take(struct worker *k, int64_t key) {
  struct held *held = held_of(k, key);
  if (!held) {
    held = &k->held[k->held_n++];
    *held = (struct held){key, 0};
  }
  held->leases++;
  k->leases++;
}

/* What a Put of the key gives back: 0 or 1. */
static uint8_t give(struct worker *k, int64_t key) {
  struct held *held = held_of(k, key);
  if (!held) {
    count(&k->w->blind);
    return 0;
  }
  k->leases--;
  if (--held->leases == 0)
    *held = k->held[--k->held_n];
  return 1;
}

static int release(struct worker *k) {
  struct history_op op = {.kind = HISTORY_RELEASE, .call = history_tick()};
  size_t n = emb_release(k->s);
  op.back = history_tick();
  int good = CHECK_EQ_INT(n, k->leases);
  for (uint32_t i = 0; i < k->held_n; i++) {
    op.key = k->held[i].key;
    op.leases = (uint8_t)k->held[i].leases;
    good &= CHECK(history_add(&k->history, op));
  }
  k->held_n = 0;
  k->leases = 0;
  count(&k->w->released);
  return good;
}

/* ---- Get ----------------------------------------------------------------- */

/* The first of equal keys in the batch? */
static int is_first(const struct worker *k, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (k->keys[j] == k->keys[i])
      return 0;
  return 1;
}

static void choose(struct worker *k, size_t n) {
  static const uint64_t ranges[8] = {HOT,  HOT,  HOT,  WARM,
                                     WARM, WARM, WARM, KEYS};
  for (size_t i = 0; i < n; i++)
    k->keys[i] = below(k, ranges[below(k, 8)]);
}

static int get_async(struct worker *k, size_t n) {
  uint64_t ticket, ended;
  int rc = emb_prefetch(k->s, k->keys, n,
                        &(emb_rows){.vectors = k->vectors,
                                    .found = k->found,
                                    .versions = k->versions},
                        &ticket);
  if (!OK(k->s, rc))
    return EMB_MISUSE;
  rc = emb_prefetch_synchronize(k->s, below(k, 2) ? ticket : 0, &ended);
  CHECK_EQ_INT(ended, ticket);
  return rc;
}

static int note_refused(struct worker *k, size_t n, struct history_op op) {
  int good = 1;
  op.kind = HISTORY_REFUSED;
  op.value = history_group();
  for (size_t i = 0; i < n; i++) {
    op.key = k->keys[i];
    if (is_first(k, i))
      good &= CHECK(history_add(&k->history, op));
  }
  count(&k->w->refused);
  return good && release(k);
}

static int note_read(struct worker *k, size_t i, struct history_op op) {
  op.key = k->keys[i];
  op.version = k->versions[i];
  return CHECK(k->found[i]) &&
         test_check(read_vector(k->vectors + i * DIM, op.key, &op.value),
                    __FILE__, __LINE__, "torn vector of key %" PRId64,
                    op.key) &&
         CHECK(history_add(&k->history, op));
}

/* Get of the n keys in k->keys; what is got stays in held.  0: end. */
static int get(struct worker *k, size_t n) {
  struct history_op op = {.kind = HISTORY_GET, .call = history_tick()};
  int rc = below(k, 4)
               ? emb_get(k->s, k->keys, n, k->vectors, k->found, k->versions)
               : get_async(k, n);
  op.back = history_tick();
  if (rc == EMB_BUSY && !k->w->ordered)
    return note_refused(k, n, op);
  if (!OK(k->s, rc))
    return 0;
  int good = 1;
  for (size_t i = 0; i < n; i++) {
    /* A key counts once in a call. */
    op.kind = is_first(k, i) ? HISTORY_GET : HISTORY_PEEK;
    good = good && note_read(k, i, op);
    if (op.kind == HISTORY_GET)
      take(k, k->keys[i]);
  }
  return good && CHECK_EQ_INT(emb_leases(k->s), k->leases);
}

static int peek(struct worker *k, size_t n) {
  struct history_op op = {.kind = HISTORY_PEEK, .call = history_tick()};
  int good =
      OK(k->s, emb_peek(k->s, k->keys, n, k->vectors, k->found, k->versions));
  op.back = history_tick();
  for (size_t i = 0; i < n; i++)
    good = good && note_read(k, i, op);
  return good;
}

/* ---- Put ----------------------------------------------------------------- */

static uint64_t next_value(struct worker *k, size_t i) {
  uint64_t value = (uint64_t)k->number << 32 | ++k->sequence;
  write_vector(k->vectors + i * DIM, k->keys[i], value);
  return value;
}

static int note_put(struct worker *k, size_t i, struct history_op op) {
  op.key = k->keys[i];
  op.leases = give(k, op.key);
  return CHECK(history_add(&k->history, op));
}

/* Puts n different keys. */
static int put(struct worker *k, size_t n) {
  struct history_op op = {.kind = HISTORY_PUT};
  uint64_t values[BATCH];
  for (size_t i = 0; i < n; i++)
    values[i] = next_value(k, i);
  op.call = history_tick();
  int good = OK(k->s, emb_put(k->s, k->keys, n, k->vectors, k->versions));
  op.back = history_tick();
  for (size_t i = 0; good && i < n; i++) {
    op.version = k->versions[i];
    op.value = values[i];
    good = note_put(k, i, op);
  }
  return good;
}

/* Of odd keys only: see HISTORY_SAME. */
static int add_zeros(struct worker *k) {
  struct history_op op = {.kind = HISTORY_PUT, .value = HISTORY_SAME};
  memset(k->vectors, 0, DIM * sizeof *k->vectors);
  op.call = history_tick();
  int good =
      OK(k->s, emb_rmw(k->s, k->keys, 1, k->vectors, k->found, k->versions));
  op.back = history_tick();
  op.version = k->versions[0];
  return good && CHECK(k->found[0]) && note_put(k, 0, op);
}

/* Of even keys only.  The version is mostly known by the read afterwards. */
static int write_back(struct worker *k) {
  struct history_op op = {.kind = HISTORY_PUT, .version = HISTORY_UNTOLD};
  uint64_t ticket, ended;
  op.value = next_value(k, 0);
  op.call = history_tick();
  int good = OK(k->s, emb_write_back(k->s, k->keys, 1, k->vectors, &ticket)) &&
             OK(k->s, emb_write_back_synchronize(k->s, ticket, &ended));
  op.back = history_tick();
  return good && CHECK_EQ_INT(ended, ticket) && note_put(k, 0, op) &&
         peek(k, 1);
}

static int put_one(struct worker *k, int64_t key) {
  k->keys[0] = key;
  if (below(k, 4))
    return put(k, 1);
  return key % 2 ? add_zeros(k) : write_back(k);
}

/* All keys with leases, each as often as it has some. */
static int put_back(struct worker *k) {
  int good = 1;
  while (good && k->held_n > 0) {
    if (below(k, 4) == 0) {
      good = put_one(k, k->held[below(k, k->held_n)].key);
      continue;
    }
    size_t n = k->held_n < BATCH ? k->held_n : BATCH;
    for (size_t i = 0; i < n; i++)
      k->keys[i] = k->held[i].key;
    good = put(k, n);
  }
  return good && CHECK_EQ_INT(k->leases, 0) &&
         CHECK_EQ_INT(emb_leases(k->s), 0);
}

/* ---- threads ------------------------------------------------------------- */

static int look_ahead(struct worker *k, const int64_t *keys, size_t n) {
  int dest = below(k, 2) ? EMB_AHEAD_CACHE : EMB_AHEAD_BUFFER;
  return OK(k->s, emb_lookahead(k->s, keys, n, dest, NULL));
}

static int look_far_ahead(struct worker *k) {
  int64_t ahead[64];
  for (int i = 0; i < 64; i++)
    ahead[i] = below(k, below(k, 2) ? WARM : KEYS);
  return look_ahead(k, ahead, 64);
}

/* What a worker in the mixed world does besides Get and Put. */
static int something_else(struct worker *k) {
  size_t n = 1 + below(k, BATCH);
  choose(k, n);
  switch (below(k, 4)) {
  case 0:
    return put_one(k, k->keys[0]); /* mostly without a lease */
  case 1:
    return peek(k, n);
  case 2:
    return release(k);
  default:
    return look_far_ahead(k);
  }
}

static void *work(void *arg) {
  struct worker *k = arg;
  int good = 1;
  while (good && going(k)) {
    size_t n = below(k, 4) ? 1 + below(k, BATCH) : 1;
    choose(k, n);
    good = (below(k, 8) || look_ahead(k, k->keys, n)) && get(k, n);
    if (k->w->ordered) {
      good = good && put_back(k) && (below(k, 32) || look_far_ahead(k));
      continue;
    }
    if (good && below(k, 8) == 0)
      good = something_else(k);
    /* At a low bound a few such circles hold up all workers. */
    if (good && (k->held_n > HELD_MAX || below(k, k->w->bound < 2 ? 12 : 4)))
      good = below(k, 8) ? put_back(k) : release(k);
  }
  return NULL;
}

static void *keep(void *arg) {
  struct worker *k = arg;
  while (going(k)) {
    struct timespec pause = {0, 3000000};
    if (!OK(k->s, below(k, 6) ? emb_checkpoint(k->s) : emb_optimize(k->s)))
      break;
    (void)nanosleep(&pause, NULL);
  }
  return NULL;
}

/* Keys of its own, which no other thread touches; and a lookahead of the
** others'. */
static void *grow(void *arg) {
  struct worker *k = arg;
  int64_t added = 0;
  while (going(k)) {
    for (size_t i = 0; i < BATCH; i++, added++) {
      k->keys[i] = ADDED_AT + added % ADDED;
      (void)next_value(k, i);
    }
    if (!OK(k->s, emb_put(k->s, k->keys, BATCH, k->vectors, NULL)) ||
        (added % 512 == 0 && !look_far_ahead(k)))
      break;
    if (added % 256 == 0) {
      struct timespec pause = {0, 1000000};
      (void)nanosleep(&pause, NULL);
    }
  }
  return NULL;
}

/* ---- the test ------------------------------------------------------------ */

static void load(struct worker *k) {
  for (int64_t key = 0; key < KEYS; key += BATCH) {
    for (int64_t i = 0; i < BATCH; i++)
      k->keys[i] = key + i;
    if (!put(k, BATCH))
      return;
  }
}

/* A hang is the one failure that cannot be reported in order. */
static void hang(const struct worker *k) {
  printf("%s: session %u did nothing for %d s: its call waits for ever; "
         "SEED=%" PRIu64 "\n",
         test_state.name, k->number, STILL_MS / 1000, test_state.seed);
  abort();
}

static void pause_ms(unsigned ms) {
  struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&pause, NULL);
}

/* What must have happened for the test to say something: the records were in
** all places.  0: the first metric that is missing is in *missing. */
static int was_everywhere(struct world *w, const char **missing) {
  static const char *const metrics[] = {
      "get_memory",     "get_cache", "get_disk",    "put_in_place",
      "cache_admitted", "evictions", "checkpoints", "compacted_records"};
  for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
    *missing = metrics[i];
    if (help_stat(w->store, metrics[i]) == 0)
      return 0;
  }
  *missing = "released";
  return w->ordered || (atomic_load(&w->released) && atomic_load(&w->blind) &&
                        (atomic_load(&w->refused) || w->bound > 2));
}

/* Until the time is over; longer on a slow machine, but not for ever. */
static void watch(struct world *w, struct worker *workers, uint32_t n,
                  unsigned ms) {
  uint64_t last[WORKERS + 2] = {0};
  unsigned still[WORKERS + 2] = {0};
  const char *missing;
  for (unsigned t = 0; t < ms || (t < STILL_MS && !was_everywhere(w, &missing));
       t += 50) {
    pause_ms(50);
    for (uint32_t i = 0; i < n; i++) {
      uint64_t now =
          atomic_load_explicit(&workers[i].rounds, memory_order_relaxed);
      still[i] = now == last[i] ? still[i] + 50 : 0;
      last[i] = now;
      if (still[i] >= STILL_MS)
        hang(&workers[i]);
    }
    if (atomic_load(&test_state.failures) > 0)
      break;
  }
  (void)test_check(was_everywhere(w, &missing), __FILE__, __LINE__, "%s is 0",
                   missing);
  atomic_store(&w->over, 1);
}

/* Joins one; its last call, too, must come back in time. */
static void join(struct worker *k) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += STILL_MS / 1000;
  if (pthread_timedjoin_np(k->thread, NULL, &until) != 0)
    hang(k);
}

/* What is still out is what the pending say; and once the sessions are closed
** nothing is out. */
static void check_pending(struct world *w, struct worker *workers,
                          emb_session *s) {
  static int64_t keys[KEYS];
  static uint32_t pending[KEYS], held[KEYS];
  memset(held, 0, sizeof held);
  for (int64_t key = 0; key < KEYS; key++)
    keys[key] = key;
  for (int i = 0; i < WORKERS; i++)
    for (uint32_t h = 0; h < workers[i].held_n; h++)
      held[workers[i].held[h].key] += (uint32_t)workers[i].held[h].leases;
  if (!OK(s, emb_clocks(s, keys, KEYS, pending)))
    return;
  for (int key = 0; key < KEYS; key++)
    if (!test_check(pending[key] == held[key], __FILE__, __LINE__,
                    "key %d: %u pending, and %u leases are out", key,
                    pending[key], held[key]))
      break;
  for (int i = 0; i < WORKERS; i++)
    emb_session_close(workers[i].s);
  CHECK(OK(s, emb_clocks(s, keys, KEYS, pending)));
  for (int key = 0; key < KEYS; key++)
    if (!test_check(pending[key] == 0, __FILE__, __LINE__,
                    "key %d: %u pending without a session", key, pending[key]))
      break;
  if (!getenv("SERVED")) /* they are another process's */
    CHECK_EQ_INT(help_stat(w->store, "sessions"), 3);
}

static void check_history(const struct world *w, const struct worker *workers,
                          const struct worker *loader) {
  struct history histories[WORKERS + 1];
  struct history_report report;
  size_t n = 0;
  for (int i = 0; i < WORKERS; i++)
    n += (histories[i] = workers[i].history).n;
  histories[WORKERS] = loader->history;
  int64_t offences = history_check(histories, WORKERS + 1, w->bound, &report);
  test_count("operations in histories", n);
  (void)test_check(offences == 0, __FILE__, __LINE__,
                   "bound %u, %zu operations: time %" PRIu64 ", value %" PRIu64
                   ", joint %" PRIu64 ", cause %" PRIu64 "; %s",
                   w->bound, n, report.time, report.value, report.joint,
                   report.cause, report.first);
  /* A test in which nothing was at the bound says nothing. */
  CHECK(report.pending_max == w->bound + 1 || w->bound > 2);
}

static int start(struct world *w, struct worker *workers) {
  static void *(*const others[2])(void *) = {keep, grow};
  emb_err err;
  for (uint32_t i = 0; i < WORKERS + 2; i++) {
    workers[i].w = w;
    workers[i].number = i + 1;
    workers[i].random = test_random();
    if (!CHECK_EQ_INT(emb_session_open(w->store, &workers[i].s, &err), 0))
      return 0;
  }
  for (uint32_t i = 0; i < WORKERS + 2; i++)
    if (!CHECK_EQ_INT(pthread_create(&workers[i].thread, NULL,
                                     i < WORKERS ? work : others[i - WORKERS],
                                     &workers[i]),
                      0))
      abort();
  return 1;
}

static void run(uint32_t bound, int ordered, uint32_t io, unsigned ms) {
  struct world *w = calloc(1, sizeof *w);
  struct worker *workers = calloc(WORKERS + 3, sizeof *workers);
  struct worker *me = &workers[WORKERS + 2];
  emb_config config = {.dim = DIM,
                       .io = io,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                       .memory_bytes = 1,
                       .staleness = bound,
                       .timeout_ms = ordered ? 600000 : 1};
  if (!w || !workers ||
      !help_open(help_path("store"), &config, &w->store, &me->s))
    goto out;
  me->w = w;
  me->random = test_random();
  w->bound = bound;
  w->ordered = ordered;
  load(me);
  if (!start(w, workers))
    goto out;
  watch(w, workers, WORKERS + 2, ms * help_long());
  for (int i = 0; i < WORKERS + 2; i++)
    join(&workers[i]);
  check_pending(w, workers, me->s);
  check_history(w, workers, me);
  CHECK(help_verify(me->s));
  emb_session_close(workers[WORKERS].s);
  emb_session_close(workers[WORKERS + 1].s);
  help_close(w->store, me->s);
out:
  for (int i = 0; workers && i < WORKERS + 3; i++)
    history_free(&workers[i].history);
  free(workers);
  free(w);
}

TEST(history_mixed_0) { run(0, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_1) { run(1, 0, EMB_IO_PREAD, 400); }
TEST(history_mixed_2) { run(2, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_8) { run(8, 0, EMB_IO_PREAD, 400); }
TEST(history_ordered_0) { run(0, 1, EMB_IO_AUTO, 400); }
TEST(history_ordered_1) { run(1, 1, EMB_IO_PREAD, 400); }
