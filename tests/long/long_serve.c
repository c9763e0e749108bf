/* SPDX-License-Identifier: MIT
**
** long_serve.c -- online training for a long time: a table that forgets, and
** two copies of it that deltas keep up to date, with all other operations at
** the same time.
**
** STORES    The source has Adagrad and a time to live, or a capacity as well.
**           The serving copy, without optimizer, takes files of deltas; the
**           slow copy is fed row by row, every third epoch.
** WORK      The source has SLOTS places, a third for each writer.  A place
**           holds a key that is put from time to time, sometimes deleted, and
**           sometimes left alone until it expires; then another key follows.
**           A shipper exports, applies (at times twice, at times an
**           older file once more) and acknowledges; a reader reads both; a
**           keeper takes snapshots, reads them twice, exports them and reads
**           the file, checkpoints and verifies.  Time is that of the data: a
**           second every TICK_MS.
** MUST HOLD At the end of each epoch, when no thread writes: the source has
**           exactly the rows that have not expired, each as last put; with a
**           capacity, no others, and no more than the capacity.  The copies
**           have the same rows.  A reader of the serving copy never sees a
**           place go back.  A snapshot never changes, and its file holds the
**           same rows.  Memory and the number of files stay constant; so does
**           the disk, whenever both copies have acknowledged.
** AMOUNT    See long_help.h.
*/
#include "engine/storage/pack/emb_file.h"
#include "long_help.h"

#include <malloc.h>
#include <pthread.h>

enum {
  DIM = 16,
  WRITERS = 3,
  LANE = 4096, /* places of a writer */
  SLOTS = WRITERS * LANE,
  BATCH = 64,
  TTL = 160,
  TICK_MS = 5,
  CAPACITY = SLOTS / 3,
  REC_BYTES = 16 + DIM * 4 * 2 + 8,
  /* At rest: log and lock of each store, the rings that are kept, and four of
  ** the server's. */
  OPEN_FILES = 3 * 2 + 8 + 4,
  EPOCH_MS_MAX = 2000, /* the log is kept for the slow copy */
  CATCH_UP = 3, /* every third epoch: feed the slow copy, check the disk */
};
/* In addition to twice the data of the three stores: open extents. */
#define DISK_SLACK_BYTES (UINT64_C(12) << 20)
/* A part of an index keeps its largest size ever, which slowly grows with few
** keys in each part; and sometimes a checkpoint is under way. */
#define INDEX_SLACK_BYTES (INT64_C(1) << 20)

struct file_slot {
  uint32_t generation, version; /* of the key; 0: none was put yet */
  uint32_t put_at, rest_until;
  int is_deleted;
};

struct store {
  emb_store *store;
  emb_session *s; /* main's */
  emb_config config;
  char dir[512];
};

static struct {
  struct store source, serving, slow;
  uint32_t capacity;
  struct file_slot places[SLOTS];      /* its writer's; main's between epochs */
  _Atomic uint32_t generations[SLOTS]; /* for the reader; relaxed */
  _Atomic uint32_t now;                /* main sets; relaxed */
  _Atomic uint32_t told; /* the newest time given by a write; relaxed */
  _Atomic int over;      /* main sets; relaxed */
  uint64_t seen[SLOTS];  /* the reader's: newest in the serving copy */
  uint64_t turned, shipped, deletions, snapshots;
} w;

/* ---- rows ---------------------------------------------------------------- */

static int64_t key_of(uint32_t slot, uint32_t generation) {
  return (int64_t)generation * SLOTS + slot;
}

/* The version, and a pattern of it and the key. */
static void make(float *vector, int64_t key, uint32_t version) {
  uint64_t x = (uint64_t)key << 24 ^ version;
  vector[0] = (float)version;
  for (int i = 1; i < DIM; i++)
    vector[i] = (float)(test_random_from(&x) >> 40);
}

