/* SPDX-License-Identifier: MIT
**
** sample.c -- emb_sample: uniform draws, with and without replacement, in every
** state of a table; the values returned with the rows; errors.
**
** Counts are compared with the expected ones by chi-square tests
** (chance_help.h).
*/
#include "chance_help.h"
#include "env_memory.h"
#include "store_help.h"

#include "engine/base/hash.h"

#include <math.h>

enum { DIM = 8, KEYS = 6000, CALLS = 600, ROWS = 500 };

static uint64_t counts[2 * KEYS];
static double expected[2 * KEYS];
static int64_t drawn[4 * KEYS];
static double p[4 * KEYS], mean[4 * KEYS];

static void open_table(emb_store **store, emb_session **s, uint64_t memory,
                       uint32_t flags) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | flags, .memory_bytes = memory};
  help_open(help_path("store"), &config, store, s);
}

static void put(emb_session *s, const int64_t *keys, size_t n) {
  float *vectors = calloc(n, DIM * sizeof *vectors);
  for (size_t i = 0; i < n; i++)
    help_vector(vectors + i * DIM, DIM, keys[i], 7);
  OK(s, emb_put(s, keys, n, vectors, NULL));
  free(vectors);
}

/* Keys from..to-1, times 7 so that they are not dense. */
static void put_range(emb_session *s, int from, int to) {
  static int64_t keys[2 * KEYS];
  for (int i = from; i < to; i++)
    keys[i - from] = (int64_t)i * 7;
  put(s, keys, (size_t)(to - from));
}

static void delete_range(emb_session *s, int from, int to, int step) {
  for (int i = from; i < to; i += step) {
    int64_t key = (int64_t)i * 7;
    OK(s, emb_delete(s, &key, 1, NULL));
  }
}

static emb_sample_how seeded(uint64_t seed, uint32_t flags) {
  return (emb_sample_how){.flags = EMB_SAMPLE_SEEDED | flags, .seed = seed};
}

static size_t sample(emb_session *s, size_t n, const emb_sample_how *how) {
  const emb_samples to = {drawn, NULL, p, mean};
  size_t count = 0;
  OK(s, emb_sample(s, n, how, &to, &count));
  return count;
}

/* Draws often, and compares the counts with equal counts of all keys. */
static double uniformity(emb_session *s, uint32_t flags, size_t rows,
                         uint64_t seed) {
  size_t there = 0, all = 0;
  memset(counts, 0, sizeof counts);
  for (int i = 0; i < CALLS; i++) {
    emb_sample_how how = seeded(seed + (uint64_t)i, flags);
    size_t n = sample(s, rows, &how);
    for (size_t j = 0; j < n; j++) {
      if (!CHECK(drawn[j] % 7 == 0 && drawn[j] / 7 < 2 * KEYS))
        return INFINITY;
      counts[drawn[j] / 7]++;
    }
    all += n;
  }
  for (int i = 0; i < 2 * KEYS; i++) {
    int64_t key = (int64_t)i * 7;
    uint8_t found = 0;
    OK(s, emb_exists(s, &key, 1, &found));
    expected[i] = found;
    there += found;
    if (!found)
      CHECK_EQ_INT(counts[i], 0);
  }
  CHECK_EQ_INT(there, emb_count(s));
  for (int i = 0; i < 2 * KEYS; i++)
    expected[i] *= (double)all / (double)there;
  return chance_ratio(counts, expected, 2 * KEYS);
}

static void check_uniform(emb_session *s, uint64_t seed, const char *state) {
  double with = uniformity(s, EMB_SAMPLE_REPLACE, ROWS, seed);
  double without = uniformity(s, 0, ROWS, seed + CALLS);
  test_check(with < 1 && without < 1, __FILE__, __LINE__,
             "%s: chi-square %g and %g of the limit", state, with, without);
}

