/* SPDX-License-Identifier: MIT
**
** sample_laws.c -- emb_sample: log-uniform draws and draws by frequency, and
** the probabilities and expected counts returned with them, against the
** formulas and against the actual draws.
*/
#include "chance_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/table/owner/registry.h"

#include <math.h>

enum { DIM = 4, KEYS = 1000, CALLS = 600, ROWS_MAX = 2000 };

static uint64_t counts[KEYS];
static double expected[KEYS];
static int64_t drawn[ROWS_MAX];
static double p[ROWS_MAX], mean[ROWS_MAX];

static emb_store *store;
static emb_session *s;

static void open_table(uint32_t track) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_EXCLUSIVE,
                       .track = track};
  help_open(help_path("store"), &config, &store, &s);
}

static void put(int64_t key, int times) {
  float vector[DIM] = {0};
  while (times--)
    OK(s, emb_put(s, &key, 1, vector, NULL));
}

static void put_all(int64_t step) {
  for (int i = 0; i < KEYS; i++)
    put(i * step, 1);
}

static emb_sample_how law(uint64_t seed, int64_t range, uint32_t flags) {
  return (emb_sample_how){.distribution = EMB_LOG_UNIFORM,
                          .flags = EMB_SAMPLE_SEEDED | flags,
                          .seed = seed,
                          .range = range};
}

static size_t sample(size_t n, const emb_sample_how *how) {
  size_t count = 0;
  OK(s, emb_sample(s, n, how, &(emb_samples){drawn, NULL, p, mean}, &count));
  return count;
}

static double rank_p(double key, double range) {
  return log((key + 2) / (key + 1)) / log(range + 1);
}

static int near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

static void begin_counting(void) {
  memset(counts, 0, sizeof counts);
  memset(expected, 0, sizeof expected);
}

TEST(ranks_come_by_the_formula) {
  open_table(0);
  put_all(1);
  put(-5, 1);
  begin_counting();
  for (int i = 0; i < CALLS; i++) {
    emb_sample_how how = law((uint64_t)i, i % 2 ? KEYS : 0, EMB_SAMPLE_REPLACE);
    CHECK_EQ_INT(sample(500, &how), 500);
    for (int j = 0; j < 500; j++) {
      CHECK(near(p[j], rank_p((double)drawn[j], KEYS)));
      CHECK(near(mean[j], 500 * p[j]));
      counts[drawn[j]]++;
    }
  }
  for (int k = 0; k < KEYS; k++)
    expected[k] = 500.0 * CALLS * rank_p(k, KEYS);
  CHECK(chance_ratio(counts, expected, KEYS) < 1);
  /* This test would detect ranks that are a third off. */
  for (int k = 0; k < KEYS; k++)
    expected[k] = 500.0 * CALLS * rank_p(k + 0.3, KEYS);
  CHECK(chance_ratio(counts, expected, KEYS) > 1);
  help_close(store, s);
}

/* The number of draws, from the values returned with each row. */
static double draws_of(size_t n, int replaces) {
  size_t rare = 0; /* the other means may round to 1 */
  for (size_t i = 1; i < n; i++)
    rare = p[i] < p[rare] ? i : rare;
  double draws =
      replaces ? mean[rare] / p[rare] : log1p(-mean[rare]) / log1p(-p[rare]);
  for (size_t i = 0; i < n; i++)
    CHECK(
        near(mean[i], replaces ? draws * p[i] : -expm1(draws * log1p(-p[i]))));
  CHECK(draws > (double)n - 1e-6);
  return draws;
}

static void check_counts(size_t n, int64_t range, uint32_t flags, int64_t step,
                         int (*is_there)(int)) {
  int replaces = flags != 0;
  double all = 0;
  begin_counting();
  for (int i = 0; i < CALLS; i++) {
    emb_sample_how how = law((uint64_t)i, range, flags);
    if (!CHECK_EQ_INT(sample(n, &how), n))
      return;
    double draws = draws_of(n, replaces);
    for (size_t j = 0; j < n; j++)
      counts[drawn[j] / step]++;
    for (int k = 0; k < KEYS; k++) {
      double of = rank_p((double)(k * step), (double)range);
      if (is_there(k))
        expected[k] += replaces ? draws * of : -expm1(draws * log1p(-of));
    }
  }
  for (int k = 0; k < KEYS; k++)
    all += expected[k];
  CHECK(fabs(all / (double)CALLS / (double)n - 1) < 0.01);
  CHECK(chance_ratio(counts, expected, KEYS) < 1);
}

static int is_any(int key) { return key >= 0; }
static int is_left(int key) { return key % 3 != 1; }

TEST(expected_counts_fit_what_comes) {
  open_table(0);
  put_all(1);
  check_counts(100, KEYS, 0, 1, is_any);
  check_counts(300, KEYS, 0, 1, is_any);
  for (int64_t k = 1; k < KEYS; k += 3)
    OK(s, emb_delete(s, &k, 1, NULL));
  check_counts(400, KEYS, EMB_SAMPLE_REPLACE, 1, is_left);
  check_counts(100, KEYS, 0, 1, is_left);
  help_close(store, s);
}