/* The version in the key's vector; 0 when it is torn or another key's. */
static uint32_t version_of(const float *vector, int64_t key) {
  float want[DIM];
  if (!(vector[0] >= 1 && vector[0] < (float)(1 << 24)))
    return 0;
  make(want, key, (uint32_t)vector[0]);
  return memcmp(want, vector, sizeof want) == 0 ? (uint32_t)vector[0] : 0;
}

/* Rows in any order: how many, and a sum over all of them. */
struct rows {
  uint64_t n, sum;
};

static int add_rows(struct rows *to, const int64_t *keys, const float *vectors,
                    size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t version = version_of(vectors + i * DIM, keys[i]);
    uint64_t x = (uint64_t)keys[i] << 24 ^ version;
    if (!test_check(version > 0, __FILE__, __LINE__,
                    "key %" PRId64 " has a wrong vector", keys[i]))
      return 0;
    to->sum += test_random_from(&x);
  }
  to->n += n;
  return 1;
}

static int same_rows(struct rows a, struct rows b, const char *what) {
  return test_check(a.n == b.n && a.sum == b.sum, __FILE__, __LINE__,
                    "%s: %" PRIu64 " rows against %" PRIu64 "%s", what, a.n,
                    b.n, a.n == b.n ? ", others" : "");
}

static int all_rows(emb_session *s, struct rows *rows) {
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
  emb_scan *scan;
  size_t n = 1;
  int good = OK(s, emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan));
  *rows = (struct rows){0, 0};
  if (!good)
    return 0;
  while (good && n)
    good = OK(s, emb_scan_next(scan, BATCH, keys, vectors, NULL, &n)) &&
           add_rows(rows, keys, vectors, n);
  emb_scan_close(scan);
  return good;
}

/* ---- the workers --------------------------------------------------------- */

enum { SHIPPER = WRITERS, READER, KEEPER, THREADS };

struct worker {
  pthread_t thread;
  emb_session *s, *serving;
  uint64_t random;
  int number;
};

static struct worker workers[THREADS];

static uint32_t below(struct worker *k, uint64_t n) {
  return (uint32_t)(test_random_from(&k->random) % n);
}

static int going(void) {
  return !atomic_load_explicit(&w.over, memory_order_relaxed) &&
         !atomic_load(&test_state.failures);
}

/* ---- writers ------------------------------------------------------------- */

/* The next content of the place; 0: it is left alone. */
static int next_state(struct worker *k, struct file_slot *p, uint32_t now) {
  if (now < p->rest_until)
    return 0;
  if (p->version == 0 || p->is_deleted || now >= p->put_at + TTL) {
    p->generation++;
    p->version = 0;
    p->is_deleted = 0;
  }
  p->version++;
  p->put_at = now;
  if (below(k, 8) == 0)
    p->rest_until = now + TTL + below(k, TTL);
  return 1;
}

struct batch {
  size_t n;
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
};

static void choose(struct worker *k, struct batch *b, uint32_t now) {
  uint32_t first = below(k, LANE), step = 2 * below(k, LANE / 2) + 1;
  b->n = 0;
  for (uint32_t i = 0; i < BATCH; i++) {
    uint32_t slot = (uint32_t)k->number * LANE + (first + i * step) % LANE;
    struct file_slot *p = &w.places[slot];
    if (!next_state(k, p, now))
      continue;
    b->keys[b->n] = key_of(slot, p->generation);
    make(b->vectors + b->n * DIM, b->keys[b->n], p->version);
    b->n++;
  }
}

static int put(struct worker *k, const struct batch *b) {
  if (below(k, 8))
    return OK(k->s, emb_put(k->s, b->keys, b->n, b->vectors, NULL));
  return OK(k->s, emb_begin(k->s)) &&
         OK(k->s, emb_txn_put(k->s, b->keys, b->n, b->vectors)) &&
         OK(k->s, emb_commit(k->s));
}

