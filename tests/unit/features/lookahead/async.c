/* SPDX-License-Identifier: MIT
**
** async.c -- emb_apply_async, against a twin store that gets the same gradients
** by emb_apply_gradients: with threads and without, on stores that fit into
** memory and on stores whose rows are mostly on disk.
*/
#include "staleness_help.h"

#include <math.h>

enum { ROWS = 400, BATCH_MAX = 300, FLYING_MAX = 5 };

/* A store x, and its twin. */
struct twins {
  struct bounded x;
  emb_store *twin;
  emb_session *t;
  int64_t keys[BATCH_MAX];
  float gradients[BATCH_MAX * DIM];
};

static int open_store(const char *name, const emb_config *config,
                      emb_store **store) {
  emb_err err = {0, ""};
  (void)emb_destroy(help_path(name), &err);
  return test_check(emb_open(help_path(name), config, store, &err) == EMB_OK,
                    __FILE__, __LINE__, "%s: %s", name, err.text);
}

static int open_session(emb_store *store, emb_session **s) {
  emb_err err;
  return CHECK_EQ_INT(emb_session_open(store, s, &err), EMB_OK);
}

static emb_config configuration(uint32_t flags) {
  return (emb_config){.dim = DIM,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_BOUNDED | flags,
                      .memory_bytes = 1,
                      .timeout_ms = FOR_EVER,
                      .staleness = EMB_STALENESS_MAX,
                      .track = EMB_TRACK_DATA,
                      .optimizer = "adagrad(lr=0.05)"};
}

/* `more`: rows that displace the others from memory, in both stores. */
static int twins_open(struct twins *w, const emb_config *config, int64_t more) {
  w->x.config = *config;
  if (!open_store("store", config, &w->x.store) ||
      !open_store("twin", config, &w->twin) ||
      !open_session(w->x.store, &w->x.a) ||
      !open_session(w->x.store, &w->x.b) ||
      !open_session(w->x.store, &w->x.c) || !open_session(w->twin, &w->t))
    return 0;
  emb_session *both[2] = {w->x.a, w->t};
  for (int i = 0; i < 2; i++) {
    emb_session_time(both[i], 1);
    if (!help_put_rows(both[i], 0, 1, ROWS / 2, 1) ||
        !help_put_rows(both[i], ROWS, 1, more, 1) ||
        (more && !OK(both[i], emb_optimize(both[i]))))
      return 0;
  }
  return 1;
}

static void twins_close(struct twins *w) {
  bounded_close(&w->x);
  help_close(w->twin, w->t);
}

/* Keys of a batch, some of them several times. */
static size_t random_batch(struct twins *w) {
  size_t n = test_random() % BATCH_MAX;
  uint64_t keys = 1 + test_random() % ROWS;
  for (size_t i = 0; i < n; i++)
    w->keys[i] = (int64_t)(test_random() % keys);
  for (size_t i = 0; i < n * DIM; i++)
    w->gradients[i] = (float)(int)(test_random() % 2001) / 1000 - 1;
  return n;
}

