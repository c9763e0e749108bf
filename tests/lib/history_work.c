/* SPDX-License-Identifier: MIT
**
** history_work.c -- see history_work.h.
*/
#include "history_work.h"

enum { HOT = 6, WARM = 300, ADDED_AT = 1000000, ADDED = 24000 };

static uint32_t below(struct history_worker *k, uint64_t n) {
  return (uint32_t)(test_random_from(&k->random) % n);
}

static int going(struct history_worker *k) {
  atomic_fetch_add_explicit(&k->rounds, 1, memory_order_relaxed);
  return !atomic_load_explicit(&k->w->shared->over, memory_order_relaxed) &&
         !atomic_load_explicit(&test_state.failures, memory_order_relaxed);
}

static void count(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- vectors ------------------------------------------------------------- */

/* All are whole numbers below 2^24, which a float holds exactly. */
static void write_vector(float *to, int64_t key, uint64_t value) {
  uint64_t writer = value >> 32, sequence = value & UINT32_MAX;
  float x[4] = {
      (float)key, (float)writer, (float)sequence,
      (float)(((uint64_t)key * 31 + writer * 17 + sequence * 7) % 4093)};
  for (int i = 0; i < HISTORY_DIM; i++)
    to[i] = x[i & 3];
}

/* 1 when the vector is whole and belongs to the key. */
static int read_vector(const float *vector, int64_t key, uint64_t *value) {
  float whole[HISTORY_DIM];
  *value = (uint64_t)vector[1] << 32 | (uint64_t)vector[2];
  write_vector(whole, key, *value);
  return memcmp(whole, vector, sizeof whole) == 0;
}

/* ---- leases -------------------------------------------------------------- */

static struct history_held *held_of(struct history_worker *k, int64_t key) {
  for (uint32_t i = 0; i < k->held_n; i++)
    if (k->held[i].key == key)
      return &k->held[i];
  return NULL;
}

static void take(struct history_worker *k, int64_t key) {
  struct history_held *held = held_of(k, key);
  if (!held) {
    held = &k->held[k->held_n++];
    *held = (struct history_held){key, 0};
  }
  held->leases++;
  k->leases++;
}

/* Leases that a Put of the key gives back: 0 or 1. */
static uint8_t give(struct history_worker *k, int64_t key) {
  struct history_held *held = held_of(k, key);
  if (!held) {
    count(&k->w->shared->blind);
    return 0;
  }
  k->leases--;
  if (--held->leases == 0)
    *held = k->held[--k->held_n];
  return 1;
}

static int release(struct history_worker *k) {
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
  count(&k->w->shared->released);
  return good;
}

/* ---- Get ----------------------------------------------------------------- */

/* Is this the first of equal keys in the batch? */
static int is_first(const struct history_worker *k, size_t i) {
  for (size_t j = 0; j < i; j++)
    if (k->keys[j] == k->keys[i])
      return 0;
  return 1;
}

static void choose(struct history_worker *k, size_t n) {
  static const uint64_t ranges[8] = {HOT,  HOT,  HOT,  WARM,
                                     WARM, WARM, WARM, HISTORY_KEYS};
  for (size_t i = 0; i < n; i++)
    k->keys[i] = below(k, ranges[below(k, 8)]);
}

static int get_async(struct history_worker *k, size_t n) {
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

static int note_refused(struct history_worker *k, size_t n,
                        struct history_op op) {
  int good = 1;
  op.kind = HISTORY_REFUSED;
  op.value = history_group();
  for (size_t i = 0; i < n; i++) {
    op.key = k->keys[i];
    if (is_first(k, i))
      good &= CHECK(history_add(&k->history, op));
  }
  count(&k->w->shared->refused);
  return good && release(k);
}

static int note_read(struct history_worker *k, size_t i, struct history_op op) {
  op.key = k->keys[i];
  op.version = k->versions[i];
  return CHECK(k->found[i]) &&
         test_check(
             read_vector(k->vectors + i * HISTORY_DIM, op.key, &op.value),
             __FILE__, __LINE__, "torn vector of key %" PRId64, op.key) &&
         CHECK(history_add(&k->history, op));
}

/* Gets the n keys in k->keys; `held` keeps the leases.  0: end. */
static int get(struct history_worker *k, size_t n) {
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
    /* A key counts once per call. */
    op.kind = is_first(k, i) ? HISTORY_GET : HISTORY_PEEK;
    good = good && note_read(k, i, op);
    if (op.kind == HISTORY_GET)
      take(k, k->keys[i]);
  }
  return good && CHECK_EQ_INT(emb_leases(k->s), k->leases);
}

static int peek(struct history_worker *k, size_t n) {
  struct history_op op = {.kind = HISTORY_PEEK, .call = history_tick()};
  int good =
      OK(k->s, emb_peek(k->s, k->keys, n, k->vectors, k->found, k->versions));
  op.back = history_tick();
  for (size_t i = 0; i < n; i++)
    good = good && note_read(k, i, op);
  return good;
}

/* ---- Put ----------------------------------------------------------------- */

static uint64_t next_value(struct history_worker *k, size_t i) {
  uint64_t value = (uint64_t)k->number << 32 | ++k->sequence;
  write_vector(k->vectors + i * HISTORY_DIM, k->keys[i], value);
  return value;
}

static int note_put(struct history_worker *k, size_t i, struct history_op op) {
  op.key = k->keys[i];
  op.leases = give(k, op.key);
  return CHECK(history_add(&k->history, op));
}

/* Puts n different keys. */
static int put(struct history_worker *k, size_t n) {
  struct history_op op = {.kind = HISTORY_PUT};
  uint64_t values[HISTORY_BATCH];
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

/* For odd keys only: see HISTORY_SAME. */
static int add_zeros(struct history_worker *k) {
  struct history_op op = {.kind = HISTORY_PUT, .value = HISTORY_SAME};
  memset(k->vectors, 0, HISTORY_DIM * sizeof *k->vectors);
  op.call = history_tick();
  int good =
      OK(k->s, emb_rmw(k->s, k->keys, 1, k->vectors, k->found, k->versions));
  op.back = history_tick();
  op.version = k->versions[0];
  return good && CHECK(k->found[0]) && note_put(k, 0, op);
}

/* For even keys only.  The read afterwards usually tells the version. */
static int write_back(struct history_worker *k) {
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

static int put_one(struct history_worker *k, int64_t key) {
  k->keys[0] = key;
  if (below(k, 4))
    return put(k, 1);
  return key % 2 ? add_zeros(k) : write_back(k);
}

/* Puts all keys with leases, each once per lease. */
static int put_back(struct history_worker *k) {
  int good = 1;
  while (good && k->held_n > 0) {
    if (below(k, 4) == 0) {
      good = put_one(k, k->held[below(k, k->held_n)].key);
      continue;
    }
    size_t n = k->held_n < HISTORY_BATCH ? k->held_n : HISTORY_BATCH;
    for (size_t i = 0; i < n; i++)
      k->keys[i] = k->held[i].key;
    good = put(k, n);
  }
  return good && CHECK_EQ_INT(k->leases, 0) &&
         CHECK_EQ_INT(emb_leases(k->s), 0);
}

/* ---- work ---------------------------------------------------------------- */

static int look_ahead(struct history_worker *k, const int64_t *keys, size_t n) {
  int dest = below(k, 2) ? EMB_AHEAD_CACHE : EMB_AHEAD_BUFFER;
  return OK(k->s, emb_lookahead(k->s, keys, n, dest, NULL));
}

static int look_far_ahead(struct history_worker *k) {
  int64_t ahead[64];
  for (int i = 0; i < 64; i++)
    ahead[i] = below(k, below(k, 2) ? WARM : HISTORY_KEYS);
  return look_ahead(k, ahead, 64);
}

/* Actions of a worker in the mixed world besides Get and Put. */
static int something_else(struct history_worker *k) {
  size_t n = 1 + below(k, HISTORY_BATCH);
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

void *history_work(void *arg) {
  struct history_worker *k = arg;
  int good = 1;
  while (good && going(k)) {
    size_t n = below(k, 4) ? 1 + below(k, HISTORY_BATCH) : 1;
    choose(k, n);
    good = (below(k, 8) || look_ahead(k, k->keys, n)) && get(k, n);
    if (k->w->ordered) {
      good = good && put_back(k) && (below(k, 32) || look_far_ahead(k));
      continue;
    }
    if (good && below(k, 8) == 0)
      good = something_else(k);
    /* At a low bound a few such circles hold up all workers. */
    if (good &&
        (k->held_n > HISTORY_HELD || below(k, k->w->bound < 2 ? 12 : 4)))
      good = below(k, 8) ? put_back(k) : release(k);
  }
  return NULL;
}

void *history_keep(void *arg) {
  struct history_worker *k = arg;
  while (going(k)) {
    struct timespec pause = {0, 3000000};
    if (!OK(k->s, below(k, 6) ? emb_checkpoint(k->s) : emb_optimize(k->s)))
      break;
    (void)nanosleep(&pause, NULL);
  }
  return NULL;
}

/* Also looks ahead at the others' keys. */
void *history_grow(void *arg) {
  struct history_worker *k = arg;
  int64_t added = 0;
  while (going(k)) {
    for (size_t i = 0; i < HISTORY_BATCH; i++, added++) {
      k->keys[i] = ADDED_AT + added % ADDED;
      (void)next_value(k, i);
    }
    if (!OK(k->s, emb_put(k->s, k->keys, HISTORY_BATCH, k->vectors, NULL)) ||
        (added % 512 == 0 && !look_far_ahead(k)))
      break;
    if (added % 256 == 0) {
      struct timespec pause = {0, 1000000};
      (void)nanosleep(&pause, NULL);
    }
  }
  return NULL;
}

void history_load(struct history_worker *k) {
  for (int64_t key = 0; key < HISTORY_KEYS; key += HISTORY_BATCH) {
    for (int64_t i = 0; i < HISTORY_BATCH; i++)
      k->keys[i] = key + i;
    if (!put(k, HISTORY_BATCH))
      return;
  }
}

emb_config history_config(uint32_t bound, int ordered, uint32_t io) {
  return (emb_config){.dim = HISTORY_DIM,
                      .io = io,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                      .memory_bytes = 1,
                      .staleness = bound,
                      .timeout_ms = ordered ? 600000 : 1};
}

int history_start(struct history_worker *k, struct history_world *w,
                  uint32_t number, void *(*work)(void *)) {
  emb_err err;
  k->w = w;
  k->number = number;
  k->random = test_random();
  if (!CHECK_EQ_INT(emb_session_open(w->store, &k->s, &err), 0))
    return 0;
  if (!CHECK_EQ_INT(pthread_create(&k->thread, NULL, work, k), 0))
    abort();
  return 1;
}

/* ---- watching ------------------------------------------------------------ */

static void hang(const struct history_worker *k) {
  printf("%s: session %u did nothing for %d s: its call waits for ever; "
         "SEED=%" PRIu64 "\n",
         test_state.name, k->number, HISTORY_STILL_MS / 1000, test_state.seed);
  abort();
}

void history_look(struct history_watch *watch,
                  const struct history_worker *workers, uint32_t n) {
  struct timespec pause = {0, HISTORY_LOOK_MS * 1000000};
  (void)nanosleep(&pause, NULL);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t now =
        atomic_load_explicit(&workers[i].rounds, memory_order_relaxed);
    watch->still[i] =
        now == watch->last[i] ? watch->still[i] + HISTORY_LOOK_MS : 0;
    watch->last[i] = now;
    if (watch->still[i] >= HISTORY_STILL_MS)
      hang(&workers[i]);
  }
}

void history_join(struct history_worker *k) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += HISTORY_STILL_MS / 1000;
  if (pthread_timedjoin_np(k->thread, NULL, &until) != 0)
    hang(k);
}

int history_was_everywhere(const struct history_world *w,
                           const char **missing) {
  static const char *const metrics[] = {
      "get_memory",     "get_cache", "get_disk",    "put_in_place",
      "cache_admitted", "evictions", "checkpoints", "compacted_records"};
  for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
    *missing = metrics[i];
    if (help_stat(w->store, metrics[i]) == 0)
      return 0;
  }
  *missing = "released";
  return w->ordered ||
         (atomic_load(&w->shared->released) && atomic_load(&w->shared->blind) &&
          (atomic_load(&w->shared->refused) || w->bound > 2));
}

/* ---- judging ------------------------------------------------------------- */

int history_pending(emb_session *s, const uint32_t *held) {
  int64_t *keys = malloc(HISTORY_KEYS * sizeof *keys);
  uint32_t *pending = malloc(HISTORY_KEYS * sizeof *pending);
  int good = CHECK(keys != NULL && pending != NULL);
  for (int64_t key = 0; good && key < HISTORY_KEYS; key++)
    keys[key] = key;
  good = good && OK(s, emb_clocks(s, keys, HISTORY_KEYS, pending));
  for (int key = 0; good && key < HISTORY_KEYS; key++)
    good = test_check(pending[key] == held[key], __FILE__, __LINE__,
                      "key %d: %u pending, and %u leases are out", key,
                      pending[key], held[key]);
  free(keys);
  free(pending);
  return good;
}

void history_judge(const struct history *histories, size_t count,
                   uint32_t bound) {
  struct history_report report;
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    n += histories[i].n;
  int64_t offences = history_check(histories, count, bound, &report);
  test_count("operations in histories", n);
  (void)test_check(offences == 0, __FILE__, __LINE__,
                   "bound %u, %zu operations: time %" PRIu64 ", value %" PRIu64
                   ", joint %" PRIu64 ", cause %" PRIu64 "; %s",
                   bound, n, report.time, report.value, report.joint,
                   report.cause, report.first);
  /* A test in which no key reached the bound proves nothing. */
  CHECK(report.pending_max == bound + 1 || bound > 2);
}
