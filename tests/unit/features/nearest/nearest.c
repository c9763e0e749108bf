/* SPDX-License-Identifier: MIT
**
** nearest.c -- emb_nearest against an independent search of all rows: in memory
** and on disk, within transactions, with every condition, and with concurrent
** writers.
*/
#include "nearest_help.h"

#include "engine/storage/rec/layout.h"

#include <math.h>
#include <pthread.h>

enum { KEYS = 4000, DIM = 24, PARTS = 3, QUERIES = 40, K_MAX = 60 };

/* The rows: three vectors of 7, 12 and 5 elements, the second as float16. */
static const uint32_t dims[PARTS] = {7, 12, 5}, firsts[PARTS] = {0, 7, 19};

struct model {
  int there;
  float vector[DIM];
};
static struct model rows[KEYS], before[KEYS];

static emb_config config_of(const char *metric, uint64_t memory) {
  static emb_segment segments[PARTS];
  for (int i = 0; i < PARTS; i++)
    segments[i] = (emb_segment){
        .dim = dims[i], .type = i == 1 ? EMB_F16 : EMB_F32, .metric = metric};
  segments[2].optimizer = "sgd(lr=0.5)";
  return (emb_config){.flags = EMB_OPEN_CREATE,
                      .memory_bytes = memory,
                      .segments = segments,
                      .segment_count = PARTS};
}

/* Of 16 vectors this many have equal elements, one of three values. */
static uint64_t alike = 1;

/* Quarters up to 8: exact in float16, and often equal. */
static void random_vector(float *to, uint32_t dim) {
  for (uint32_t i = 0; i < dim; i++)
    to[i] = (float)((int)(test_random() % 65) - 32) / 4;
  if (test_random() % 16 < alike) {
    float same = (float)(test_random() % 3) / 4;
    for (uint32_t i = 0; i < dim; i++)
      to[i] = same;
  }
}

/* ---- the oracle ---------------------------------------------------------- */

struct want {
  long double distance;
  int64_t key;
};

static int compare_want(const void *a, const void *b) {
  const struct want *x = a, *y = b;
  if (x->distance != y->distance)
    return x->distance < y->distance ? -1 : 1;
  return x->key < y->key ? -1 : x->key > y->key;
}

/* Returns 0 if there is no distance. */
static int want_distance(int metric, const float *a, const float *b,
                         uint32_t dim, long double *to) {
  long double ab = 0, aa = 0, bb = 0, dd = 0;
  for (uint32_t i = 0; i < dim; i++) {
    long double x = a[i], y = b[i];
    ab += x * y;
    aa += x * x;
    bb += y * y;
    dd += (x - y) * (x - y);
  }
  if (metric == EMB_COSINE && (aa == 0 || bb == 0))
    return 0;
  *to = metric == EMB_L2    ? sqrtl(dd)
        : metric == EMB_DOT ? -ab
                            : 1 - ab / sqrtl(aa * bb);
  return 1;
}

static size_t want_all(const struct model *model, int metric,
                       const emb_nearest_how *how, size_t query,
                       const float *vector, struct want *want) {
  size_t n = 0;
  uint32_t dim = dims[how->segment];
  for (int64_t key = 0; key < KEYS; key++) {
    long double d;
    if (!model[key].there ||
        !want_distance(metric, vector, model[key].vector + firsts[how->segment],
                       dim, &d) ||
        (how->flags & EMB_NEAREST_RANGE && (key < how->lo || key > how->hi)) ||
        !help_wanted(how, key) ||
        (how->flags & EMB_NEAREST_WITHIN &&
         (d < how->least || d > how->most)) ||
        (how->apart && how->apart[query] == key))
      continue;
    want[n++] = (struct want){d, key};
  }
  qsort(want, n, sizeof *want, compare_want);
  return n;
}

/* Distances that are equal except for rounding may come in another order. */
static void check_answer(const struct want *want, size_t wanted, size_t k,
                         const int64_t *keys, const double *distances,
                         size_t count) {
  size_t expected = wanted < k ? wanted : k;
  if (!CHECK_EQ_INT(count, expected))
    return;
  for (size_t i = 0; i < count; i++) {
    CHECK(fabsl(want[i].distance - distances[i]) < 1e-9L);
    size_t found = 0;
    for (size_t j = 0; j < wanted; j++)
      found += want[j].key == keys[i] &&
               fabsl(want[j].distance - distances[i]) < 1e-9L;
    CHECK_EQ_INT(found, 1);
    for (size_t j = 0; j < i; j++)
      CHECK(keys[j] != keys[i]);
    CHECK(i == 0 || distances[i - 1] <= distances[i]);
  }
}

