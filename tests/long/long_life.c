/* SPDX-License-Identifier: MIT
**
** long_life.c -- a table that grows to its size and then turns over, for a
** long time: a store on disk, several times larger than its memory, under all
** operations at the same time.
**
** WORK      The table has SLOTS places.  A place holds one key after another,
**           never the same again, each put many times.  A third of the places
**           belongs to each of the writers, which put, add, delete, train
**           (a counted Get, or a prefetch, then the write) and make
**           transactions; readers read all places, look ahead and prefetch; a
**           keeper scans, checkpoints, compacts and verifies.
** TRUTH     `begun` and `done` give for each place the key and the version
**           that a thread has begun and has finished writing.  A vector holds
**           its key and version, so each read can be judged: never a wrong
**           vector, never a version older than the one done when the read
**           began, never one not begun when it ended.
** EPOCHS    The threads work for a while and end.  Then every key is read and
**           compared exactly, and memory, files, threads and disk are
**           sampled.  In the first third of the epochs the store is closed
**           and reopened from time to time; the other two thirds are one
**           life.
** MUST HOLD Memory of the engine and of the process: the maximum of the last
**           third is at most slightly above that of the middle third; after a
**           close the engine holds nothing.  Disk: once the background work
**           has caught up, and after a close, at most twice the live data and
**           DISK_SLACK_BYTES; before that the log has at most 2.25 times.  Open
**           files, names in the directory and threads: never more than a store
**           at rest needs, and after a close as before the open.
** AMOUNT    LONG=n makes it n times as long, LIFE_SECONDS=n sets its length.
*/
#include "long_help.h"

#include <malloc.h>
#include <pthread.h>

enum {
  DIM = 64,
  REC_BYTES = 4096 / 15, /* of disk, with its share of the page */
  WRITERS = 3,
  READERS = 2,
  THREADS = WRITERS + READERS + 1,
  LANE = 20000, /* places of a writer */
  SLOTS = WRITERS * LANE,
  BATCH = 128,
  BOUND = 2 * THREADS, /* staleness */
  EPOCH_MS_MAX = 10000,
  CATCH_UP = 3, /* every third epoch waits for the background work */
  REOPEN = 2,   /* in the first third every second epoch reopens */
  /* At rest: log, lock, the rings that are kept, and four of the server's; a
  ** thread for flushes, one for other work, the server's, and four for
  ** batches. */
  OPEN_FILES = 2 + 8 + 4,
  OPEN_THREADS = 1 + 1 + 1 + 4,
  /* log, lock, manifest, index and its spare, socket, and perhaps hot */
  OPEN_NAMES = 7,
};

/* On disk besides the live data. */
#define DISK_SLACK_BYTES (UINT64_C(3) << 20)
#define LOG_SLACK_BYTES (UINT64_C(1) << 20)

/* ---- places -------------------------------------------------------------- */

/* Generation of the key in bits 32 to 63, its version in 1 to 31, bit 0: it is
** there. */
typedef uint64_t state;

static uint32_t generation(state st) { return (uint32_t)(st >> 32); }
static uint32_t version(state st) { return (uint32_t)st >> 1; }
static int present(state st) { return (int)(st & 1); }

static int64_t key_of(uint32_t slot, uint32_t gen) {
  return (int64_t)gen * SLOTS + slot;
}

/* The same key's next version, or the next key. */
static state after_put(state st) {
  return present(st) ? st + 2 : (((st >> 32) + 1) << 32 | 1);
}
static state after_delete(state st) { return st & ~UINT64_C(1); }

static int64_t key_in(uint32_t slot, state st) {
  return key_of(slot, generation(st));
}

/* Version, key, and a pattern of both; all whole numbers below 2^24, so that
** differences and sums are exact. */
static void make(float *vector, int64_t key, uint32_t v) {
  uint64_t x = (uint64_t)key << 24 | v;
  x = test_random_from(&x);
  vector[0] = (float)v;
  vector[1] = (float)(key & 0xfffff);
  vector[2] = (float)(key >> 20);
  for (uint32_t i = 3; i < DIM; i++)
    vector[i] = (float)(x * (2 * i + 1) >> 40);
}

