/* SPDX-License-Identifier: MIT
**
** bag.c -- tests of emb_bag: its results against sums of the rows that were
** put, wherever the rows are; which reads count; its errors.
*/
#include "bag_help.h"
#include "staleness_help.h"

#include "engine/table/session/session.h"

#include <math.h>
#include <unistd.h>

enum { KEYS = 4000, ABSENT = 200, DIM_MAX = 300 };

/* Elements are whole numbers over 8, which float16 holds, too. */
static double put_element(int64_t key, uint32_t k) {
  return key < KEYS ? (double)((key * 31 + k * 17) % 257 - 128) / 8 : 0.25;
}

static void put_rows(emb_session *s, uint32_t dim) {
  static float rows[100 * DIM_MAX];
  int64_t keys[100];
  for (int64_t from = 0; from < KEYS; from += 100) {
    for (int64_t i = 0; i < 100; i++) {
      keys[i] = from + i;
      for (uint32_t k = 0; k < dim; k++)
        rows[(size_t)i * dim + k] = (float)put_element(keys[i], k);
    }
    OK(s, emb_put(s, keys, 100, rows, NULL));
  }
}

static struct bag_batch batch;
static float pooled[BAG_COUNT_MAX * DIM_MAX];

/* Compares bags of one store in turn. */
static void compare_some(emb_session *s, uint32_t dim, unsigned rounds) {
  size_t bags = 0;
  for (unsigned round = 0; round < rounds; round++) {
    bag_any(&batch, test_random() % BAG_KEYS_MAX, KEYS + ABSENT,
            1 + test_random() % 40);
    batch.bags.peek = test_random() % 2 == 0;
    pooled[batch.bags.count * dim] = 77;
    if (!OK(s, emb_bag(s, batch.keys, batch.n, &batch.bags, pooled)) ||
        !bag_is(&batch, pooled, dim, put_element) ||
        !CHECK(pooled[batch.bags.count * dim] > 76))
      return;
    bags += batch.bags.count;
  }
  test_count("bags", bags);
}

TEST(rows_in_memory) {
  static const uint32_t dims[] = {1, 7, 16, 64, 299};
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    emb_config c = {.dim = dims[i],
                    .flags = EMB_OPEN_TEMPORARY,
                    .initializer = "constant(value=0.25)"};
    emb_store *store;
    emb_session *s;
    if (!help_open(test_dir(), &c, &store, &s))
      return;
    put_rows(s, dims[i]);
    compare_some(s, dims[i], help_amount(20));
    help_close(store, s);
  }
}

TEST(halves) {
  emb_config c = {.dim = 40,
                  .type = EMB_F16,
                  .flags = EMB_OPEN_TEMPORARY,
                  .initializer = "constant(value=0.25)"};
  emb_store *store;
  emb_session *s;
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  put_rows(s, 40);
  compare_some(s, 40, help_amount(20));
  help_close(store, s);
}

/* Most rows are on disk; the rows of a chunk arrive in any order. */
TEST(rows_on_disk) {
  emb_config c = {.dim = DIM_MAX - 1,
                  .flags = EMB_OPEN_CREATE,
                  .memory_bytes = 1 << 20,
                  .initializer = "constant(value=0.25)"};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  put_rows(s, c.dim);
  compare_some(s, c.dim, help_amount(20));
  int served = getenv("SERVED") != NULL; /* the owner counts the reads */
  for (int i = 0; i < 20 && !served && help_stat(store, "get_disk") <= 1000;
       i++)
    compare_some(s, c.dim, help_amount(20));
  CHECK(served || help_stat(store, "get_disk") > 1000);
  help_close(store, s);
}

TEST(rows_of_the_transaction) {
  emb_config c = {.dim = 2, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s, *other;
  emb_err err;
  int64_t keys[] = {1, 2, 1}, offsets[] = {0, 2};
  const float rows[] = {1, 10, 2, 20}, more[] = {5, 50};
  const emb_bags bags = {.offsets = offsets, .count = 2, .mode = EMB_BAG_SUM};
  float got[4];
  if (!help_open(help_path("store"), &c, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK))
    return;
  OK(s, emb_put(s, keys, 2, rows, NULL));
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, keys, 1, more));
  OK(s, emb_txn_delete(s, keys + 1, 1, NULL));
  OK(s, emb_bag(s, keys, 3, &bags, got));
  CHECK(got[0] == 5 && got[1] == 50 && got[2] == 5 && got[3] == 50);
  OK(other, emb_bag(other, keys, 3, &bags, got));
  CHECK(got[0] == 3 && got[1] == 30 && got[2] == 1 && got[3] == 10);
  emb_rollback(s);
  OK(s, emb_bag(s, keys, 3, &bags, got));
  CHECK(got[0] == 3 && got[1] == 30 && got[2] == 1 && got[3] == 10);
  emb_session_close(other);
  help_close(store, s);
}