/* Few ranks are keys, so the keys are listed. */
TEST(few_ranks_are_keys) {
  enum { STEP = 100000 };
  open_table(0);
  put_all(STEP);
  check_counts(400, (int64_t)KEYS * STEP, EMB_SAMPLE_REPLACE, STEP, is_any);
  emb_sample_how how = law(1, (int64_t)KEYS * STEP, 0);
  CHECK_EQ_INT(sample(50, &how), 50);
  draws_of(50, 0);
  /* All keys; and with a range, only the keys in it. */
  CHECK_EQ_INT(sample(KEYS + 1, &how), KEYS);
  CHECK(mean[0] == 1 && mean[KEYS - 1] == 1);
  how.range = 10 * STEP + 1;
  CHECK_EQ_INT(sample(50, &how), 11);
  for (int i = 0; i < 11; i++)
    CHECK(drawn[i] <= 10 * STEP &&
          near(p[i], rank_p((double)drawn[i], 10 * STEP + 1)));
  int64_t without[] = {0, 10 * STEP, 3 * STEP};
  how.without = without;
  how.without_count = 3;
  CHECK_EQ_INT(sample(50, &how), 8);
  for (int i = 0; i < 8; i++)
    CHECK(drawn[i] && drawn[i] != 10 * STEP && drawn[i] != 3 * STEP);
  help_close(store, s);
}

TEST(no_key_is_a_rank) {
  open_table(0);
  put(-1, 1);
  put(-7, 1);
  emb_sample_how how = law(1, 0, 0);
  CHECK_EQ_INT(sample(5, &how), 0);
  how.range = 100;
  CHECK_EQ_INT(sample(5, &how), 0);
  how.flags |= EMB_SAMPLE_REPLACE;
  CHECK_EQ_INT(sample(5, &how), 0);
  put(INT64_MAX, 1);
  how.range = 0;
  CHECK_EQ_INT(sample(5, &how), 0); /* above the highest rank */
  how.range = INT64_MAX;
  CHECK_EQ_INT(sample(5, &how), 0);
  help_close(store, s);
}

/* ---- by frequency -------------------------------------------------------- */

static int updates[KEYS];

static emb_sample_how often(uint64_t seed, double power, uint32_t flags) {
  return (emb_sample_how){.distribution = EMB_FREQUENCY,
                          .flags = EMB_SAMPLE_SEEDED | flags,
                          .seed = seed,
                          .power = power};
}

static void update(int64_t key, int times) {
  put(key, times);
  updates[key] += times;
}

static void check_power(double power, uint64_t seed) {
  double all = 0;
  begin_counting();
  for (int k = 0; k < KEYS; k++)
    all += updates[k] ? pow(updates[k], power) : 0;
  for (int i = 0; i < CALLS; i++) {
    emb_sample_how how = often(seed + (uint64_t)i, power, EMB_SAMPLE_REPLACE);
    if (!CHECK_EQ_INT(sample(500, &how), 500))
      return;
    for (int j = 0; j < 500; j++) {
      double of = pow(updates[drawn[j]], power) / all;
      CHECK(near(p[j], of) && near(mean[j], 500 * of));
      counts[drawn[j]]++;
    }
  }
  for (int k = 0; k < KEYS; k++)
    expected[k] = updates[k] ? 500.0 * CALLS * pow(updates[k], power) / all : 0;
  CHECK(chance_ratio(counts, expected, KEYS) < 1);
}

TEST(keys_come_by_how_often_they_were_updated) {
  open_table(EMB_TRACK_WALL);
  memset(updates, 0, sizeof updates);
  for (int k = 0; k < KEYS; k++)
    update(k, 1 + k % 10 + (k % 100 ? 0 : 200));
  check_power(1, 1);
  check_power(0.75, 2000);
  check_power(0, 4000);
  check_power(2, 6000);
  check_power(0.5, 8000);
  check_power(0.25, 10000);
  CHECK_EQ_INT(help_stat(store, "sample_counted"), 1);
  CHECK(help_stat(store, "sample_bytes") >= KEYS * 8);
  /* Changes by less than an eighth are not seen, larger ones are. */
  for (int k = 0; k < KEYS; k += 100)
    put(k, 2);
  check_power(1, 20000);
  CHECK_EQ_INT(help_stat(store, "sample_counted"), 1);
  for (int k = 0; k < KEYS; k += 100)
    updates[k] += 2;
  for (int k = 0; k < KEYS; k += 4)
    update(k, 9);
  check_power(0.75, 30000);
  CHECK_EQ_INT(help_stat(store, "sample_counted"), 2);
  help_close(store, s);
}