static void make_in(float *vector, uint32_t slot, state st) {
  make(vector, key_in(slot, st), version(st));
}

/* The version in a vector of the key; UINT32_MAX when it is torn or another
** key's. */
static uint32_t version_of(const float *vector, int64_t key) {
  float want[DIM];
  if (!(vector[0] >= 0 && vector[0] < (float)(1 << 24)))
    return UINT32_MAX;
  make(want, key, (uint32_t)vector[0]);
  return memcmp(want, vector, sizeof want) == 0 ? (uint32_t)vector[0]
                                                : UINT32_MAX;
}

static struct {
  emb_store *store;
  emb_config config;
  char dir[512];
  /* Written by the place's writer, read by all; sequentially consistent. */
  _Atomic state begun[SLOTS], done[SLOTS];
  /* Set by main; relaxed. */
  _Atomic int over;
  _Atomic uint64_t calls, turned; /* sums; relaxed */
} w;

/* Judges a read of the key that the place had at `before`; the read began
** when `before` was done and ended when `after` was begun. */
static int is_right(uint32_t slot, state before, state after, int found,
                    const float *vector) {
  int64_t key = key_in(slot, before);
  int same = generation(after) == generation(before) && present(after);
  if (!present(before) || !found)
    return test_check(!found && !(present(before) && same), __FILE__, __LINE__,
                      "key %" PRId64 " is %s", key, found ? "back" : "lost");
  uint32_t v = version_of(vector, key);
  return test_check(
      v != UINT32_MAX && v >= version(before) && (!same || v <= version(after)),
      __FILE__, __LINE__,
      "key %" PRId64 " has version %d, and %u to %u were written", key, (int)v,
      version(before), same ? version(after) : UINT32_MAX);
}

/* ---- the workers --------------------------------------------------------- */

struct worker {
  void (*run)(struct worker *);
  pthread_t thread;
  emb_session *s;
  uint64_t random;
  uint32_t lane; /* of a writer: its first place */
  size_t n;      /* of the current batch */
  uint32_t slots[BATCH];
  state states[BATCH];
  int64_t keys[BATCH];
  uint8_t found[BATCH];
  float vectors[BATCH * DIM];
  /* for a scan */
  state *before;
  uint8_t *came;
};

static uint32_t below(struct worker *k, uint64_t n) {
  return (uint32_t)(test_random_from(&k->random) % n);
}

static int going(void) {
  atomic_fetch_add_explicit(&w.calls, 1, memory_order_relaxed);
  return !atomic_load_explicit(&w.over, memory_order_relaxed);
}

/* Distinct places out of `range` from `first`: neighbours, or far apart; half
** of the time a few hot ones. */
static void choose(struct worker *k, uint32_t first, uint32_t range) {
  static const uint32_t steps[] = {1, 1, 7, 1009}; /* coprime with the ranges */
  uint32_t step = steps[below(k, 4)];
  uint32_t at = below(k, below(k, 2) ? range : range / 40);
  k->n = 1 + below(k, BATCH);
  for (size_t i = 0; i < k->n; i++) {
    k->slots[i] = first + (at + (uint32_t)i * step) % range;
    k->states[i] = atomic_load(&w.done[k->slots[i]]);
    k->keys[i] = key_in(k->slots[i], k->states[i]);
  }
}

/* Judges the results of the batch. */
static int judge(struct worker *k) {
  for (size_t i = 0; i < k->n; i++)
    if (!is_right(k->slots[i], k->states[i], atomic_load(&w.begun[k->slots[i]]),
                  k->found[i], k->vectors + i * DIM))
      return 0;
  return 1;
}

/* ---- writers ------------------------------------------------------------- */

/* Advances the batch's states by one step. */
static void advance(struct worker *k, state (*step)(state)) {
  for (size_t i = 0; i < k->n; i++) {
    k->states[i] = step(k->states[i]);
    k->keys[i] = key_in(k->slots[i], k->states[i]);
    make_in(k->vectors + i * DIM, k->slots[i], k->states[i]);
  }
}

static void note(const struct worker *k, _Atomic state *where) {
  for (size_t i = 0; i < k->n; i++)
    atomic_store(&where[k->slots[i]], k->states[i]);
}