/* A bag inserts a row wherever a Get would. */
TEST(rows_that_appear) {
  emb_config c = {.dim = 1,
                  .flags = EMB_OPEN_TEMPORARY,
                  .insert_on = EMB_INSERT_ON_LOOKUP,
                  .initializer = "constant(value=3)"};
  emb_store *store;
  emb_session *s;
  int64_t keys[] = {7, 8, 7}, offsets[] = {0, 1};
  emb_bags bags = {
      .offsets = offsets, .count = 2, .mode = EMB_BAG_MEAN, .peek = 1};
  float got[2];
  uint8_t found[2];
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  OK(s, emb_bag(s, keys, 3, &bags, got));
  OK(s, emb_exists(s, keys, 2, found));
  CHECK(got[0] == 3 && got[1] == 3 && !found[0] && !found[1]);
  bags.peek = 0;
  OK(s, emb_bag(s, keys, 3, &bags, got));
  OK(s, emb_exists(s, keys, 2, found));
  CHECK(got[0] == 3 && got[1] == 3 && found[0] && found[1]);
  help_close(store, s);
}

/* ---- reads that count ---------------------------------------------------- */

static void clocks_are(emb_session *s, uint32_t one, uint32_t two) {
  int64_t keys[] = {1, 2};
  uint32_t clocks[2];
  OK(s, emb_clocks(s, keys, 2, clocks));
  CHECK_EQ_INT(clocks[0], one);
  CHECK_EQ_INT(clocks[1], two);
}

TEST(a_bag_counts_each_key_once) {
  emb_config c = {.dim = 1,
                  .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_BOUNDED,
                  .staleness = 1,
                  .timeout_ms = 50};
  emb_store *store;
  emb_session *s, *other;
  emb_err err;
  int64_t keys[] = {1, 2, 1, 1, 9}, offsets[] = {0, 2, 3};
  const float rows[] = {1, 2};
  emb_bags bags = {.offsets = offsets, .count = 3, .mode = EMB_BAG_SUM};
  const emb_bags first = {.offsets = offsets, .count = 1, .mode = EMB_BAG_SUM};
  float got[3];
  if (!help_open(test_dir(), &c, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK))
    return;
  OK(s, emb_put(s, keys, 2, rows, NULL));
  OK(s, emb_bag(s, keys, 5, &bags, got));
  clocks_are(s, 1, 1);
  OK(other, emb_bag(other, keys, 1, &first, got));
  clocks_are(s, 2, 1);
  /* The second key may be read, the first may not: nothing is counted. */
  GIVES(s, EMB_BUSY, emb_bag(s, keys, 5, &bags, got));
  CHECK(strstr(emb_errmsg(s), "key 1") != NULL);
  clocks_are(s, 2, 1);
  bags.peek = 1;
  OK(s, emb_bag(s, keys, 5, &bags, got));
  clocks_are(s, 2, 1);
  OK(s, emb_put(s, keys, 2, rows, NULL));
  clocks_are(s, 1, 0);
  emb_session_close(other);
  help_close(store, s);
}

/* ---- a wait in the middle ------------------------------------------------ */

enum { BAGS = 120, BAG_ROWS = 20 };

struct waiting_bag {
  emb_session *s;
  int64_t keys[BAGS * BAG_ROWS], offsets[BAGS];
  float pooled[BAGS * DIM];
  int rc;
};

static void *pool_bags(void *arg) {
  struct waiting_bag *w = arg;
  const emb_bags bags = {
      .offsets = w->offsets, .count = BAGS, .mode = EMB_BAG_SUM};
  w->rc = emb_bag(w->s, w->keys, BAGS * BAG_ROWS, &bags, w->pooled);
  return NULL;
}

static double whole_element(int64_t key, uint32_t k) {
  return (double)(key * 7 + k);
}

static int put_whole(emb_session *s, int64_t key) {
  float vector[DIM];
  for (uint32_t k = 0; k < DIM; k++)
    vector[k] = (float)whole_element(key, k);
  return emb_put(s, &key, 1, vector, NULL);
}