/* The last of them. */
static int take_out(struct worker *k, const struct batch *b) {
  size_t n = b->n < 4 ? b->n : 4, from = b->n - n;
  for (size_t i = from; i < b->n; i++)
    w.places[b->keys[i] % SLOTS].is_deleted = 1;
  return OK(k->s, emb_delete(k->s, b->keys + from, n, NULL));
}

static void write_on(struct worker *k) {
  struct batch b;
  int good = 1;
  while (good && going()) {
    uint32_t now = atomic_load_explicit(&w.now, memory_order_relaxed);
    uint32_t told = atomic_load(&w.told);
    emb_session_time(k->s, now);
    choose(k, &b, now);
    while (b.n && told < now &&
           !atomic_compare_exchange_weak(&w.told, &told, now))
      continue;
    good = b.n == 0 || put(k, &b);
    for (size_t i = 0; i < b.n; i++)
      atomic_store_explicit(&w.generations[b.keys[i] % SLOTS],
                            (uint32_t)(b.keys[i] / SLOTS),
                            memory_order_relaxed);
    if (good && b.n && below(k, 16) == 0)
      good = take_out(k, &b);
  }
}

/* ---- the shipper --------------------------------------------------------- */

static int ship(emb_session *from, emb_session *to, struct worker *k) {
  const char *path = w.serving.dir;
  char file[600];
  emb_delta_file about, again;
  (void)snprintf(file, sizeof file, "%s-delta", path);
  if (!OK(from, emb_delta_export(from, "serving", file, NULL, &about)) ||
      !OK(to, emb_delta_apply(to, file, NULL, &again)))
    return 0;
  w.shipped++;
  w.deletions += (uint64_t)about.deletions;
  if (k && below(k, 4) == 0 &&
      (!OK(to, emb_delta_apply(to, file, NULL, &again)) ||
       !CHECK(!again.applied)))
    return 0;
  /* Otherwise it was lost on the way, and the next file holds more. */
  return (k && below(k, 4) == 0) ||
         OK(from, emb_delta_ack(from, "serving", about.to));
}

static void ship_on(struct worker *k) {
  while (going() && ship(k->s, k->serving, k))
    continue;
}

/* ---- the reader ---------------------------------------------------------- */

static int read_both(struct worker *k) {
  uint32_t slots[BATCH], first = below(k, SLOTS);
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
  uint8_t found[BATCH];
  for (uint32_t i = 0; i < BATCH; i++) {
    slots[i] = (first + i * 31) % SLOTS;
    keys[i] = key_of(slots[i], atomic_load_explicit(&w.generations[slots[i]],
                                                    memory_order_relaxed));
  }
  if (!OK(k->s, emb_get(k->s, keys, BATCH, vectors, found, NULL)))
    return 0;
  for (int i = 0; i < BATCH; i++)
    if (found[i] && !CHECK(version_of(vectors + i * DIM, keys[i])))
      return 0;
  if (!OK(k->serving, emb_get(k->serving, keys, BATCH, vectors, found, NULL)))
    return 0;
  for (int i = 0; i < BATCH; i++) {
    uint64_t version = found[i] ? version_of(vectors + i * DIM, keys[i]) : 1;
    uint64_t state = (uint64_t)(keys[i] / SLOTS) << 32 | version;
    if (!CHECK(version > 0) || (found[i] && !CHECK(state >= w.seen[slots[i]])))
      return 0;
    w.seen[slots[i]] = found[i] ? state : w.seen[slots[i]];
  }
  return 1;
}

static void read_on(struct worker *k) {
  while (going() && read_both(k))
    continue;
}

/* ---- the keeper ---------------------------------------------------------- */

static int read_snapshot(emb_snap *snap, emb_session *s, struct rows *rows) {
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
  size_t n = 1;
  int good = 1;
  *rows = (struct rows){0, 0};
  while (good && n)
    good = OK(s, emb_snapshot_scan(snap, BATCH, keys, vectors, NULL, &n)) &&
           add_rows(rows, keys, vectors, n);
  return good;
}