static int put(struct worker *k) {
  advance(k, after_put);
  note(k, w.begun);
  int good = OK(k->s, emb_put(k->s, k->keys, k->n, k->vectors, NULL));
  note(k, w.done);
  return good;
}

static int add(struct worker *k) {
  float old[DIM];
  for (size_t i = 0; i < k->n; i++) {
    float *delta = k->vectors + i * DIM;
    make_in(old, k->slots[i], k->states[i]);
    k->states[i] = after_put(k->states[i]);
    make_in(delta, k->slots[i], k->states[i]);
    for (int d = 0; d < DIM; d++)
      delta[d] -= old[d];
  }
  note(k, w.begun);
  int good = OK(k->s, emb_rmw(k->s, k->keys, k->n, k->vectors, k->found, NULL));
  for (size_t i = 0; good && i < k->n; i++)
    good = CHECK(k->found[i]);
  note(k, w.done);
  return good;
}

/* Deletes the keys, and puts others in their places. */
static int turn_over(struct worker *k) {
  advance(k, after_delete);
  note(k, w.begun);
  int good = OK(k->s, emb_delete(k->s, k->keys, k->n, k->found));
  for (size_t i = 0; good && i < k->n; i++)
    good = CHECK(k->found[i]);
  note(k, w.done);
  atomic_fetch_add_explicit(&w.turned, k->n, memory_order_relaxed);
  return good && put(k);
}

/* Counted Gets, whose leases the writes give back. */
static int train(struct worker *k) {
  return OK(k->s, emb_get(k->s, k->keys, k->n, k->vectors, k->found, NULL)) &&
         judge(k) && put(k) && CHECK_EQ_INT(emb_leases(k->s), 0);
}

static int train_ahead(struct worker *k) {
  uint64_t ticket;
  if (!OK(k->s,
          emb_prefetch(k->s, k->keys, k->n,
                       &(emb_rows){.vectors = k->vectors, .found = k->found},
                       &ticket)) ||
      !OK(k->s, emb_prefetch_synchronize(k->s, ticket, NULL)) || !judge(k))
    return 0;
  advance(k, after_put);
  note(k, w.begun);
  int good =
      OK(k->s, emb_write_back(k->s, k->keys, k->n, k->vectors, &ticket)) &&
      OK(k->s, emb_write_back_synchronize(k->s, ticket, NULL));
  note(k, w.done);
  return good && CHECK_EQ_INT(emb_leases(k->s), 0);
}

/* Some of the batch's keys are put, the others turned over; or nothing is
** done.  Nothing may be seen before the commit. */
static int transaction(struct worker *k) {
  state was[BATCH];
  uint64_t number;
  memcpy(was, k->states, sizeof was);
  size_t all = k->n, gone = below(k, all + 1);
  if (!OK(k->s, emb_begin(k->s)))
    return 0;
  int good = OK(k->s, emb_txn_delete(k->s, k->keys, gone, k->found));
  for (size_t i = 0; i < gone; i++)
    k->states[i] = after_delete(k->states[i]);
  if (below(k, 2)) /* rolled back again */
    good = good && OK(k->s, emb_savepoint(k->s, 1)) &&
           OK(k->s, emb_txn_delete(k->s, k->keys, all, NULL)) &&
           OK(k->s, emb_rollback_to(k->s, 1));
  advance(k, after_put);
  good = good && OK(k->s, emb_txn_put(k->s, k->keys, all, k->vectors));
  if (below(k, 2))
    good = good && OK(k->s, emb_prepare(k->s, &number));
  if (!good || below(k, 4) == 0) {
    emb_rollback(k->s);
    memcpy(k->states, was, sizeof was);
    return good;
  }
  note(k, w.begun);
  good = OK(k->s, emb_commit(k->s));
  note(k, w.done);
  atomic_fetch_add_explicit(&w.turned, gone, memory_order_relaxed);
  return good;
}

static void writer(struct worker *k) {
  static int (*const actions[])(struct worker *) = {
      put, put, put,   put,   add,         add,         turn_over, turn_over,
      put, put, train, train, train_ahead, train_ahead, turn_over, transaction};
  for (int good = 1; good && going();) {
    choose(k, k->lane, LANE);
    good = actions[below(k, 16)](k);
  }
}