/* Of equal rows the answer has those with the lower keys, in order.  The answer
** must already have been checked. */
static void check_equal_rows(const struct model *model, uint32_t part,
                             const struct want *want, size_t wanted,
                             const int64_t *keys, size_t count) {
  size_t bytes = dims[part] * sizeof(float), at = firsts[part];
  for (size_t i = 0; i < count; i++) {
    const float *vector = model[keys[i]].vector + at;
    size_t lower = 0, earlier = 0;
    for (size_t j = 0; j < wanted; j++)
      lower += want[j].key < keys[i] &&
               memcmp(model[want[j].key].vector + at, vector, bytes) == 0;
    for (size_t j = 0; j < i; j++)
      earlier += keys[j] < keys[i] &&
                 memcmp(model[keys[j]].vector + at, vector, bytes) == 0;
    CHECK_EQ_INT(earlier, lower);
  }
}

/* ---- one random question ------------------------------------------------- */

static void random_how(emb_nearest_how *how, int64_t *list, int64_t *apart,
                       size_t n) {
  *how = (emb_nearest_how){.segment = (uint32_t)(test_random() % PARTS),
                           .threads = (uint32_t)(test_random() % 4)};
  if (test_random() % 3 == 0) {
    how->flags |= EMB_NEAREST_RANGE;
    how->lo = (int64_t)(test_random() % KEYS);
    how->hi = how->lo + (int64_t)(test_random() % KEYS) - 10;
  }
  if (test_random() % 3 == 0) {
    size_t step = 1 + test_random() % 40, at = 0;
    for (int64_t key = (int64_t)(test_random() % 50); key < KEYS + 5;
         key += 1 + (int64_t)(test_random() % step))
      list[at++] = key;
    qsort(list, at, sizeof *list, help_compare_keys);
    how->flags |= EMB_NEAREST_KEYS;
    how->keys = list;
    how->key_count = at;
  }
  if (test_random() % 3 == 0) { /* no bound where rounding matters */
    how->flags |= EMB_NEAREST_WITHIN;
    how->least = (double)(test_random() % 8) - 4.0000127;
    how->most = how->least + (double)(test_random() % 20);
  }
  if (test_random() % 3 == 0) {
    for (size_t i = 0; i < n; i++)
      apart[i] = (int64_t)(test_random() % KEYS);
    how->apart = apart;
  }
}

static void ask(emb_session *s, emb_snap *snap, const struct model *model,
                int metric) {
  static struct want want[KEYS];
  static float queries[QUERIES * DIM];
  static int64_t list[KEYS + 5], apart[QUERIES], keys[QUERIES * K_MAX];
  static double distances[QUERIES * K_MAX];
  static float vectors[QUERIES * K_MAX * DIM];
  static uint64_t versions[QUERIES * K_MAX];
  size_t counts[QUERIES], k = 1 + test_random() % K_MAX;
  size_t n =
      test_random() % 2 ? 1 + test_random() % 3 : 1 + test_random() % QUERIES;
  emb_nearest_how how;
  random_how(&how, list, apart, n);
  emb_filter *filter = test_random() % 3 ? NULL : help_filter(s, KEYS);
  how.filter = filter;
  uint32_t dim = dims[how.segment];
  for (size_t i = 0; i < n; i++)
    do
      random_vector(queries + i * dim, dim);
    while (metric == EMB_COSINE &&
           !emb_distance(metric, queries + i * dim, queries + i * dim, dim,
                         distances));
  const emb_neighbours to = {keys, distances, counts,
                             test_random() % 2 ? vectors : NULL,
                             test_random() % 2 ? versions : NULL};
  if (snap ? !OK(s, emb_snapshot_nearest(snap, queries, n, k, &how, &to))
           : !OK(s, emb_nearest(s, queries, n, k, &how, &to)))
    return;
  for (size_t i = 0; i < n; i++) {
    size_t wanted = want_all(model, metric, &how, i, queries + i * dim, want);
    check_answer(want, wanted, k, keys + i * k, distances + i * k, counts[i]);
    if (atomic_load(&test_state.failures) == 0)
      check_equal_rows(model, how.segment, want, wanted, keys + i * k,
                       counts[i]);
  }
  help_same_rows(s, snap, &to, n, k);
  emb_filter_free(filter);
}

