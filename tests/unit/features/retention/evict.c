/* SPDX-License-Identifier: MIT
**
** evict.c -- tables with a capacity: how many rows stay, which rows, and the
** cost of the choice.  The test moves the clock.
*/
#include "forget_help.h"

#include <math.h>

enum { KEYS = 6000, DIM = 30, BATCH = 200, CAPACITY = 2000 };

/* Number of the newest write, 0: absent; saved: when the transaction began. */
static int32_t rows[KEYS], saved[KEYS];

static emb_config config(uint64_t capacity, uint32_t evict) {
  emb_config c = forget_config(DIM);
  c.capacity = capacity;
  c.evict = evict;
  return c;
}

static void begin(void) {
  forget_begin();
  memset(rows, 0, sizeof rows);
}

/* Checks that the model's missing rows are as many as the store says were
** evicted (if evicted >= 0), and that the rows present are right.  Returns how
** many are missing. */
static uint64_t check_all(emb_session *s, int64_t evicted) {
  static int64_t keys[KEYS];
  static float vectors[KEYS * DIM];
  static uint8_t found[KEYS];
  int64_t gone = 0;
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(s, emb_peek(s, keys, KEYS, vectors, found, NULL));
  for (int i = 0; i < KEYS; i++) {
    if (found[i]) {
      CHECK(rows[i] != 0 && help_is(vectors + i * DIM, DIM, i, rows[i]));
    } else {
      gone += rows[i] != 0;
      rows[i] = 0;
    }
  }
  if (evicted >= 0)
    CHECK_EQ_INT(gone, evicted);
  return (uint64_t)gone;
}

static void write_some(emb_session *s, int32_t round) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  size_t n = 1 + test_random() % BATCH;
  int from = (int)(test_random() % KEYS), transaction = emb_in_transaction(s);
  for (size_t i = 0; i < n; i++) {
    keys[i] = (from + (int)i) % KEYS;
    help_vector(vectors + i * DIM, DIM, keys[i], round % 1900 + 1);
    rows[keys[i]] = round % 1900 + 1;
  }
  if (test_random() % 6) {
    OK(s, transaction ? emb_txn_put(s, keys, n, vectors)
                      : emb_put(s, keys, n, vectors, NULL));
    if (!transaction)
      CHECK(emb_count(s) <= CAPACITY + CAPACITY / 8 + BATCH);
  } else {
    OK(s, transaction ? emb_txn_delete(s, keys, n, NULL)
                      : emb_delete(s, keys, n, NULL));
    for (size_t i = 0; i < n; i++)
      rows[keys[i]] = 0;
  }
}

/* No evicted row comes back after a kill. */
static void check_copy(const char *dir, emb_session *s, const emb_config *c) {
  static int32_t before[KEYS];
  emb_store *store;
  emb_session *other;
  int64_t key = -5;
  if (forget_open_copy(dir, s, c, &store, &other)) {
    check_all(s, -1);
    memcpy(before, rows, sizeof rows);
    check_all(other, 0);
    OK(other, emb_evict(other, NULL));
    CHECK(emb_count(other) <= CAPACITY);
    memcpy(rows, before, sizeof rows);
    help_verify(other);
    help_close(store, other);
  }
  OK(s, emb_delete(s, &key, 1, NULL));
}

static void against_a_model(uint32_t evict) {
  char dir[512];
  emb_config c = config(CAPACITY, evict);
  emb_store *store;
  emb_session *s;
  uint64_t evicted = 0, restarts = 0;
  int64_t before = 0;
  begin();
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!help_open(dir, &c, &store, &s))
    return;
  for (int32_t round = 0; round < (int32_t)help_amount(300); round++) {
    int open = emb_in_transaction(s);
    failing_pass(&forget_env, 1000000);
    switch (test_random() % 14) {
    case 0:
      forget_steps(store);
      if (!open && emb_is_owner(store))
        CHECK(emb_count(s) <= CAPACITY);
      break;
    case 1:
      if (open) {
        GIVES(s, EMB_LOCKED, emb_evict(s, NULL));
        break;
      }
      OK(s, emb_evict(s, NULL));
      CHECK(emb_count(s) <= CAPACITY);
      if (test_random() % 4 == 0) {
        check_copy(dir, s, &c);
        before = help_stat(store, "evicted_keys");
      }
      break;
    case 2:
      if (!open)
        OK(s, emb_checkpoint(s));
      break;
    case 3:
      if (!open && test_random() % 2) {
        help_close(store, s);
        restarts++;
        before = 0;
        c.capacity = c.evict = 0; /* the store's own */
        if (!help_open(dir, &c, &store, &s))
          return;
        check_all(s, 0);
      }
      break;
    case 4:
      if (!open) {
        memcpy(saved, rows, sizeof rows);
        OK(s, emb_begin(s));
        break;
      }
      if (test_random() % 2) {
        OK(s, emb_commit(s));
      } else {
        emb_rollback(s);
        memcpy(rows, saved, sizeof rows);
      }
      /* Rows evicted in the meantime may have been put again. */
      evicted += check_all(s, -1);
      before = help_stat(store, "evicted_keys");
      break;
    default:
      write_some(s, round);
    }
    if (!emb_in_transaction(
            s)) { /* else the model contains uncommitted changes */
      evicted += check_all(s, help_stat(store, "evicted_keys") - before);
      before = help_stat(store, "evicted_keys");
    }
  }
  if (emb_in_transaction(s))
    OK(s, emb_commit(s));
  OK(s, emb_evict(s, NULL));
  check_all(s, -1);
  CHECK(emb_count(s) <= CAPACITY);
  help_verify(s);
  HELP_CAME(evicted > 0);
  help_close(store, s);
  forget_end();
  test_count("evicted rows", evicted);
  test_count("restarts of a table that evicts", restarts);
}