TEST(keys_that_went_do_not_come) {
  open_table(EMB_TRACK_WALL);
  memset(updates, 0, sizeof updates);
  for (int k = 0; k < KEYS; k++)
    update(k, 1 + k % 3);
  emb_sample_how how = often(1, 1, EMB_SAMPLE_REPLACE);
  CHECK_EQ_INT(sample(500, &how), 500);
  for (int64_t k = 0; k < KEYS; k += 10)
    OK(s, emb_delete(s, &k, 1, NULL));
  int64_t without[] = {1, 2, 3};
  how.without = without;
  how.without_count = 3;
  CHECK_EQ_INT(sample(2000, &how), 2000);
  double draws = draws_of(2000, 1);
  CHECK(draws > 2100 && draws < 2400); /* a tenth of them failed */
  for (int i = 0; i < 2000; i++)
    CHECK(drawn[i] % 10 && drawn[i] > 3);
  how.flags &= ~(uint32_t)EMB_SAMPLE_REPLACE;
  CHECK_EQ_INT(sample(2000, &how), 897);
  CHECK_EQ_INT(help_stat(store, "sample_counted"), 1);
  for (int64_t k = 0; k < KEYS; k++)
    OK(s, emb_delete(s, &k, 1, NULL));
  CHECK_EQ_INT(sample(10, &how), 0);
  CHECK_EQ_INT(help_stat(store, "sample_counted"), 2);
  help_close(store, s);
}

/* Without replacement, and with weights so unequal that plain drawing would not
** end, against successive draws from the remaining keys. */
TEST(unequal_weights_without_replacement) {
  enum { FEW = 10, RUNS = 4000 };
  double weights[FEW];
  open_table(EMB_TRACK_WALL);
  for (int k = 0; k < FEW; k++) {
    put(k, 1 + k % 5);
    weights[k] = pow(1 + k % 5, 8);
  }
  begin_counting();
  for (int i = 0; i < RUNS; i++) {
    emb_sample_how how = often((uint64_t)i, 8, 0);
    CHECK_EQ_INT(sample(7, &how), 7);
    for (int j = 0; j < 7; j++)
      counts[drawn[j]]++;
    for (int j = 0; j < 7; j++)
      CHECK(mean[j] > 0 && mean[j] <= 1);
  }
  uint64_t random = 12345;
  for (int i = 0; i < RUNS; i++) {
    int gone[FEW] = {0};
    for (int j = 0; j < 7; j++) {
      double all = 0, sum = 0;
      int k = 0;
      for (int m = 0; m < FEW; m++)
        all += gone[m] ? 0 : weights[m];
      double at = (double)(test_random_from(&random) >> 11) * 0x1p-53 * all;
      for (k = 0; k < FEW - 1; k++) {
        sum += gone[k] ? 0 : weights[k];
        if (!gone[k] && at < sum)
          break;
      }
      while (gone[k])
        k--;
      gone[k] = 1;
      expected[k]++;
    }
  }
  for (int k = 0; k < FEW; k++) /* standard deviation at most 45 */
    CHECK(fabs((double)counts[k] - expected[k]) < 300);
  help_close(store, s);
}

/* ---- no memory ----------------------------------------------------------- */

static struct env poor;
static long left = -1; /* allocations that succeed; -1: all */

static int is_poor(void) { return left >= 0 && left-- == 0; }

static void *poor_allocate(struct env *env, size_t bytes) {
  if (is_poor()) {
    left = 0;
    return NULL;
  }
  return env_posix.allocate(env, bytes);
}

static void *poor_resize(struct env *env, void *old, size_t bytes) {
  if (is_poor()) {
    left = 0;
    return NULL;
  }
  return env_posix.resize(env, old, bytes);
}

/* Each allocation of the call fails, together with all later ones. */
static void fail_each(size_t n, emb_sample_how how) {
  long failed = 0;
  int rc = EMB_NOMEM;
  for (; rc && failed < 100; failed++) {
    size_t count = 9;
    left = failed;
    rc = emb_sample(s, n, &how, &(emb_samples){drawn, NULL, p, mean}, &count);
    left = -1;
    if (rc) {
      CHECK_EQ_INT(rc, EMB_NOMEM);
      CHECK_STR(emb_errmsg(s), "out of memory");
      CHECK_EQ_INT(count, 0);
    } else
      CHECK_EQ_INT(count, n);
  }
  CHECK(failed > 3 && failed < 100);
  test_count("allocations failed", (uint64_t)failed - 1);
}

TEST(no_memory) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_TEMPORARY | EMB_OPEN_STEP,
                       .track = EMB_TRACK_WALL};
  poor = env_posix;
  poor.allocate = poor_allocate;
  poor.resize = poor_resize;
  env_set_default(&poor);
  help_open(test_dir(), &config, &store, &s);
  put_all(100000);
  fail_each(100, (emb_sample_how){.flags = EMB_SAMPLE_SEEDED});
  fail_each(KEYS, (emb_sample_how){.flags = EMB_SAMPLE_SEEDED});
  fail_each(100, law(1, 0, 0));
  fail_each(100, law(1, 0, EMB_SAMPLE_REPLACE));
  fail_each(100, often(1, 0.5, 0));
  fail_each(KEYS, often(1, 0.5, 0));
  help_close(store, s);
  env_set_default(&env_posix);
}