TEST(each_key_is_drawn_alike_in_every_state) {
  emb_store *store;
  emb_session *s;
  open_table(&store, &s, 0, 0);
  put_range(s, 0, KEYS);
  check_uniform(s, 1, "filled");
  put_range(s, KEYS, 2 * KEYS);
  check_uniform(s, 100000, "grown");
  for (int i = 0; i < 2 * KEYS; i++)
    if (i % 10)
      delete_range(s, i, i + 1, 1);
  check_uniform(s, 200000, "90 % deleted");
  put_range(s, 0, KEYS / 4);
  check_uniform(s, 300000, "filled again");
  help_close(store, s);
  open_table(&store, &s, 0, 0);
  check_uniform(s, 400000, "opened again");
  help_close(store, s);
}

/* The index shrinks before a draw from the few keys left of many. */
TEST(a_table_that_was_large) {
  enum { ALL = 60000, LEFT = ALL / 20 };
  emb_store *store;
  emb_session *s;
  static int64_t keys[ALL];
  open_table(&store, &s, 0, 0);
  for (int i = 0; i < ALL; i++)
    keys[i] = i;
  put(s, keys, ALL);
  for (int64_t i = 0; i < ALL; i++)
    if (i % 20)
      OK(s, emb_delete(s, &i, 1, NULL));
  int64_t bytes = help_stat(store, "index_bytes");
  memset(counts, 0, sizeof counts);
  for (uint64_t i = 0; i < CALLS; i++) {
    emb_sample_how how = seeded(i, EMB_SAMPLE_REPLACE);
    CHECK_EQ_INT(sample(s, ROWS, &how), ROWS);
    for (int j = 0; j < ROWS; j++) {
      CHECK(drawn[j] % 20 == 0);
      counts[drawn[j] / 20]++;
    }
  }
  for (int i = 0; i < LEFT; i++)
    expected[i] = (double)CALLS * ROWS / LEFT;
  CHECK(chance_ratio(counts, expected, LEFT) < 1);
  CHECK(help_stat(store, "index_bytes") < bytes / 2);
  CHECK(help_verify(s));
  put(s, keys, ALL);
  CHECK_EQ_INT(sample(s, ROWS, NULL), ROWS);
  CHECK_EQ_INT(emb_count(s), ALL);
  help_close(store, s);
}

/* Half of all keys are in one partition of 1024.  A sampler that draws a
** partition first and then one of its keys draws these too rarely. */
TEST(partitions_of_unequal_size) {
  emb_store *store;
  emb_session *s;
  size_t crowd = 0, others = 0, n = 0;
  int64_t keys[3000];
  uint64_t got = 0, all = 0;
  open_table(&store, &s, 0, 0);
  for (int64_t key = 0; n < 3000; key++) {
    int is = hash_key(key) >> 54 == 0;
    if (is ? crowd < 1500 : others < 1500) {
      keys[n++] = key;
      crowd += (size_t)is;
      others += (size_t)!is;
    }
  }
  put(s, keys, n);
  for (uint64_t i = 0; i < 400; i++) {
    emb_sample_how how = seeded(i, EMB_SAMPLE_REPLACE);
    size_t m = sample(s, 100, &how);
    for (size_t j = 0; j < m; j++)
      got += hash_key(drawn[j]) >> 54 == 0;
    all += m;
  }
  CHECK_EQ_INT(all, 40000);
  /* mean 20,000, standard deviation 100: six of them */
  CHECK(got > 19400 && got < 20600);
  help_close(store, s);
}

/* The test has power: it catches a sampler that is slightly biased. */
TEST(a_biased_sampler_is_caught) {
  emb_store *store;
  emb_session *s;
  open_table(&store, &s, 0, 0);
  put_range(s, 0, KEYS);
  memset(counts, 0, sizeof counts);
  double all = 0;
  uint64_t random = 1;
  for (int i = 0; i < CALLS; i++) {
    emb_sample_how how = seeded((uint64_t)i, EMB_SAMPLE_REPLACE);
    size_t n = sample(s, ROWS, &how);
    for (size_t j = 0; j < n; j++) {
      /* every second key is drawn 15 % less often */
      if (drawn[j] / 7 % 2 && test_random_from(&random) % 100 < 15)
        continue;
      counts[drawn[j] / 7]++;
      all++;
    }
  }
  for (int i = 0; i < KEYS; i++)
    expected[i] = all / KEYS;
  CHECK(chance_ratio(counts, expected, KEYS) > 1);
  help_close(store, s);
}