/* Rows and tracks are the same. */
static void compare_rows(struct twins *w) {
  static int64_t keys[ROWS];
  static float rows[2][ROWS * DIM];
  static uint8_t found[2][ROWS];
  static emb_track tracks[2][ROWS];
  for (int i = 0; i < ROWS; i++)
    keys[i] = i;
  OK(w->x.b, emb_peek(w->x.b, keys, ROWS, rows[0], found[0], NULL));
  OK(w->t, emb_peek(w->t, keys, ROWS, rows[1], found[1], NULL));
  OK(w->x.b, emb_tracks(w->x.b, keys, ROWS, tracks[0], NULL));
  OK(w->t, emb_tracks(w->t, keys, ROWS, tracks[1], NULL));
  CHECK(memcmp(found[0], found[1], sizeof found[0]) == 0);
  CHECK(memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
  for (int i = 0; i < ROWS; i++) {
    if (!CHECK_EQ_INT(tracks[0][i].updated_at, tracks[1][i].updated_at) ||
        !CHECK_EQ_INT(tracks[0][i].frequency, tracks[1][i].frequency))
      break;
  }
}

/* The same, and one more step of each row shows the optimizer's state. */
static void compare(struct twins *w) {
  static int64_t keys[ROWS];
  static float ones[ROWS * DIM];
  compare_rows(w);
  for (int i = 0; i < ROWS; i++)
    keys[i] = i;
  for (int i = 0; i < ROWS * DIM; i++)
    ones[i] = 1;
  emb_session_time(w->x.b, 2000);
  emb_session_time(w->t, 2000);
  OK(w->x.b, emb_apply_gradients(w->x.b, keys, ROWS, ones, NULL, NULL));
  OK(w->t, emb_apply_gradients(w->t, keys, ROWS, ones, NULL, NULL));
  compare_rows(w);
}

static size_t flying(const emb_session *s) {
  size_t writes;
  (void)emb_tickets(s, &writes);
  return writes;
}

/* One batch in the background, and in the twin. */
static void apply_one(struct twins *w) {
  const emb_update how = {.lr = test_random() % 2 ? 0.25f : 0,
                          .step = test_random() % 3};
  uint64_t ticket;
  size_t n = random_batch(w);
  uint32_t time = 2 + (uint32_t)(test_random() % 1000);
  emb_session_time(w->x.a, time);
  emb_session_time(w->t, time);
  OK(w->t, emb_apply_gradients(w->t, w->keys, n, w->gradients, &how, NULL));
  OK(w->x.a, emb_apply_async(w->x.a, w->keys, n, w->gradients, &how, &ticket));
  memset(w->keys, -1, sizeof w->keys); /* they were copied */
  memset(w->gradients, -1, sizeof w->gradients);
}

/* A write of another kind, which comes after the batches in flight. */
static void write_other(struct twins *w) {
  uint64_t ticket;
  size_t n = random_batch(w);
  emb_session *s = w->x.a;
  OK(w->t, emb_put(w->t, w->keys, n, w->gradients, NULL));
  OK(s, test_random() % 2
            ? emb_put(s, w->keys, n, w->gradients, NULL)
            : emb_write_back(s, w->keys, n, w->gradients, &ticket));
}

static void run_twins(uint32_t flags, int64_t more, const char *optimizer) {
  static struct twins w;
  emb_config config = configuration(flags);
  config.optimizer = optimizer;
  if (!twins_open(&w, &config, more))
    return;
  for (int i = 0; i < 60; i++) {
    if (test_random() % 6)
      apply_one(&w);
    else
      write_other(&w);
    while (flying(w.x.a) > test_random() % FLYING_MAX)
      OK(w.x.a, emb_write_back_synchronize(w.x.a, 0, NULL));
  }
  while (flying(w.x.a))
    OK(w.x.a, emb_write_back_synchronize(w.x.a, 0, NULL));
  compare(&w);
  twins_close(&w);
}

TEST(gradients_in_the_background) { run_twins(0, 0, "adagrad(lr=0.05)"); }
TEST(gradients_of_rows_on_disk) { run_twins(0, MANY, "adam(lr=0.01)"); }
TEST(gradients_without_threads) {
  run_twins(EMB_OPEN_STEP, MANY, "adagrad(lr=0.05)");
}

TEST(gradients_of_a_closed_session) {
  static struct twins w;
  const emb_config config = configuration(0);
  if (!twins_open(&w, &config, MANY))
    return;
  for (int i = 0; i < 10; i++)
    apply_one(&w);
  emb_session_close(w.x.a);
  open_session(w.x.store, &w.x.a);
  compare(&w);
  twins_close(&w);
}

/* ---- leases -------------------------------------------------------------- */

/* A reader that waits for the keys reads the new vectors. */
static void gives_back(uint32_t flags) {
  static struct twins w;
  static float got[ROWS * DIM];
  emb_config config = configuration(flags);
  config.staleness = 0;
  config.optimizer = "sgd(lr=1)";
  if (!twins_open(&w, &config, 0))
    return;
  for (int round = 1; round <= 20; round++) {
    enum { N = 100 };
    uint64_t ticket, read;
    for (int i = 0; i < N; i++)
      w.keys[i] = i / 2; /* each key twice: one step, and one lease */
    for (int i = 0; i < N * DIM; i++)
      w.gradients[i] = -0.5f;
    OK(w.x.a, emb_get(w.x.a, w.keys, N, got, NULL, NULL));
    CHECK_EQ_INT(emb_leases(w.x.a), N / 2);
    OK(w.x.a, emb_prefetch(w.x.a, w.keys, N, &(emb_rows){.vectors = got},
                           &read)); /* its keys are at their bound */
    OK(w.x.a, emb_apply_async(w.x.a, w.keys, N, w.gradients, NULL, &ticket));
    CHECK_EQ_INT(emb_leases(w.x.a), 0);
    OK(w.x.a, emb_prefetch_synchronize(w.x.a, read, NULL));
    for (int i = 0; i < N; i++) {
      float first[DIM];
      help_vector(first, DIM, w.keys[i], 1);
      if (!CHECK(fabsf(got[i * DIM] - first[0] - (float)round) < 0.01f))
        break;
    }
    CHECK_EQ_INT(emb_release(w.x.a), N / 2);
    OK(w.x.a, emb_write_back_synchronize(w.x.a, ticket, NULL));
    CHECK_EQ_INT(pending_other_than(w.x.b, w.keys, N, 0), 0);
  }
  twins_close(&w);
}

TEST(gradients_give_back_their_leases) { gives_back(0); }
TEST(gradients_give_back_their_leases_without_threads) {
  gives_back(EMB_OPEN_STEP);
}

/* Rows after a failure: the session's leases match the pending reads. */
TEST(failed_gradients_keep_what_is_pending) {
  static struct twins w;
  emb_config config = configuration(0);
  config.timeout_ms = 5;
  if (!twins_open(&w, &config, 0))
    return;
  uint64_t ticket;
  int64_t out = 0;
  for (int i = 0; i < 6; i++)
    w.keys[i] = i;
  memset(w.gradients, 0, sizeof w.gradients);
  OK(w.x.a, emb_get(w.x.a, w.keys, 6, w.gradients, NULL, NULL));
  OK(w.x.b, emb_begin(w.x.b)); /* holds key 3 until the timeout is over */
  OK(w.x.b, emb_txn_delete(w.x.b, w.keys + 3, 1, NULL));
  OK(w.x.a, emb_apply_async(w.x.a, w.keys, 6, w.gradients, NULL, &ticket));
  GIVES(w.x.a, EMB_BUSY, emb_write_back_synchronize(w.x.a, ticket, NULL));
  emb_rollback(w.x.b);
  for (int i = 0; i < 6; i++)
    out += pending_of(w.x.c, w.keys[i]);
  CHECK_EQ_INT(out, emb_leases(w.x.a));
  CHECK(out > 0 && out < 6);
  (void)emb_release(w.x.a);
  CHECK_EQ_INT(pending_other_than(w.x.c, w.keys, 6, 0), 0);
  twins_close(&w);
}

/* ---- errors -------------------------------------------------------------- */

TEST(gradients_are_checked_at_the_start) {
  static struct twins w;
  const emb_config config = configuration(0);
  uint64_t ticket = 0;
  if (!twins_open(&w, &config, 0))
    return;
  emb_session *s = w.x.a;
  float *g = w.gradients;
  memset(w.keys, 0, sizeof w.keys);
  memset(g, 0, sizeof w.gradients);
  OK(s, emb_get(s, w.keys, 3, g + 3 * DIM, NULL, NULL));
  const emb_update fast = {.lr = 1e9f}, read = {.read = g + 3 * DIM};
  g[2 * DIM + 5] = INFINITY;
  GIVES(s, EMB_NONFINITE, emb_apply_async(s, w.keys, 3, g, NULL, &ticket));
  g[2 * DIM + 5] = 0;
  GIVES(s, EMB_RANGE, emb_apply_async(s, w.keys, 3, g, &fast, &ticket));
  GIVES(s, EMB_RANGE, emb_apply_async(s, w.keys, 3, g, &read, &ticket));
  CHECK(strstr(emb_errmsg(s), "emb_update.read") != NULL);
  OK(s, emb_begin(s));
  OK(s, emb_txn_delete(s, w.keys, 1, NULL));
  GIVES(s, EMB_LOCKED, emb_apply_async(s, w.keys, 3, g, NULL, &ticket));
  emb_rollback(s);
  CHECK_EQ_INT(flying(s), 0);
  CHECK_EQ_INT(ticket, 0);
  CHECK_EQ_INT(emb_leases(s), 1);
  OK(s, emb_apply_async(s, NULL, 0, NULL, NULL, &ticket)); /* an empty batch */
  OK(s, emb_write_back_synchronize(s, ticket, NULL));
  (void)emb_release(s);
  compare_rows(&w);
  twins_close(&w);
}

TEST(gradients_need_an_optimizer) {
  struct bounded x;
  const int64_t key = 1;
  const float gradient[DIM] = {0};
  uint64_t ticket;
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  GIVES(x.a, EMB_UNFIT, emb_apply_async(x.a, &key, 1, gradient, NULL, &ticket));
  CHECK_EQ_INT(emb_count(x.a), 0);
  bounded_close(&x);
}

/* A step that is not finite is reported at the end, and leaves its key. */
TEST(gradients_that_overflow) {
  static struct twins w;
  emb_config config = configuration(0);
  config.optimizer = "sgd(lr=1)";
  if (!twins_open(&w, &config, 0))
    return;
  emb_session *s = w.x.a;
  const emb_update how = {.lr = 1e6f};
  uint64_t ticket;
  w.keys[0] = 7;
  memset(w.gradients, 0, sizeof w.gradients);
  w.gradients[3] = 3e38f;
  OK(s, emb_apply_async(s, w.keys, 1, w.gradients, &how, &ticket));
  GIVES(s, EMB_NONFINITE, emb_write_back_synchronize(s, ticket, NULL));
  GIVES(s, EMB_RANGE, emb_write_back_synchronize(s, ticket, NULL));
  compare_rows(&w);
  twins_close(&w);
}

/* Averaged gradients wait for their key to be read, as by a call. */
TEST(averaged_gradients_in_the_background) {
  static struct twins w;
  emb_config config = configuration(0);
  uint64_t ticket;
  config.optimizer = "sgd(lr=1)";
  config.gradients = "average";
  if (!twins_open(&w, &config, 0))
    return;
  for (int i = 0; i < 30; i++) {
    size_t n = random_batch(&w);
    OK(w.t, emb_apply_gradients(w.t, w.keys, n, w.gradients, NULL, NULL));
    OK(w.x.a, emb_apply_async(w.x.a, w.keys, n, w.gradients, NULL, &ticket));
    OK(w.x.a, emb_write_back_synchronize(w.x.a, ticket, NULL));
    if (i % 7 == 0)
      compare_rows(&w);
  }
  compare_rows(&w);
  twins_close(&w);
}