/* A key behind the first chunk is at its bound.  The bags that the Get has
** summed up before it waits are summed up again after that. */
TEST(bags_begin_again_after_a_wait) {
  static struct waiting_bag w;
  struct bounded x;
  pthread_t thread;
  float vector[DIM];
  size_t n = sizeof w.keys / sizeof w.keys[0];
  if (!bounded_open(&x, 0, FOR_EVER, EMB_OPEN_TEMPORARY))
    return;
  for (size_t i = 0; i < n; i++) {
    w.keys[i] = (int64_t)i;
    w.offsets[i / BAG_ROWS] = (int64_t)(i / BAG_ROWS * BAG_ROWS);
    OK(x.b, put_whole(x.b, w.keys[i]));
  }
  CHECK(x.a->chunk < n);
  w.s = x.a;
  OK(x.b, emb_get(x.b, &w.keys[n - 1], 1, vector, NULL, NULL));
  if (!CHECK_EQ_INT(pthread_create(&thread, NULL, pool_bags, &w), 0))
    abort();
  for (int ms = 0; ms < 30000 && !help_stat(x.store, "staleness_waits"); ms++)
    (void)usleep(1000);
  CHECK_EQ_INT(help_stat(x.store, "staleness_waits"), 1);
  OK(x.b, put_whole(x.b, w.keys[n - 1]));
  (void)pthread_join(thread, NULL);
  OK(x.a, w.rc);
  for (uint32_t i = 0; i < BAGS * DIM; i++) {
    double sum = 0;
    for (int j = 0; j < BAG_ROWS; j++)
      sum += whole_element(w.keys[i / DIM * BAG_ROWS + (size_t)j], i % DIM);
    if (!test_check((double)w.pooled[i] == sum, __FILE__, __LINE__,
                    "element %u of bag %u is %g, not %g", i % DIM, i / DIM,
                    (double)w.pooled[i], sum))
      break;
  }
  bounded_close(&x);
}

/* ---- parts --------------------------------------------------------------- */

TEST(parts) {
  emb_segment segments[3] = {{1, EMB_F32, NULL, NULL, NULL, NULL},
                             {2, EMB_F32, NULL, NULL, NULL, NULL},
                             {1, EMB_F16, NULL, NULL, NULL, NULL}};
  emb_config c = {.dim = 4,
                  .segments = segments,
                  .segment_count = 3,
                  .flags = EMB_OPEN_TEMPORARY};
  emb_store *store;
  emb_session *s;
  int64_t keys[2] = {1, 1}, offsets[2] = {0, 2};
  float row[4] = {1, 2, 3e38f, 4}, got[8];
  emb_bags bags = {
      .offsets = offsets, .count = 2, .mode = EMB_BAG_SUM, .parts = 5};
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  OK(s, emb_put(s, keys, 1, row, NULL));
  OK(s, emb_bag(s, keys, 2, &bags, got));
  const float want[8] = {2, 0, 0, 8};
  CHECK(memcmp(got, want, sizeof want) == 0);
  bags.parts = 2; /* its second element overflows */
  GIVES(s, EMB_NONFINITE, emb_bag(s, keys, 2, &bags, got));
  CHECK(strstr(emb_errmsg(s), "element 1 of bag 0") != NULL);
  help_close(store, s);
}

/* ---- refused input ------------------------------------------------------- */

static emb_session *refusing;
static int64_t some_keys[] = {1, 2, 3};

static void refuses(const emb_bags *bags, size_t n, int code,
                    const char *text) {
  float got[8] = {77, 77};
  GIVES(refusing, code, emb_bag(refusing, some_keys, n, bags, got));
  test_check(strstr(emb_errmsg(refusing), text) != NULL, __FILE__, __LINE__,
             "\"%s\" is not in \"%s\"", text, emb_errmsg(refusing));
  GIVES(refusing, code, emb_bag_apply(refusing, some_keys, n, bags, got, NULL));
  CHECK(strstr(emb_errmsg(refusing), text) != NULL);
}