static int read_file(const char *path, struct rows *rows) {
  float vector[DIM];
  emb_file_row row;
  emb_file *file;
  emb_err err;
  int found = 1, good = OK(NULL, emb_file_open(path, &file, &err));
  *rows = (struct rows){0, 0};
  while (good && found)
    good = OK(NULL, emb_file_next(file, &row, vector, &found, &err)) &&
           (!found || add_rows(rows, &row.key, vector, 1));
  emb_file_close(file);
  return good;
}

static int keep_snapshot(struct worker *k) {
  char path[600];
  struct rows first, then, filed;
  emb_snap *snap;
  (void)snprintf(path, sizeof path, "%s-snapshot", w.source.dir);
  int good = OK(k->s, emb_snapshot(k->s, "s")) &&
             OK(k->s, emb_snapshot_open(k->s, "s", &snap));
  if (!good)
    return 0;
  good = read_snapshot(snap, k->s, &first) &&
         OK(k->s, emb_snapshot_export(k->s, "s", path, NULL, NULL, NULL)) &&
         read_file(path, &filed) && same_rows(filed, first, "its file");
  emb_snapshot_rewind(snap);
  good = good && read_snapshot(snap, k->s, &then) &&
         same_rows(then, first, "a snapshot, read again") &&
         CHECK_EQ_INT(emb_snapshot_count(snap), (int64_t)first.n);
  emb_snapshot_close(snap);
  w.snapshots++;
  return OK(k->s, emb_snapshot_drop(k->s, "s")) && good;
}

static void keep_on(struct worker *k) {
  int good = 1;
  while (good && going()) {
    switch (below(k, 6)) {
    case 0:
      good = OK(k->s, emb_checkpoint(k->s));
      break;
    case 1:
      good = OK(k->s, emb_expire(k->s, NULL));
      break;
    case 2:
      good = OK(k->s, emb_evict(k->s, NULL));
      break;
    case 3:
      good = help_verify(k->s);
      break;
    default:
      good = keep_snapshot(k);
    }
  }
}

/* ---- epochs -------------------------------------------------------------- */

static void *start(void *arg) {
  static void (*const works[THREADS])(struct worker *) = {
      write_on, write_on, write_on, ship_on, read_on, keep_on};
  struct worker *k = arg;
  works[k->number](k);
  return NULL;
}

static void work(unsigned ms) {
  emb_err err;
  atomic_store(&w.over, 0);
  (void)alarm(ms / 1000 + HANG_SECONDS); /* kills */
  for (int i = 0; i < THREADS; i++)
    if (emb_session_open(w.source.store, &workers[i].s, &err) ||
        emb_session_open(w.serving.store, &workers[i].serving, &err) ||
        pthread_create(&workers[i].thread, NULL, start, &workers[i]))
      abort();
  for (unsigned t = 0; t < ms && !atomic_load(&test_state.failures);
       t += TICK_MS) {
    pause_ms(TICK_MS);
    atomic_fetch_add(&w.now, 1);
  }
  atomic_store(&w.over, 1);
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(workers[i].thread, NULL);
    emb_session_close(workers[i].s);
    emb_session_close(workers[i].serving);
  }
  (void)alarm(0);
}

/* Does the table have the place's key?  It expires by the newest time given
** by a write. */
static int is_there(const struct file_slot *p) {
  return p->version > 0 && !p->is_deleted && p->put_at + TTL > w.told;
}