static void check_unique(size_t n) {
  qsort(drawn, n, sizeof *drawn, help_compare_keys);
  for (size_t i = 1; i < n; i++)
    CHECK(drawn[i - 1] < drawn[i]);
}

TEST(what_is_told_of_the_rows) {
  emb_store *store;
  emb_session *s;
  open_table(&store, &s, 0, 0);
  put_range(s, 0, KEYS);
  emb_sample_how how = seeded(3, 0);
  for (size_t n = 1; n <= KEYS; n = n * 3 + 1) {
    CHECK_EQ_INT(sample(s, n, &how), n);
    for (size_t i = 0; i < n; i++)
      CHECK(p[i] == (double)n / KEYS && mean[i] == p[i]);
    check_unique(n);
  }
  CHECK_EQ_INT(sample(s, KEYS, &how), KEYS);
  CHECK(p[0] == 1 && mean[0] == 1);
  check_unique(KEYS);
  /* A request for more rows than exist gives all rows. */
  CHECK_EQ_INT(sample(s, KEYS + 1, &how), KEYS);
  check_unique(KEYS);
  how.flags |= EMB_SAMPLE_REPLACE;
  CHECK_EQ_INT(sample(s, 2 * KEYS, &how), 2 * KEYS);
  for (size_t i = 0; i < 2 * KEYS; i++)
    CHECK(p[i] == 1.0 / KEYS && mean[i] == 2);
  CHECK_EQ_INT(sample(s, 0, &how), 0);
  /* Only keys, with the defaults. */
  size_t count = 0;
  OK(s, emb_sample(s, 5, NULL, &(emb_samples){.keys = drawn}, &count));
  CHECK_EQ_INT(count, 5);
  check_unique(5);
  help_close(store, s);
}

TEST(what_must_not_come_does_not) {
  enum { WITHOUT = 2000 };
  emb_store *store;
  emb_session *s;
  int64_t *without = malloc((WITHOUT + 500) * sizeof *without);
  open_table(&store, &s, 0, 0);
  put_range(s, 0, KEYS);
  for (int i = 0; i < WITHOUT; i++)
    without[i] = (int64_t)i * 3 * 7;
  for (int i = 0; i < 250; i++) {
    without[WITHOUT + i] = -i - 1;                /* not in the table */
    without[WITHOUT + 250 + i] = (int64_t)i * 21; /* repeated */
  }
  size_t left = KEYS - WITHOUT;
  for (uint32_t flags = 0; flags <= EMB_SAMPLE_REPLACE; flags++)
    for (size_t n = 100; n <= 6400; n *= 8) {
      emb_sample_how how = seeded(n, flags);
      how.without = without;
      how.without_count = WITHOUT + 500;
      size_t m = flags || n < left ? n : left;
      if (!CHECK_EQ_INT(sample(s, n, &how), m))
        continue;
      for (size_t i = 0; i < m; i++) {
        CHECK(drawn[i] / 7 % 3 || drawn[i] / 7 >= 3 * WITHOUT);
        CHECK(p[i] == (flags ? 1.0 : (double)m) / (double)left);
        CHECK(fabs(mean[i] - (double)m / (double)left) < 1e-12);
      }
      if (!flags)
        check_unique(m);
    }
  /* No key may be drawn. */
  for (int i = 0; i < WITHOUT; i++)
    without[i] = (int64_t)i * 7;
  delete_range(s, WITHOUT, KEYS, 1);
  for (uint32_t flags = 0; flags <= EMB_SAMPLE_REPLACE; flags++) {
    emb_sample_how how = seeded(1, flags);
    how.without = without;
    how.without_count = WITHOUT;
    CHECK_EQ_INT(sample(s, 10, &how), 0);
  }
  free(without);
  help_close(store, s);
}