TEST(lru_against_a_model) { against_a_model(EMB_EVICT_LRU); }
TEST(lfu_against_a_model) { against_a_model(EMB_EVICT_LFU); }

/* No background steps run: the writer alone keeps the bound. */
TEST(a_writer_alone) {
  emb_config c = config(CAPACITY, EMB_EVICT_LRU);
  emb_store *store;
  emb_session *s;
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH];
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (int64_t at = 0; at < 100 * BATCH; at += BATCH) {
    for (int64_t i = 0; i < BATCH; i++)
      keys[i] = at + i;
    OK(s, emb_put(s, keys, BATCH, vectors, NULL));
    CHECK(emb_count(s) <= CAPACITY + CAPACITY / 8 + BATCH);
  }
  CHECK(emb_count(s) > CAPACITY - CAPACITY / 8);
  help_verify(s);
  help_close(store, s);
  forget_end();
}

/* ---- which rows ---------------------------------------------------------- */

enum { WORLD = 100000, ROOM = 10000 };

struct row {
  uint64_t order; /* of the newest write */
  uint32_t updated_at, frequency;
};
static struct row world[WORLD];
static double score[WORLD];
static int64_t sorted[WORLD];

/* Zipf with exponent 1, by inversion of the continuous form. */
static int64_t zipf(void) {
  double u = (double)(test_random() >> 11) * 0x1p-53;
  int64_t rank = (int64_t)pow(WORLD, u) - 1;
  /* Popular keys are scattered. */
  return rank * 7919 % WORLD;
}

static int by_score(const void *a, const void *b) {
  double x = score[*(const int64_t *)a], y = score[*(const int64_t *)b];
  return (x > y) - (x < y);
}

/* Sorts the existing rows in the order of eviction. */
static int64_t rank_rows(uint32_t evict) {
  double age = 0;
  int64_t n = 0;
  uint32_t time = forget_now();
  for (int64_t key = 0; key < WORLD; key++)
    if (world[key].order) {
      sorted[n++] = key;
      age += time - world[key].updated_at;
    }
  age = age / (double)n < 1 ? 1 : age / (double)n;
  for (int64_t i = 0; i < n; i++) {
    const struct row *row = &world[sorted[i]];
    score[sorted[i]] = evict == EMB_EVICT_LRU
                           ? (double)row->order
                           : log2(row->frequency) -
                                 (time - row->updated_at) / age +
                                 (double)row->order * 1e-12;
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_score);
  return n;
}

/* After the store evicted rows, counts how many of them an exact choice would
** have evicted too. */
static void judge(emb_session *s, int64_t n, uint64_t *gone, uint64_t *right) {
  static uint8_t found[ROOM * 2];
  int64_t left = 0;
  OK(s, emb_exists(s, sorted, (size_t)n, found));
  for (int64_t i = 0; i < n; i++)
    left += found[i];
  for (int64_t i = 0; i < n; i++) {
    if (!found[i]) {
      *gone += 1;
      *right += i < n - left;
      world[sorted[i]].order = 0;
    }
  }
}