TEST(what_is_refused) {
  emb_config c = {
      .dim = 2, .flags = EMB_OPEN_TEMPORARY, .optimizer = "sgd(lr=1)"};
  emb_store *store;
  int64_t offsets[4] = {0, 2, 2, 3};
  float weights[3] = {1, 2, 3};
  emb_bags bags = {
      .offsets = offsets, .count = 4, .mode = EMB_BAG_SUM, .weights = weights};
  if (!help_open(test_dir(), &c, &store, &refusing))
    return;
  const float rows[6] = {1, 2, 3e38f, 4, 3e38f, 6};
  OK(refusing, emb_put(refusing, some_keys, 3, rows, NULL));
  bags.mode = 0;
  refuses(&bags, 3, EMB_RANGE, "unknown pooling 0");
  bags.mode = 4;
  refuses(&bags, 3, EMB_RANGE, "unknown pooling 4");
  bags.mode = EMB_BAG_MEAN;
  offsets[0] = 1;
  refuses(&bags, 3, EMB_RANGE, "offsets must begin with 0, got 1");
  offsets[0] = 0, offsets[2] = 1;
  refuses(&bags, 3, EMB_RANGE,
          "offset 2 (1) is less than the one before it (2)");
  offsets[2] = 2, offsets[3] = 4;
  refuses(&bags, 3, EMB_RANGE, "offset 3 (4) is beyond the end of the 3 keys");
  offsets[3] = INT64_MIN;
  refuses(&bags, 3, EMB_RANGE, "offset 3 (-9223372036854775808) is less");
  offsets[3] = 3;
  bags.count = 0;
  refuses(&bags, 3, EMB_RANGE, "there are 3 keys, but no offsets");
  bags.count = 4;
  weights[1] = INFINITY;
  refuses(&bags, 3, EMB_NONFINITE, "weight 1 is not finite");
  weights[1] = 1;
  float got[8];
  offsets[1] = 1, offsets[2] = 3, weights[2] = 1;
  GIVES(
      refusing, EMB_NONFINITE,
      emb_bag(refusing, some_keys, 3,
              &(emb_bags){.offsets = offsets, .count = 4, .mode = EMB_BAG_SUM},
              got));
  CHECK(strstr(emb_errmsg(refusing), "element 0 of bag 1 is not finite"));
  OK(refusing,
     emb_bag(refusing, some_keys, 0, &(emb_bags){.mode = EMB_BAG_SUM}, got));
  help_close(store, refusing);
}

TEST(texts_of_modes) {
  static const struct {
    const char *text;
    int mode, last;
  } right[] = {{"sum", EMB_BAG_SUM, 0},
               {"Mean", EMB_BAG_MEAN, 0},
               {" sqrtn ( include_last_offset = 1 ) ", EMB_BAG_SQRTN, 1},
               {"mean(include_last_offset=0)", EMB_BAG_MEAN, 0},
               {"sum()", EMB_BAG_SUM, 0}};
  static const char *const wrong[] = {"",
                                      "max",
                                      "sum(",
                                      "sum(include_last_offset=2)",
                                      "sum(include_last_offset=0.5)",
                                      "sum(last=1)",
                                      "sum mean"};
  int mode, last;
  emb_err err;
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
    CHECK_EQ_INT(emb_bag_mode(right[i].text, &mode, &last, &err), EMB_OK);
    CHECK_EQ_INT(mode, right[i].mode);
    CHECK_EQ_INT(last, right[i].last);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK_EQ_INT(emb_bag_mode(wrong[i], &mode, &last, &err), EMB_RANGE);
    CHECK(err.text[0] != '\0');
  }
  (void)emb_bag_mode("max", &mode, &last, &err);
  CHECK_STR(err.text, "unknown mode: max; expected sum, mean or sqrtn");
}

/* ---- an end before the end ----------------------------------------------- */

static int say_stop(void *arg) {
  ++*(int *)arg;
  return 1;
}

/* An interrupted long call ends soon, and takes back the reads it counted. */
TEST(interrupted) {
  enum { LONG = 1 << 17 };
  emb_config c = {
      .dim = 1, .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_BOUNDED, .staleness = 8};
  emb_store *store;
  emb_session *s;
  int64_t *keys = calloc(LONG, sizeof *keys);
  const int64_t offset = 0;
  const emb_bags bags = {.offsets = &offset, .count = 1, .mode = EMB_BAG_SUM};
  const float one = 1;
  float got = 77;
  int calls = 0;
  uint32_t clock;
  if (!CHECK(keys != NULL) || !help_open(test_dir(), &c, &store, &s))
    return;
  OK(s, emb_put(s, keys, 1, &one, NULL));
  emb_session_interrupt(s, say_stop, &calls);
  GIVES(s, EMB_INTERRUPT, emb_bag(s, keys, LONG, &bags, &got));
  emb_session_interrupt(s, NULL, NULL);
  CHECK(calls > 0 && got > 76);
  OK(s, emb_clocks(s, keys, 1, &clock));
  CHECK_EQ_INT(clock, 0);
  OK(s, emb_bag(s, keys, LONG, &bags, &got));
  CHECK(got == LONG);
  help_close(store, s);
  free(keys);
}