/* With few keys the sample depends on the keys alone; with many, also on how
** they were added and removed. */
TEST(a_seed_repeats_the_sample) {
  static int64_t first[2][KEYS];
  emb_store *store;
  emb_session *s;
  for (int round = 0; round < 2; round++) {
    open_table(&store, &s, 0, EMB_OPEN_EXCLUSIVE);
    put_range(s, 0, KEYS);
    delete_range(s, 0, KEYS, 4);
    for (uint32_t flags = 0; flags <= EMB_SAMPLE_REPLACE; flags++) {
      emb_sample_how how = seeded(99, flags);
      CHECK_EQ_INT(sample(s, 1000, &how), 1000);
      if (round)
        CHECK(!memcmp(first[flags], drawn, 1000 * sizeof *drawn));
      memcpy(first[flags], drawn, 1000 * sizeof *drawn);
      put_range(s, 1, 3); /* existing keys */
      CHECK_EQ_INT(sample(s, 1000, &how), 1000);
      CHECK(!memcmp(first[flags], drawn, 1000 * sizeof *drawn));
      how.seed++;
      CHECK_EQ_INT(sample(s, 1000, &how), 1000);
      CHECK(memcmp(first[flags], drawn, 1000 * sizeof *drawn) != 0);
    }
    help_close(store, s);
  }
  for (int round = 0; round < 2; round++) {
    emb_sample_how how = seeded(5, 0);
    open_table(&store, &s, 0, EMB_OPEN_EXCLUSIVE);
    for (int i = 0; i < 500; i++)
      put_range(s, round ? 499 - i : i, (round ? 499 - i : i) + 1);
    CHECK_EQ_INT(sample(s, 400, &how), 400);
    if (round)
      CHECK(!memcmp(first[0], drawn, 400 * sizeof *drawn));
    memcpy(first[0], drawn, 400 * sizeof *drawn);
    help_close(store, s);
  }
  open_table(&store, &s, 0, 0); /* opened again */
  emb_sample_how how = seeded(5, 0);
  CHECK_EQ_INT(sample(s, 400, &how), 400);
  CHECK(!memcmp(first[0], drawn, 400 * sizeof *drawn));
  /* Without a seed each call gives another sample. */
  how.flags = 0;
  CHECK_EQ_INT(sample(s, 200, &how), 200);
  memcpy(first[0], drawn, 200 * sizeof *drawn);
  CHECK_EQ_INT(sample(s, 200, &how), 200);
  CHECK(memcmp(first[0], drawn, 200 * sizeof *drawn) != 0);
  help_close(store, s);
}

/* Keys below `from` and from `to` on are not drawn. */
static void check_only(emb_session *s, int from, int to, uint32_t flags,
                       size_t n) {
  emb_sample_how how = seeded(1, flags);
  memset(counts, 0, sizeof counts);
  for (int i = 0; i < 40; i++) {
    how.seed++;
    size_t m = sample(s, n, &how);
    CHECK(flags ? m == n : m == n || m == (size_t)(to - from));
    for (size_t j = 0; j < m; j++) {
      CHECK(drawn[j] >= from * 7 && drawn[j] < to * 7);
      counts[drawn[j] / 7]++;
    }
  }
  for (int i = from; i < to && n * 20 > (size_t)(to - from) * 10; i++)
    CHECK(counts[i] > 0);
}

TEST(transactions) {
  emb_store *store;
  emb_session *s, *other;
  emb_err err;
  static int64_t keys[200];
  static float vectors[200 * DIM];
  open_table(&store, &s, 0, 0);
  CHECK_EQ_INT(emb_session_open(store, &other, &err), EMB_OK);
  put_range(s, 0, 900);
  OK(s, emb_begin(s));
  for (int i = 0; i < 200; i++)
    keys[i] = (int64_t)(900 + i) * 7;
  OK(s, emb_txn_put(s, keys, 200, vectors));
  for (int i = 0; i < 100; i++)
    keys[i] = (int64_t)i * 7;
  OK(s, emb_txn_delete(s, keys, 100, NULL));
  /* From the index, and from a list. */
  for (size_t n = 300; n <= 2400; n *= 8)
    for (uint32_t flags = 0; flags <= EMB_SAMPLE_REPLACE; flags++) {
      check_only(s, 100, 1100, flags, n);
      check_only(other, 0, 900, flags, n);
    }
  emb_rollback(s);
  check_only(s, 0, 900, 0, 300);
  OK(s, emb_begin(s));
  OK(s, emb_txn_delete(s, keys, 100, NULL));
  uint64_t number;
  OK(s, emb_prepare(s, &number));
  OK(s, emb_commit(s));
  check_only(other, 100, 900, EMB_SAMPLE_REPLACE, 300);
  emb_session_close(other);
  help_close(store, s);
}