/* ---- random writes ------------------------------------------------------- */

static void write_some(emb_session *s) {
  enum { MOST = 300 };
  static float vectors[MOST * DIM];
  int64_t keys[MOST];
  size_t n = 1 + test_random() % MOST;
  int is_delete = test_random() % 4 == 0;
  for (size_t i = 0; i < n; i++) {
    int64_t key = keys[i] = (int64_t)(test_random() % KEYS);
    random_vector(vectors + i * DIM, DIM);
    rows[key].there = !is_delete;
    memcpy(rows[key].vector, vectors + i * DIM, sizeof rows[key].vector);
  }
  if (emb_in_transaction(s))
    OK(s, is_delete ? emb_txn_delete(s, keys, n, NULL)
                    : emb_txn_put(s, keys, n, vectors));
  else
    OK(s, is_delete ? emb_delete(s, keys, n, NULL)
                    : emb_put(s, keys, n, vectors, NULL));
}

/* Checks what the session sees and what others see. */
static void transaction(emb_session *s, emb_session *other, int metric) {
  memcpy(before, rows, sizeof rows);
  if (!OK(s, emb_begin(s)))
    return;
  write_some(s);
  ask(s, NULL, rows, metric);
  OK(s, emb_savepoint(s, 1));
  static struct model saved[KEYS];
  memcpy(saved, rows, sizeof rows);
  write_some(s);
  ask(s, NULL, rows, metric);
  ask(other, NULL, before, metric);
  if (test_random() % 2) {
    OK(s, emb_rollback_to(s, 1));
    memcpy(rows, saved, sizeof rows);
    ask(s, NULL, rows, metric);
  }
  if (test_random() % 2) {
    OK(s, emb_commit(s));
  } else {
    emb_rollback(s);
    memcpy(rows, before, sizeof rows);
  }
}

static void random_run(const char *name, int metric, uint64_t memory) {
  emb_store *store;
  emb_session *s, *other;
  emb_config config = config_of(name, memory);
  memset(rows, 0, sizeof rows);
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !OK(s, emb_session_open(store, &other, NULL)))
    return;
  CHECK_EQ_INT(emb_metric(store, 1), metric);
  ask(s, NULL, rows, metric); /* an empty table */
  for (unsigned i = 0; i < help_amount(THREAD_SANITIZED ? 8 : 30); i++) {
    alike = test_random() % 3 ? 1 : 16;
    for (uint64_t j = test_random() % 12; j; j--)
      write_some(s);
    if (test_random() % 4 == 0)
      OK(s, emb_checkpoint(s));
    ask(s, NULL, rows, metric);
    ask(other, NULL, rows, metric);
    if (test_random() % 3 == 0)
      transaction(s, other, metric);
    if (test_random() % 8 == 0) {
      emb_snap *snap;
      static struct model then[KEYS];
      memcpy(then, rows, sizeof rows);
      OK(s, emb_snapshot(s, "x"));
      write_some(s);
      if (OK(s, emb_snapshot_open(s, "x", &snap))) {
        ask(s, snap, then, metric);
        ask(s, NULL, rows, metric);
        ask(s, snap, then, metric);
        emb_snapshot_close(snap);
      }
      OK(s, emb_snapshot_drop(s, "x"));
    }
  }
  emb_session_close(other);
  help_close(store, s);
}

TEST(l2) { random_run("l2", EMB_L2, 0); }
TEST(cosine) { random_run("cosine", EMB_COSINE, 0); }
TEST(dot) { random_run("dot", EMB_DOT, 0); }
TEST(rows_on_disk) { random_run("l2", EMB_L2, 1); }
TEST(rows_on_disk_cosine) { random_run("cosine", EMB_COSINE, 1); }

TEST(metric_is_kept) {
  emb_store *store;
  emb_session *s;
  emb_config config = config_of("dot", 0);
  if (!help_open(help_path("s"), &config, &store, &s) || !help_close(store, s))
    return;
  config = (emb_config){0};
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  CHECK_EQ_INT(emb_metric(store, 2), EMB_DOT);
  help_close(store, s);
  config.metric = "cosine";
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  CHECK_EQ_INT(emb_metric(store, 0), EMB_COSINE);
  help_close(store, s);
}