/* Compares the source with the rows put; *rows: all of its rows. */
static int source_is_right(struct rows *rows) {
  emb_session *s = w.source.s;
  struct rows want = {0, 0};
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
  uint8_t found[BATCH];
  if (!OK(s, emb_expire(s, NULL)) || !OK(s, emb_evict(s, NULL)) ||
      !help_settle(w.source.store) || !all_rows(s, rows) ||
      !CHECK_EQ_INT(emb_count(s), (int64_t)rows->n))
    return 0;
  for (uint32_t at = 0; at < SLOTS; at += BATCH) {
    for (uint32_t i = 0; i < BATCH; i++)
      keys[i] = key_of(at + i, w.places[at + i].generation);
    if (!OK(s, emb_peek(s, keys, BATCH, vectors, found, NULL)))
      return 0;
    for (uint32_t i = 0; i < BATCH; i++) {
      const struct file_slot *p = &w.places[at + i];
      float vector[DIM];
      int there = is_there(p) && (found[i] || !w.capacity);
      if (!test_check(found[i] == there &&
                          (!there || version_of(vectors + i * DIM, keys[i]) ==
                                         p->version),
                      __FILE__, __LINE__, "key %" PRId64 " is %s", keys[i],
                      found[i] ? there ? "an old one" : "back" : "lost"))
        return 0;
      if (there) {
        make(vector, keys[i], p->version);
        (void)add_rows(&want, &keys[i], vector, 1);
      }
    }
  }
  return same_rows(*rows, want, "the source against what was put") &&
         (!w.capacity || CHECK(rows->n <= w.capacity));
}

/* Feeds the copy row by row; a delta from the beginning is the whole table. */
static int feed_slow(void) {
  emb_session *s = w.source.s, *to = w.slow.s;
  int64_t keys[BATCH];
  uint8_t ops[BATCH];
  float vectors[BATCH * DIM];
  emb_delta *delta;
  size_t n = 1;
  int good = OK(s, emb_delta_open(s, "slow", &delta));
  if (!good)
    return 0;
  while (good && n) {
    good = OK(s, emb_delta_next(
                     delta, BATCH,
                     &(emb_rows){.keys = keys, .ops = ops, .vectors = vectors},
                     &n));
    for (size_t i = 0; good && i < n; i++)
      good = ops[i] == EMB_DELTA_PUT
                 ? OK(to, emb_put(to, &keys[i], 1, vectors + i * DIM, NULL))
                 : OK(to, emb_delete(to, &keys[i], 1, NULL));
  }
  emb_delta_close(delta);
  return good && OK(s, emb_delta_ack(s, "slow", 0));
}

static int copies_are_right(struct rows want, int slow) {
  struct rows rows;
  if (!ship(w.source.s, w.serving.s, NULL) || !all_rows(w.serving.s, &rows) ||
      !same_rows(rows, want, "the serving copy"))
    return 0;
  return !slow ||
         (feed_slow() && all_rows(w.slow.s, &rows) &&
          same_rows(rows, want, "the slow copy") && help_verify(w.source.s) &&
          help_verify(w.serving.s) && help_verify(w.slow.s));
}

static struct {
  int files;                       /* with all stores closed */
  int64_t held_max[3], rss_max[3]; /* of each third */
  uint64_t disk_max;
} samples;

static void keep_max(int64_t *max, int64_t value) {
  *max = value > *max ? value : *max;
}

static uint64_t disk_bytes(void) {
  return help_disk_bytes(w.source.dir) + help_disk_bytes(w.serving.dir) +
         help_disk_bytes(w.slow.dir);
}

/* Called when no thread works. */
static void sample(unsigned third, int all_acked) {
  keep_max(&samples.held_max[third], long_held_by(w.source.store));
  keep_max(&samples.rss_max[third], help_rss());
  long_at_most(long_files, samples.files + OPEN_FILES, "open files");
  if (getenv("VERBOSE"))
    printf("third %u: engine %" PRId64 " KB, process %" PRId64
           " KB, disk %" PRIu64 " KB, %d files\n",
           third, long_held_by(w.source.store) >> 10, help_rss() >> 10,
           disk_bytes() >> 10, long_files());
  if (!all_acked)
    return;
  OK(w.source.s, emb_optimize(w.source.s));
  OK(w.serving.s, emb_optimize(w.serving.s));
  OK(w.slow.s, emb_optimize(w.slow.s));
  uint64_t live = UINT64_C(3) * SLOTS * REC_BYTES, bytes = disk_bytes();
  samples.disk_max = bytes > samples.disk_max ? bytes : samples.disk_max;
  (void)test_check(bytes <= 2 * live + DISK_SLACK_BYTES, __FILE__, __LINE__,
                   "%" PRIu64 " KB on disk, at most %" PRIu64 " KB live",
                   bytes >> 10, live >> 10);
}