static void check_vectors(emb_session *s, size_t n, uint32_t flags) {
  float *vectors = malloc(n * DIM * sizeof *vectors);
  emb_sample_how how = seeded(n, flags);
  size_t count = 0;
  OK(s,
     emb_sample(s, n, &how, &(emb_samples){drawn, vectors, p, mean}, &count));
  CHECK_EQ_INT(count, n);
  for (size_t i = 0; i < count; i++)
    CHECK(help_is(vectors + i * DIM, DIM, drawn[i], 7));
  if (!flags)
    check_unique(count);
  free(vectors);
}

TEST(vectors_come_with_their_keys) {
  emb_store *store;
  emb_session *s;
  open_table(&store, &s, 1 << 20, 0);
  for (int i = 0; i < 12; i++)
    put_range(s, i * 1000, i * 1000 + 1000);
  for (uint32_t flags = 0; flags <= EMB_SAMPLE_REPLACE; flags++) {
    check_vectors(s, 1, flags);
    check_vectors(s, 3000, flags);
    check_vectors(s, 10000, flags);
  }
  help_close(store, s);
  open_table(&store, &s, 1 << 20, EMB_OPEN_COLD); /* all on disk */
  check_vectors(s, 3000, 0);
  check_vectors(s, 3000, EMB_SAMPLE_REPLACE);
  CHECK(help_stat(store, "get_disk") > 0);
  help_close(store, s);
}

TEST(errors) {
  emb_store *store;
  emb_session *s;
  size_t count = 9;
  const emb_samples to = {.keys = drawn};
  open_table(&store, &s, 0, 0);
  CHECK_EQ_INT(sample(s, 10, NULL), 0); /* an empty table */
  put_range(s, 0, 3000);
  GIVES(s, EMB_RANGE,
        emb_sample(s, (size_t)EMB_SAMPLE_MAX + 1, NULL, &to, &count));
  CHECK_EQ_INT(count, 0);
  CHECK_STR(emb_errmsg(s),
            "the number of rows must be between 0 and 268435456, "
            "got 268435457");
  GIVES(s, EMB_RANGE,
        emb_sample(s, 1, &(emb_sample_how){.distribution = 3}, &to, &count));
  CHECK_STR(emb_errmsg(s), "unknown distribution 3");
  GIVES(s, EMB_RANGE,
        emb_sample(
            s, 1,
            &(emb_sample_how){.distribution = EMB_LOG_UNIFORM, .range = -1},
            &to, &count));
  CHECK_STR(emb_errmsg(s),
            "the range must be between 1 and 9223372036854775807, got -1");
  GIVES(
      s, EMB_RANGE,
      emb_sample(s, 1,
                 &(emb_sample_how){.distribution = EMB_FREQUENCY, .power = NAN},
                 &to, &count));
  GIVES(
      s, EMB_RANGE,
      emb_sample(s, 1,
                 &(emb_sample_how){.distribution = EMB_FREQUENCY, .power = 8.5},
                 &to, &count));
  CHECK_STR(emb_errmsg(s), "the power must be between 0 and 8, got 8.5");
  GIVES(s, EMB_UNFIT,
        emb_sample(s, 1, &(emb_sample_how){.distribution = EMB_FREQUENCY}, &to,
                   &count));
  CHECK(strstr(emb_errmsg(s), "was created without track=") != NULL);
  emb_session_interrupt(s, help_interrupt, NULL);
  GIVES(s, EMB_INTERRUPT, emb_sample(s, 2500, NULL, &to, &count));
  GIVES(s, EMB_INTERRUPT,
        emb_sample(s, 4 * KEYS, &(emb_sample_how){.flags = EMB_SAMPLE_REPLACE},
                   &to, &count));
  emb_session_interrupt(s, NULL, NULL);
  help_close(store, s);
}
