/* SPDX-License-Identifier: MIT
**
** bank_threads.c -- threads that send gradients for the same keys, read them,
** and make calls that apply all pending gradients, while the background
** applies old ones.
**
** All gradients are 1 and the optimizer is sgd(lr=1), so a step takes 1 off a
** row, whatever it is the average of.  A row counts each gradient (track).
**
** SEEN      A thread reads v, sends a gradient, and reads again: its gradient
**           is in a step that v cannot contain, so it reads v - 1 or less.  A
**           read is emb_get or emb_lookup, which counts the row, and creates
**           it the first time.
** LOST      At the end a row's frequency is the number of acknowledged
**           gradients, including those of committed transactions, and of
**           look-ups.
*/
#include "store_help.h"

#include <pthread.h>

enum { DIM = 8, KEYS = 24, THREADS = 6, BATCH = 6 };

static emb_store *store;
static _Atomic uint64_t sent[KEYS];

struct worker {
  uint64_t random;
  int n;
};

static int64_t some_key(struct worker *w) {
  return (int64_t)(test_random_from(&w->random) % KEYS);
}

static const float *ones(void) {
  static const float row[BATCH * DIM] = {
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  return row;
}

static void count(const int64_t *keys, size_t n) {
  for (size_t i = 0; i < n; i++)
    atomic_fetch_add(&sent[keys[i]], 1);
}

static float read_key(emb_session *s, int64_t key) {
  float row[DIM];
  OK(s, emb_get(s, &key, 1, row, NULL, NULL));
  for (int k = 1; k < DIM; k++)
    CHECK(row[k] <= row[0] && row[k] >= row[0]);
  return row[0];
}

static float look_up_key(emb_session *s, int64_t key) {
  float row[DIM];
  uint8_t found = 0;
  OK(s, emb_lookup(s, &key, 1, row, &found));
  count(&key, 1);
  CHECK(found);
  for (int k = 1; k < DIM; k++)
    CHECK(row[k] <= row[0] && row[k] >= row[0]);
  return row[0];
}

/* With repeated keys, which count each time. */
static void look_up_batch(emb_session *s, struct worker *w) {
  int64_t keys[BATCH];
  float rows[BATCH * DIM];
  for (int i = 0; i < BATCH; i++)
    keys[i] = some_key(w);
  OK(s, emb_lookup(s, keys, BATCH, rows, NULL));
  count(keys, BATCH);
}

static void send_and_see(emb_session *s, struct worker *w) {
  int64_t key = some_key(w);
  int looks = test_random_from(&w->random) % 2 == 0;
  float before = looks ? look_up_key(s, key) : read_key(s, key);
  OK(s, emb_apply_gradients(s, &key, 1, ones(), NULL, NULL));
  count(&key, 1);
  float after = looks ? look_up_key(s, key) : read_key(s, key);
  test_check(after <= before - 1, __FILE__, __LINE__, "key %d: %g, then %g",
             (int)key, (double)before, (double)after);
}

static void send_batch(emb_session *s, struct worker *w) {
  int64_t keys[BATCH], first = some_key(w);
  for (int i = 0; i < BATCH; i++)
    keys[i] = (first + i) % KEYS;
  OK(s, emb_apply_gradients(s, keys, BATCH, ones(), NULL, NULL));
  count(keys, BATCH);
}

/* Steps of a transaction, kept or undone. */
static void in_transaction(emb_session *s, struct worker *w) {
  int64_t key = some_key(w);
  if (!OK(s, emb_begin(s)))
    return;
  float before = read_key(s, key);
  if (!OK(s, emb_txn_apply_gradients(s, &key, 1, ones(), NULL, NULL)) ||
      !CHECK(read_key(s, key) <= before - 1) ||
      test_random_from(&w->random) % 2) {
    emb_rollback(s);
    return;
  }
  OK(s, emb_commit(s));
  count(&key, 1);
}

static void apply_all(emb_session *s, struct worker *w) {
  emb_scan *scan;
  size_t n;
  switch (test_random_from(&w->random) % 4) {
  case 0:
    OK(s, emb_checkpoint(s));
    break;
  case 1:
    if (OK(s, emb_scan_open(s, 0, KEYS, EMB_SCAN_ASC, &scan))) {
      int64_t keys[KEYS];
      OK(s, emb_scan_next(scan, KEYS, keys, NULL, NULL, &n));
      emb_scan_close(scan);
    }
    break;
  case 2: {
    emb_pending_key keys[KEYS];
    OK(s, emb_pending(s, keys, KEYS, &n));
    CHECK(n <= KEYS);
    break;
  }
  default:
    OK(s, emb_flush_gradients(s, NULL));
  }
}

static void *work(void *arg) {
  struct worker *w = arg;
  unsigned end = help_amount(SANITIZED ? 600 : 3000);
  emb_session *s = NULL;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  for (unsigned i = 0; i < end && !atomic_load(&test_state.failures); i++) {
    uint64_t what = test_random_from(&w->random) % 100;
    if (what < 40)
      send_and_see(s, w);
    else if (what < 90)
      send_batch(s, w);
    else if (what < 95)
      look_up_batch(s, w);
    else if (what < 97)
      in_transaction(s, w);
    else
      apply_all(s, w);
  }
  emb_session_close(s);
  return NULL;
}

static void run(const char *gradients) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE,
                       .timeout_ms = 60000,
                       .optimizer = "sgd(lr=1)",
                       .track = EMB_TRACK_WALL,
                       .gradients = gradients};
  struct worker workers[THREADS];
  pthread_t threads[THREADS];
  emb_session *s;
  if (!help_open(help_path(gradients), &config, &store, &s))
    return;
  for (int k = 0; k < KEYS; k++)
    atomic_store(&sent[k], 0);
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){test_random(), i};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int64_t key = 0; key < KEYS; key++) {
    emb_track track;
    OK(s, emb_tracks(s, &key, 1, &track, NULL));
    CHECK_EQ_INT(track.frequency, atomic_load(&sent[key]));
  }
  CHECK_EQ_INT(help_stat(store, "gradients_pending"), 0);
  CHECK_EQ_INT(help_stat(store, "gradients_refused"), 0);
  test_count("gradients averaged by threads",
             (uint64_t)help_stat(store, "gradients_kept"));
  CHECK(help_verify(s));
  help_close(store, s);
}

TEST(sums) { run("average(max=5, expire=2ms)"); }
TEST(lists) { run("average(max=3, expire=1ms, outlier=trim(0.3))"); }
TEST(long_lists) { run("average(max=40, expire=1h, outlier=mad)"); }