TEST(bad_questions) {
  emb_store *store;
  emb_session *s;
  float query[DIM] = {1, 2, 3}, zeros[DIM] = {0};
  int64_t keys[8], twice[] = {1, 1};
  double distances[8];
  size_t counts[2];
  emb_config config = config_of("cosine", 0);
  if (!help_open(help_path("s"), &config, &store, &s))
    return;
  emb_nearest_how how = {.segment = PARTS};
#define ASK(query_, n_, k_, how_)                                              \
  emb_nearest(s, query_, n_, k_, how_,                                         \
              &(emb_neighbours){keys, distances, counts, NULL, NULL})
  GIVES(s, EMB_RANGE, ASK(query, 1, 1, &how));
  GIVES(s, EMB_RANGE, ASK(query, 1, 0, NULL));
  GIVES(s, EMB_RANGE, ASK(query, 1, EMB_NEAREST_MAX + 1, NULL));
  GIVES(s, EMB_RANGE, ASK(query, 1000, EMB_NEAREST_MAX, NULL));
  GIVES(s, EMB_RANGE, ASK(zeros, 1, 1, NULL));
  how = (emb_nearest_how){
      .flags = EMB_NEAREST_KEYS, .keys = twice, .key_count = 2};
  GIVES(s, EMB_RANGE, ASK(query, 1, 1, &how));
  query[6] = NAN;
  GIVES(s, EMB_NONFINITE, ASK(query, 1, 1, NULL));
  CHECK(strstr(emb_errmsg(s), "query 0: element 6") != NULL);
  OK(s, ASK(query, 0, 1, NULL));
  help_close(store, s);
  config = config_of("manhattan", 0);
  emb_err err;
  CHECK_EQ_INT(emb_open(help_path("t"), &config, &store, &err), EMB_RANGE);
  CHECK(strstr(err.text, "unknown metric: manhattan") != NULL);
}

/* ---- with concurrent writers --------------------------------------------- */

enum { STILL = 2000, MOVING = 300, WIDE = 16 };

struct mover {
  emb_store *store;
  int equal; /* are most rows equal? */
  _Atomic int stop;
};

/* Keeps putting rows, always near the origin, in place and elsewhere. */
static void *move_rows(void *arg) {
  struct mover *m = arg;
  emb_session *s;
  uint64_t random = 1;
  if (!CHECK_EQ_INT(emb_session_open(m->store, &s, NULL), EMB_OK))
    return NULL;
  for (unsigned round = 0; !atomic_load(&m->stop); round++) {
    float vector[WIDE];
    random = random * 6364136223846793005u + 1442695040888963407u;
    int64_t key = (int64_t)(random >> 33) % MOVING;
    for (int i = 0; i < WIDE; i++)
      vector[i] = m->equal ? (float)((random >> 20 & 15) == 0) / 100
                           : (float)(random >> (i + 20) & 7) / 100;
    OK(s, emb_put(s, &key, 1, vector, NULL));
    if (round % 512 == 0)
      OK(s, emb_checkpoint(s));
  }
  emb_session_close(s);
  return NULL;
}

/* Each moving row is one of the nearest at any moment, so the answer has each
** exactly once; the other rows never change. */
static void search_beside_writers(int equal) {
  emb_config config = {
      .flags = EMB_OPEN_CREATE, .dim = WIDE, .memory_bytes = 1};
  emb_store *store;
  emb_session *s;
  static float vectors[(STILL + MOVING) * WIDE];
  static int64_t keys[STILL + MOVING], got[8 * (MOVING + 20)];
  static double distances[8 * (MOVING + 20)];
  static float found[8 * (MOVING + 20) * WIDE];
  static uint64_t versions[8 * (MOVING + 20)];
  size_t counts[8];
  const emb_neighbours to = {got, distances, counts, found, versions};
  for (int i = 0; i < STILL + MOVING; i++) {
    keys[i] = i;
    for (int j = 0; j < WIDE; j++)
      vectors[i * WIDE + j] = i < MOVING ? 0 : (float)(10 + i);
  }
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !OK(s, emb_put(s, keys, STILL + MOVING, vectors, NULL)))
    return;
  struct mover mover = {.store = store, .equal = equal};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, move_rows, &mover);
  for (unsigned round = 0; round < help_amount(THREAD_SANITIZED ? 30 : 300);
       round++) {
    static float queries[8 * WIDE]; /* zeros */
    size_t n = round % 2 ? 8 : 1, k = MOVING + 20;
    emb_nearest_how how = {.threads = 1 + round % 3};
    if (!OK(s, emb_nearest(s, queries, n, k, &how, &to)))
      break;
    for (size_t query = 0; query < n; query++) {
      uint8_t seen[STILL + MOVING] = {0};
      CHECK_EQ_INT(counts[query], k);
      for (size_t i = 0; i < counts[query]; i++) {
        int64_t key = got[query * k + i];
        CHECK_EQ_INT(seen[key], 0);
        seen[key] = 1;
        CHECK(i >= MOVING ? key == (int64_t)i : key < MOVING);
      }
    }
    help_whole_rows(s, queries, &to, EMB_L2, WIDE);
  }
  atomic_store(&mover.stop, 1);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  help_close(store, s);
}