static void choice(uint32_t evict, uint64_t memory) {
  enum { SOME = 100, WIDE = 200 };
  emb_config c = config(ROOM, evict);
  emb_store *store;
  emb_session *s;
  static float vectors[SOME * WIDE];
  int64_t keys[SOME], least = 88; /* percent */
  uint64_t order = 0, gone = 0, right = 0;
  begin();
  memset(world, 0, sizeof world);
  c.dim = WIDE;
  c.memory_bytes = memory;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (unsigned batch = 0; batch < 1500; batch++) {
    uint32_t time = forget_now();
    for (int i = 0; i < SOME; i++) {
      keys[i] = zipf();
      struct row *row = &world[keys[i]];
      row->frequency = row->order ? row->frequency + 1 : 1;
      row->order = ++order;
      row->updated_at = time;
    }
    OK(s, emb_put(s, keys, SOME, vectors, NULL));
    failing_pass(&forget_env, 1000000);
    if (batch % 250 == 249)
      OK(s, emb_checkpoint(s));
    if (emb_count(s) > ROOM) {
      int64_t n = rank_rows(evict);
      CHECK_EQ_INT(n, emb_count(s));
      forget_steps(store);
      CHECK(emb_count(s) <= ROOM);
      judge(s, n, &gone, &right);
    }
  }
  CHECK(gone > 1000);
  CHECK(memory > 1 || help_stat(store, "read_bytes") > 1000000);
  test_check(right * 100 >= gone * (uint64_t)least, __FILE__, __LINE__,
             "%" PRIu64 " of %" PRIu64 " evicted rows were to go first", right,
             gone);
  printf("%s, %s memory: %.1f %% of %" PRIu64
         " evicted rows were those that an exact choice takes\n",
         evict == EMB_EVICT_LRU ? "lru" : "lfu", memory > 1 ? "much" : "little",
         100.0 * (double)right / (double)gone, gone);
  help_close(store, s);
  forget_end();
}

TEST(lru_chooses_well_in_memory) { choice(EMB_EVICT_LRU, 64 << 20); }
TEST(lru_chooses_well_on_disk) { choice(EMB_EVICT_LRU, 1); }
TEST(lfu_chooses_well_in_memory) { choice(EMB_EVICT_LFU, 64 << 20); }
TEST(lfu_chooses_well_on_disk) { choice(EMB_EVICT_LFU, 1); }

/* Rows that were once popular go before rows that are used now and then. */
TEST(lfu_forgets_old_fame) {
  emb_config c = config(1000, EMB_EVICT_LFU);
  emb_store *store;
  emb_session *s;
  static float vectors[100 * DIM];
  int64_t keys[100];
  uint8_t found[100];
  uint64_t left = 0;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (unsigned round = 0; round < 400; round++) {
    /* 100 keys are famous in the first 50 rounds, then others come. */
    for (int i = 0; i < 100; i++)
      keys[i] = round < 50 ? i : 100 + (int64_t)(test_random() % 2000);
    OK(s, emb_put(s, keys, 100, vectors, NULL));
    failing_pass(&forget_env, 10000000);
    forget_steps(store);
    if (round == 60) { /* they do not go immediately */
      for (int i = 0; i < 100; i++)
        keys[i] = i;
      OK(s, emb_peek(s, keys, 100, vectors, found, NULL));
      for (int i = 0; i < 100; i++)
        CHECK(found[i]);
    }
  }
  for (int i = 0; i < 100; i++)
    keys[i] = i;
  OK(s, emb_peek(s, keys, 100, vectors, found, NULL));
  for (int i = 0; i < 100; i++)
    left += found[i];
  CHECK_EQ_INT(left, 0);
  help_close(store, s);
  forget_end();
}

/* ---- cost ---------------------------------------------------------------- */

/* In a table stored in update order, little is read except the rows evicted. */
TEST(the_cost_follows_what_goes) {
  enum { MANY = 200000, PART = 1000 };
  emb_config c = config(MANY, EMB_EVICT_LRU);
  emb_store *store;
  emb_session *s;
  static float vectors[PART * DIM];
  static int64_t keys[PART];
  uint64_t removed;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (int64_t at = 0; at < MANY + PART; at += PART) {
    for (int64_t i = 0; i < PART; i++)
      keys[i] = at + i;
    OK(s, emb_put(s, keys, PART, vectors, NULL));
    failing_pass(&forget_env, 1000000);
  }
  OK(s, emb_checkpoint(s));
  int64_t before = help_stat(store, "read_bytes");
  int64_t bytes = help_stat(store, "record_bytes");
  OK(s, emb_evict(s, &removed));
  int64_t read = help_stat(store, "read_bytes") - before;
  CHECK(removed > 0 && emb_count(s) <= MANY);
  test_check(read < (2 << 20) + 3 * (int64_t)removed * bytes, __FILE__,
             __LINE__, "%" PRId64 " bytes were read for %" PRIu64 " rows", read,
             removed);
  printf("%" PRIu64 " rows of %" PRId64 " bytes went, %" PRId64
         " bytes were read, of a table of %" PRId64 "\n",
         removed, bytes, read, MANY * bytes);
  help_close(store, s);
  forget_end();
}

/* ---- evicted keys -------------------------------------------------------- */