/* Fills the table to its size. */
static void fill(struct worker *k) {
  for (uint32_t at = 0; at < LANE; at += BATCH) {
    k->n = LANE - at < BATCH ? LANE - at : BATCH;
    for (size_t i = 0; i < k->n; i++) {
      k->slots[i] = k->lane + (at + (uint32_t)i) * 7 % LANE;
      k->states[i] = 0;
    }
    if (!put(k))
      return;
  }
}

/* ---- readers ------------------------------------------------------------- */

/* Deleted keys stay deleted. */
static int ask_for_old(struct worker *k) {
  for (size_t i = 0; i < k->n; i++)
    k->keys[i] -= SLOTS;
  int good = OK(k->s, emb_exists(k->s, k->keys, k->n, k->found));
  for (size_t i = 0; good && i < k->n; i++)
    good = test_check(!k->found[i], __FILE__, __LINE__,
                      "key %" PRId64 " is back", k->keys[i]);
  return good;
}

static int look_ahead(struct worker *k) {
  emb_ahead ahead;
  return OK(k->s,
            emb_lookahead(k->s, k->keys, k->n, (int)below(k, 2), &ahead)) &&
         (below(k, 2) || OK(k->s, emb_lookahead_wait(k->s, ahead.number))) &&
         OK(k->s, emb_peek(k->s, k->keys, k->n, k->vectors, k->found, NULL)) &&
         judge(k);
}

static int get(struct worker *k) {
  int good =
      OK(k->s, emb_get(k->s, k->keys, k->n, k->vectors, k->found, NULL)) &&
      judge(k);
  (void)emb_release(k->s);
  return good;
}

static int prefetch(struct worker *k) {
  uint64_t ticket;
  int good =
      OK(k->s,
         emb_prefetch(k->s, k->keys, k->n,
                      &(emb_rows){.vectors = k->vectors, .found = k->found},
                      &ticket)) &&
      OK(k->s, emb_prefetch_synchronize(k->s, ticket, NULL)) && judge(k);
  (void)emb_release(k->s);
  return good;
}

static void reader(struct worker *k) {
  static int (*const actions[])(struct worker *) = {get, get, prefetch,
                                                    look_ahead, ask_for_old};
  for (int good = 1; good && going();) {
    choose(k, 0, SLOTS);
    good = actions[below(k, 5)](k);
  }
}

/* ---- scans --------------------------------------------------------------- */

static int judge_row(struct worker *k, int64_t key, const float *vector) {
  uint32_t slot = (uint32_t)(key % SLOTS), gen = (uint32_t)(key / SLOTS);
  state before = k->before[slot], after = atomic_load(&w.begun[slot]);
  if (gen != generation(before)) /* it was put during the scan */
    return test_check(gen > generation(before) && gen <= generation(after) &&
                          (!vector || version_of(vector, key) != UINT32_MAX),
                      __FILE__, __LINE__, "key %" PRId64 " is wrong", key);
  k->came[slot]++;
  return vector ? is_right(slot, before, after, 1, vector)
                : CHECK(present(before));
}

/* Every key that is there from the beginning to the end comes once. */
static int scan(struct worker *k, int order) {
  float *vectors = order == EMB_SCAN_KEYS ? NULL : k->vectors;
  emb_scan *scan;
  size_t n = 1;
  int good;
  memset(k->came, 0, SLOTS);
  for (uint32_t i = 0; i < SLOTS; i++)
    k->before[i] = atomic_load(&w.done[i]);
  if (!OK(k->s, emb_scan_open(k->s, INT64_MIN, INT64_MAX, order, &scan)))
    return 0;
  do {
    good = OK(k->s, emb_scan_next(scan, 1 + below(k, BATCH), k->keys, vectors,
                                  NULL, &n));
    for (size_t i = 0; good && i < n; i++)
      good = judge_row(k, k->keys[i], vectors ? vectors + i * DIM : NULL);
  } while (good && n > 0);
  emb_scan_close(scan);
  for (uint32_t i = 0; good && i < SLOTS; i++) {
    state before = k->before[i], after = atomic_load(&w.begun[i]);
    int stayed = present(before) && present(after) &&
                 generation(after) == generation(before);
    good = test_check(k->came[i] <= 1 && (k->came[i] || !stayed), __FILE__,
                      __LINE__, "key %" PRId64 " came %d times, order %d",
                      key_in(i, before), k->came[i], order);
  }
  return good;
}