TEST(beside_writers) { search_beside_writers(0); }
TEST(beside_writers_of_equal_rows) { search_beside_writers(1); }

/* A search of many neighbours first compares two rows of each page, which limit
** the distance (limit.c).  Here these two are near and all others are far: the
** rows of page p from slot 7 p on.  `page` is the number of the first page. */
static int is_near(int64_t key, uint32_t slots, uint32_t page) {
  uint64_t at = ((uint64_t)key / slots + page) * 7 % (slots - 1);
  return (uint64_t)key % slots - at <= 1;
}

static void search_after_sample(uint32_t page) {
  enum { ALL = 1500, MANY = 300, ONE_DIM = 60 };
  emb_config config = {.flags = EMB_OPEN_CREATE, .dim = ONE_DIM};
  static float vectors[ALL * ONE_DIM], query[ONE_DIM];
  static int64_t keys[ALL], got[MANY];
  static double distances[MANY];
  emb_store *store;
  emb_session *s;
  size_t count = 0, near = 0, got_near = 0;
  char name[32];
  snprintf(name, sizeof name, "s%u", page);
  if (!help_open(help_path(name), &config, &store, &s))
    return;
  int64_t record = help_stat(store, "record_bytes");
  uint32_t slots =
      (uint32_t)((help_stat(store, "page_bytes") - PAGE_HEAD_BYTES) / record);
  for (int i = 0; i < ALL; i++) {
    int is = is_near(i, slots, page);
    near += (size_t)is;
    keys[i] = i;
    vectors[i * ONE_DIM] = (float)(is ? i : 10000 + i);
  }
  CHECK(near < MANY);
  OK(s, emb_put(s, keys, ALL, vectors, NULL));
  OK(s, emb_nearest(s, query, 1, MANY, NULL,
                    &(emb_neighbours){got, distances, &count, NULL, NULL}));
  CHECK_EQ_INT(count, MANY);
  for (size_t i = 0; i < count; i++)
    got_near += distances[i] < 10000;
  CHECK_EQ_INT(got_near, near);
  help_close(store, s);
}

TEST(a_sample_of_near_rows_leaves_out_no_others) {
  for (uint32_t page = 0; page < 14; page++)
    search_after_sample(page);
}

TEST(interrupt) {
  if (getenv("SERVED"))
    SKIP("a client looks only while it waits");
  emb_config config = {.flags = EMB_OPEN_CREATE, .dim = WIDE};
  emb_store *store;
  emb_session *s;
  static float vectors[STILL * WIDE];
  static int64_t keys[STILL];
  double distance;
  size_t count;
  for (int i = 0; i < STILL; i++)
    keys[i] = i;
  if (!help_open(help_path("s"), &config, &store, &s) ||
      !OK(s, emb_put(s, keys, STILL, vectors, NULL)))
    return;
  emb_session_interrupt(s, help_interrupt, NULL);
  GIVES(s, EMB_INTERRUPT,
        emb_nearest(s, vectors, 1, 1, NULL,
                    &(emb_neighbours){keys, &distance, &count, NULL, NULL}));
  emb_session_interrupt(s, NULL, NULL);
  OK(s, emb_nearest(s, vectors, 1, 1, NULL,
                    &(emb_neighbours){keys, &distance, &count, NULL, NULL}));
  help_close(store, s);
}