/* Continues reading from *since, in pieces; each row that is gone must be
** listed, and nothing else.  Returns the number of rows listed. */
static uint64_t read_on(emb_session *s, uint64_t *since, uint32_t ttl) {
  static int64_t keys[KEYS];
  static float vectors[KEYS * DIM];
  static uint8_t found[KEYS];
  static int told[KEYS];
  uint64_t all = 0, positions[100], gone = 0;
  int64_t some[100];
  uint8_t ops[100];
  size_t n = 1;
  memset(told, 0, sizeof told);
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(s, emb_peek(s, keys, KEYS, vectors, found, NULL));
  while (n) {
    size_t max = 1 + test_random() % 100;
    if (!OK(s,
            emb_evicted(
                s, *since, max,
                &(emb_rows){.keys = some, .ops = ops, .positions = positions},
                &n)))
      return all;
    CHECK(n <= max);
    for (size_t i = 0; i < n; i++) {
      CHECK(positions[i] > *since);
      *since = positions[i];
      CHECK(ops[i] == EMB_DELTA_EVICT || (ttl && ops[i] == EMB_DELTA_EXPIRE));
      if (CHECK(some[i] >= 0 && some[i] < KEYS))
        told[some[i]]++;
    }
    all += n;
  }
  for (int i = 0; i < KEYS; i++) {
    if (rows[i] && !found[i]) {
      gone++;
      CHECK_EQ_INT(told[i], 1);
      rows[i] = 0;
    }
  }
  CHECK_EQ_INT(gone, all);
  return all;
}

static void told(uint32_t ttl) {
  emb_config c = config(CAPACITY, EMB_EVICT_LRU);
  emb_store *store;
  emb_session *s;
  uint64_t since = 0, all = 0, restarts = 0;
  begin();
  c.ttl = ttl ? "20s" : NULL;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  /* The store keeps everything that the consumer has not acknowledged. */
  OK(s, emb_delta_begin(s, "somebody", EMB_DELTA_NOW, UINT64_C(1) << 40));
  for (int32_t round = 0; round < (int32_t)help_amount(100); round++) {
    failing_pass(&forget_env, 1000000);
    switch (test_random() % 10) {
    case 0:
      forget_steps(store);
      break;
    case 1:
      OK(s, emb_evict(s, NULL));
      OK(s, emb_expire(s, NULL));
      break;
    case 2:
      OK(s, emb_checkpoint(s));
      break;
    case 3:
      if (test_random() % 4 == 0)
        OK(s, emb_optimize(s));
      break;
    case 4:
      if (test_random() % 2)
        break;
      help_close(store, s);
      restarts++;
      if (!help_open(help_path("store"), &c, &store, &s))
        return;
      break;
    default:
      write_some(s, round);
    }
    all += read_on(s, &since, ttl);
  }
  HELP_CAME(all > 0);
  help_verify(s);
  OK(s, emb_begin(s));
  size_t n;
  GIVES(s, EMB_LOCKED, emb_evicted(s, 0, 0, &(emb_rows){0}, &n));
  emb_rollback(s);
  help_close(store, s);
  forget_end();
  test_count("evicted keys that were told", all);
  test_count("restarts between", restarts);
}

TEST(what_was_evicted_is_told) { told(0); }
TEST(what_expired_is_told) { told(1); }

/* ---- options ------------------------------------------------------------- */

TEST(another_capacity) {
  emb_config c = config(1000, EMB_EVICT_LFU);
  emb_store *store;
  emb_session *s;
  static float vectors[BATCH * DIM];
  int64_t keys[BATCH];
  emb_err err;
  begin();
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  for (int64_t i = 0; i < BATCH; i++)
    keys[i] = i;
  OK(s, emb_put(s, keys, BATCH, vectors, NULL));
  help_close(store, s);
  c.capacity = 50;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  OK(s, emb_evict(s, NULL));
  CHECK_EQ_INT(emb_count(s), 47); /* a sixteenth below */
  help_close(store, s);
  c.capacity = EMB_CAPACITY_NONE;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  OK(s, emb_put(s, keys, BATCH, vectors, NULL));
  forget_steps(store);
  CHECK_EQ_INT(emb_count(s), BATCH);
  help_close(store, s);
  c.capacity = 0;
  if (!help_open(help_path("store"), &c, &store, &s))
    return;
  forget_steps(store);
  CHECK_EQ_INT(emb_count(s), BATCH);
  help_close(store, s);
  c.evict = 3;
  CHECK_EQ_INT(emb_open(help_path("other"), &c, &store, &err), EMB_RANGE);
  c.evict = 0;
  c.capacity = 5;
  c.track = EMB_TRACK_NONE;
  CHECK_EQ_INT(emb_open(help_path("other"), &c, &store, &err), EMB_RANGE);
  forget_end();
}