static void keeper(struct worker *k) {
  for (int good = 1, round = 0; good && going(); round++) {
    good = scan(k, round % 4) && OK(k->s, emb_checkpoint(k->s));
    if (good && below(k, 8) == 0)
      good = OK(k->s, emb_optimize(k->s));
    if (good && below(k, 8) == 0)
      good = help_verify(k->s);
  }
}

/* ---- samples ------------------------------------------------------------- */

static int names(void) { return help_entries(w.dir); }

static struct {
  int files, threads;              /* with the store closed */
  int64_t held_max[3], rss_max[3]; /* of each third */
  double disk_max;                 /* of the live data */
  unsigned reopened;
} samples;

static void keep_max(int64_t *max, int64_t value) {
  *max = value > *max ? value : *max;
}

static void disk_is_bounded(const char *when) {
  uint64_t live = (uint64_t)SLOTS * REC_BYTES, bytes = help_disk_bytes(w.dir);
  double ratio = (double)bytes / (double)live;
  samples.disk_max = ratio > samples.disk_max ? ratio : samples.disk_max;
  (void)test_check(bytes <= 2 * live + DISK_SLACK_BYTES, __FILE__, __LINE__,
                   "%s: %" PRIu64 " KB on disk for %" PRIu64 " KB", when,
                   bytes >> 10, live >> 10);
}

/* Called when no thread works. */
static void sample(int third, int caught_up) {
  uint64_t live = (uint64_t)SLOTS * REC_BYTES;
  (void)help_settle(w.store);
  CHECK((uint64_t)help_stat(w.store, "log_bytes") <=
        live * 9 / 4 + LOG_SLACK_BYTES);
  if (caught_up) {
    pause_ms(1100); /* compaction leaves the rest until writes stop */
    (void)help_settle(w.store);
    disk_is_bounded("caught up");
    long_at_most(long_threads, samples.threads + OPEN_THREADS, "threads");
  }
  long_at_most(long_files, samples.files + OPEN_FILES, "open files");
  long_at_most(names, OPEN_NAMES, "names in the directory");
  keep_max(&samples.held_max[third], long_held_by(w.store));
  keep_max(&samples.rss_max[third], help_rss());
  if (getenv("VERBOSE"))
    printf("third %d: engine %" PRId64 " KB, process %" PRId64
           " KB, disk %" PRIu64 " KB, %d files, %d threads\n",
           third, long_held_by(w.store) >> 10, help_rss() >> 10,
           help_disk_bytes(w.dir) >> 10, long_files(), long_threads());
}

/* ---- epochs -------------------------------------------------------------- */

static struct worker workers[THREADS], me;

static void *start(void *arg) {
  struct worker *k = arg;
  k->run(k);
  return NULL;
}

/* Runs all workers for this time; until they return if it is 0. */
static int work(unsigned ms) {
  emb_err err;
  atomic_store(&w.over, 0);
  (void)alarm(ms / 1000 + HANG_SECONDS); /* kills */
  for (int i = 0; i < THREADS; i++)
    if (!CHECK_EQ_INT(emb_session_open(w.store, &workers[i].s, &err), 0) ||
        !CHECK_EQ_INT(
            pthread_create(&workers[i].thread, NULL, start, &workers[i]), 0))
      abort();
  for (unsigned t = 0; t < ms && !atomic_load(&test_state.failures); t += 50)
    pause_ms(50);
  atomic_store(&w.over, ms > 0);
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(workers[i].thread, NULL);
    emb_session_close(workers[i].s);
  }
  (void)alarm(0);
  return atomic_load(&test_state.failures) == 0;
}

static void nothing(struct worker *k) { (void)k; }

static void assign(void (*write)(struct worker *),
                   void (*read)(struct worker *),
                   void (*keep)(struct worker *)) {
  for (int i = 0; i < THREADS; i++) {
    struct worker *k = &workers[i];
    k->run = i < WRITERS ? write : i < WRITERS + READERS ? read : keep;
    k->lane = (uint32_t)i * LANE;
  }
}