static int open_one(struct store *t) {
  return help_open(t->dir, &t->config, &t->store, &t->s);
}
static int open_all(void) {
  return open_one(&w.source) && open_one(&w.serving) && open_one(&w.slow);
}
static int close_all(void) {
  return help_close(w.source.store, w.source.s) &
         help_close(w.serving.store, w.serving.s) &
         help_close(w.slow.store, w.slow.s) & CHECK_EQ_INT(long_held(), 0);
}

static void live(struct span span) {
  struct rows rows;
  samples.files = long_files();
  int good = open_all();
  for (unsigned i = 0; good && i < span.epochs; i++) {
    int slow = i % CATCH_UP == CATCH_UP - 1;
    work(span.ms);
    good = !atomic_load(&test_state.failures) && source_is_right(&rows) &&
           copies_are_right(rows, slow);
    if (good)
      sample(i * 3 / span.epochs, slow);
    if (good && i < span.epochs / 3)
      good = close_all() && open_all() && source_is_right(&rows);
  }
  (void)close_all();
}

static void set(struct store *t, const char *name, emb_config config) {
  config.dim = DIM;
  config.flags = EMB_OPEN_CREATE;
  config.memory_bytes = 1;
  config.timeout_ms = 60000;
  t->config = config;
  (void)snprintf(t->dir, sizeof t->dir, "%s", help_path(name));
}

static void run(uint32_t capacity) {
  struct span life = long_span(EPOCH_MS_MAX);
  memset(&w, 0, sizeof w);
  memset(&samples, 0, sizeof samples);
  memset(workers, 0, sizeof workers);
  w.capacity = capacity;
  atomic_store(&w.now, 1000);
  set(&w.source, "source",
      (emb_config){.optimizer = "adagrad",
                   .track = EMB_TRACK_DATA,
                   .ttl = "160s",
                   .capacity = capacity});
  set(&w.serving, "serving", (emb_config){0});
  set(&w.slow, "slow", (emb_config){0});
  for (int i = 0; i < THREADS; i++) {
    workers[i].number = i;
    workers[i].random = test_random();
  }
  (void)mallopt(M_ARENA_MAX, 1);
  long_keep_books();
  live(life);
  env_set_default(&env_posix);
  long_is_flat("the engine's memory", samples.held_max,
               HELD_SLACK_BYTES + INDEX_SLACK_BYTES);
  /* The C library's memory for six threads grows in the first minute. */
  if (!SANITIZED && life.epochs * life.ms >= 120000)
    long_is_flat("the process", samples.rss_max, 3 * RSS_SLACK_BYTES);
  for (uint32_t i = 0; i < SLOTS; i++)
    w.turned += w.places[i].generation;
  printf("%u epochs of %u ms; engine %" PRId64 " and %" PRId64
         " KB, process %" PRId64 " and %" PRId64 " KB, disk %" PRIu64 " KB\n",
         life.epochs, life.ms, samples.held_max[1] >> 10,
         samples.held_max[2] >> 10, samples.rss_max[1] >> 10,
         samples.rss_max[2] >> 10, samples.disk_max >> 10);
  printf("%" PRIu64 " keys came, %" PRIu64 " deletions and %" PRIu64
         " snapshots were read\n",
         w.turned, w.deletions, w.snapshots);
  CHECK(w.turned > 0 && w.deletions > 0);
  /* A slow machine may not get that far in seconds. */
  if (life.epochs * life.ms >= 60000)
    CHECK(w.turned > SLOTS && w.snapshots > 0);
  test_count("deltas in a long life", w.shipped);
}

TEST(time_to_live) { run(0); }
TEST(capacity) { run(CAPACITY); }