/* Checks every key while no thread writes: it is there once, with its
** version; earlier keys of its place are not. */
static int all_are_right(int one_by_one) {
  int good = CHECK_EQ_INT(emb_count(me.s), SLOTS) && scan(&me, EMB_SCAN_ANY);
  for (uint32_t at = 0; good && one_by_one && at < SLOTS; at += BATCH) {
    me.n = SLOTS - at < BATCH ? SLOTS - at : BATCH;
    for (size_t i = 0; i < me.n; i++) {
      me.slots[i] = at + (uint32_t)i;
      me.states[i] = atomic_load(&w.done[at + i]);
      me.keys[i] = key_in(me.slots[i], me.states[i]);
    }
    good =
        OK(me.s, emb_peek(me.s, me.keys, me.n, me.vectors, me.found, NULL)) &&
        judge(&me) && ask_for_old(&me);
  }
  return good;
}

static int open_all(void) {
  return help_open(w.dir, &w.config, &w.store, &me.s);
}

static int close_all(void) {
  if (!help_close(w.store, me.s))
    return 0;
  disk_is_bounded("closed");
  samples.reopened++;
  return CHECK_EQ_INT(long_held(), 0) &
         long_at_most(long_files, samples.files, "open files after close") &
         long_at_most(long_threads, samples.threads, "threads after close");
}

static int reopen(void) {
  w.config.io = below(&me, 2) ? EMB_IO_AUTO : EMB_IO_PREAD;
  return close_all() && open_all() && all_are_right(1) && help_verify(me.s);
}

static void live(unsigned epochs, unsigned ms) {
  assign(fill, nothing, nothing);
  int good = work(0) && all_are_right(0);
  assign(writer, reader, keeper);
  for (unsigned i = 0; good && i < epochs; i++) {
    good = work(ms) && all_are_right(0);
    if (good)
      sample((int)(i * 3 / epochs), i % CATCH_UP == CATCH_UP - 1);
    if (good && i < epochs / 3 && i % REOPEN == REOPEN - 1)
      good = reopen();
  }
  if (good && reopen())
    (void)close_all();
}

TEST(long_life) {
  struct span life = long_span(EPOCH_MS_MAX);
  w.config = (emb_config){.dim = DIM,
                          .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED,
                          .memory_bytes = 1,
                          .staleness = BOUND,
                          .timeout_ms = 60000,
                          .io_workers_min = 2,
                          .io_workers_max = 2};
  (void)snprintf(w.dir, sizeof w.dir, "%s", help_path("store"));
  for (int i = 0; i <= THREADS; i++) {
    struct worker *k = i < THREADS ? &workers[i] : &me;
    k->random = test_random();
    k->before = malloc(SLOTS * sizeof *k->before);
    k->came = malloc(SLOTS);
    if (!k->before || !k->came)
      abort();
  }
  /* The C library's memory for each thread grows for minutes. */
  (void)mallopt(M_ARENA_MAX, 1);
  long_keep_books();
  /* A sanitizer has its own thread from the first thread on. */
  if (open_all() && help_close(w.store, me.s)) {
    samples.files = long_files();
    samples.threads = long_threads();
    if (open_all())
      live(life.epochs, life.ms);
  }
  env_set_default(&env_posix);
  long_is_flat("the engine's memory", samples.held_max, HELD_SLACK_BYTES);
  if (!SANITIZED)
    long_is_flat("the process", samples.rss_max, RSS_SLACK_BYTES);
  printf("%u epochs of %u ms; engine %" PRId64 " and %" PRId64
         " KB, process %" PRId64 " and %" PRId64
         " KB, disk %.2f of the live data\n",
         life.epochs, life.ms, samples.held_max[1] >> 10,
         samples.held_max[2] >> 10, samples.rss_max[1] >> 10,
         samples.rss_max[2] >> 10, samples.disk_max);
  printf("%" PRIu64 " keys turned over, %u reopenings\n",
         atomic_load(&w.turned), samples.reopened);
  test_count("calls in a long life", atomic_load(&w.calls));
  for (int i = 0; i <= THREADS; i++) {
    struct worker *k = i < THREADS ? &workers[i] : &me;
    free(k->before);
    free(k->came);
  }
}
