/* SPDX-License-Identifier: MIT
**
** delta_model.c -- copies that are fed by deltas, during random work.
**
** A store without threads, smaller in memory than on disk; the seed decides
** every call and when background work runs.  LONG=n multiplies the work.
**
** TABLES    One vector, also with a capacity; several vectors, with optimizers;
**           and rows that track, expire, and are admitted only after repeated
**           requests.
** ORACLE    Each consumer has a copy of the table, to which it applies each row
**           that a delta delivers, each key once, also from deltas that it
**           abandons without acknowledging them.  When a delta is complete and
**           nothing was written while it was read, the copy equals the store.
**           The optimizer state is compared with a delta from the beginning.
** CRASHES   The directory is copied as it is and the copy opened: the store has
**           lost changes that were not durable, but the consumers have not.
*/
#include "store_help.h"

#include <xxhash.h>

#include "files.h"

#define ABSENT 0

enum { CONSUMERS = 3, DIM = 256, KEYS = 6000, BATCH = 200 };

struct copy {
  char name[16];
  uint64_t *rows, *states; /* hashes of the vectors, and with the state */
  uint32_t told[KEYS];     /* the last delta that had the row */
  uint32_t number;         /* of the present one */
  emb_delta *delta;
  uint64_t from, writes; /* when it began */
  uint64_t acked, keep;
  int lost;
};

struct model {
  char dir[512];
  unsigned lives;
  emb_config config;
  emb_store *store;
  emb_session *s[2]; /* the second one takes deltas and never a transaction */
  struct copy copies[CONSUMERS];
  uint64_t writes; /* anything that may change the table or move records */
  int plain;       /* the vectors are help_vector's */
  uint32_t now;    /* of a table that tracks */
  size_t state_bytes;
  int txn;
  uint64_t prepared; /* number of the open transaction, if it is prepared */
  uint64_t decided;  /* number of the last prepared one that ended, */
  int committed;     /* and how */
  uint64_t given;    /* the last number the open one was given */
  int stop;
  int64_t keys[BATCH];
  uint8_t ops[BATCH], found[BATCH];
  uint64_t versions[BATCH];
  float vectors[BATCH * DIM];
  char *optimizers; /* state_bytes of each row */
  uint64_t compared, rows, deletions, crashes, lost, broken;
  uint64_t expired, evictions, gradients, wholes;
};

#define NEED(held_)                                                            \
  do {                                                                         \
    if (!(held_)) {                                                            \
      m->stop = 1;                                                             \
      return;                                                                  \
    }                                                                          \
  } while (0)

static int64_t key_of(uint32_t i) { return (int64_t)i * 7919 - 1000; }
static uint32_t row_of(int64_t key) { return (uint32_t)((key + 1000) / 7919); }

/* Never ABSENT. */
static uint64_t hash_of(const float *row, const void *state, size_t bytes) {
  uint64_t hash = XXH3_64bits_withSeed(row, DIM * sizeof *row, 1);
  return (bytes ? XXH3_64bits_withSeed(state, bytes, hash) : hash) | 1;
}

static void choose(struct model *m, size_t n) {
  int near = test_chance(50);
  uint32_t at = test_below(KEYS);
  for (size_t i = 0; i < n; i++) {
    uint32_t row = near ? (at + (uint32_t)i) % KEYS : test_below(KEYS);
    m->keys[i] = key_of(row);
    help_vector(m->vectors + i * DIM, DIM, m->keys[i],
                (int32_t)test_below(1900) - 950);
  }
}

/* ---- work ---------------------------------------------------------------- */

static void write_now(struct model *m) {
  size_t n = 1 + test_below(test_chance(40) ? BATCH : 5);
  choose(m, n);
  emb_session *s = m->s[test_below(2)];
  int rc = test_chance(35) ? emb_delete(s, m->keys, n, m->found)
                           : emb_put(s, m->keys, n, m->vectors, NULL);
  /* A key that the transaction holds. */
  NEED(rc == EMB_OK || (m->txn && (rc == EMB_BUSY || rc == EMB_LOCKED)));
  m->writes++;
}

static void add_now(struct model *m) {
  size_t n = 1 + test_below(20);
  choose(m, n);
  for (size_t i = 0; i < n * DIM; i++)
    m->vectors[i] = 0;
  int rc = emb_rmw(m->s[1], m->keys, n, m->vectors, m->found, NULL);
  NEED(rc == EMB_OK || (m->txn && rc == EMB_BUSY));
  m->writes++;
}

/* Some keys occur twice. */
static void learn(struct model *m) {
  size_t n = 1 + test_below(test_chance(30) ? BATCH : 20);
  choose(m, n);
  for (size_t i = 0; i < n; i++)
    if (i > 0 && test_chance(10))
      m->keys[i] = m->keys[i - 1];
  for (size_t i = 0; i < n * DIM; i++)
    m->vectors[i] = (float)((int32_t)test_below(2001) - 1000) * 0.001F;
  emb_session *s = m->s[test_below(2)];
  int rc = m->txn && s == m->s[0]
               ? emb_txn_apply_gradients(s, m->keys, n, m->vectors, NULL, NULL)
               : emb_apply_gradients(s, m->keys, n, m->vectors, NULL, NULL);
  NEED(rc == EMB_OK || (m->txn && (rc == EMB_BUSY || rc == EMB_LOCKED)));
  m->prepared = m->txn && s == m->s[0] ? 0 : m->prepared;
  m->gradients += n;
  m->writes++;
}

/* Time passes, and rows go. */
static void expire(struct model *m) {
  m->now += test_below(400);
  for (int i = 0; i < 2; i++)
    emb_session_time(m->s[i], m->now);
  uint64_t gone = 0;
  if (test_chance(30)) {
    NEED(OK(m->s[1], emb_expire(m->s[1], &gone)));
    m->expired += gone;
  }
  m->writes++;
}

static void transaction(struct model *m) {
  emb_session *s = m->s[0];
  uint64_t number;
  m->writes++;
  if (!m->txn) {
    NEED(OK(s, emb_begin(s)));
    m->txn = 1;
    m->prepared = m->given = 0;
    return;
  }
  uint32_t what = test_below(100);
  size_t n = 1 + test_below(test_chance(30) ? BATCH : 5);
  choose(m, n);
  if (what < 65) {
    m->prepared = 0;
    if (test_chance(60))
      NEED(OK(s, emb_txn_put(s, m->keys, n, m->vectors)));
    else
      NEED(OK(s, emb_txn_delete(s, m->keys, n, m->found)));
  } else if (what < 72) {
    NEED(OK(s, emb_savepoint(s, 1 + (int)test_below(3))));
  } else if (what < 78) {
    m->prepared = 0;
    NEED(OK(s, emb_rollback_to(s, (int)test_below(4))));
  } else if (what < 84) {
    NEED(OK(s, emb_prepare(s, &number)));
    m->prepared = number;
    m->given = number ? number : m->given;
  } else {
    m->txn = 0;
    if (m->given) {
      m->decided = m->given;
      m->committed = what < 94 && m->prepared;
    }
    if (what < 94)
      NEED(OK(s, emb_commit(s)));
    else
      emb_rollback(s);
  }
}

static void maintain(struct model *m) {
  int more = 1;
  m->writes++;
  if (test_chance(70)) {
    for (uint32_t i = test_below(8); i && more; i--)
      NEED(OK(NULL, emb_step(m->store, &more)));
  } else {
    NEED(OK(m->s[1],
            test_chance(80) ? emb_checkpoint(m->s[1]) : emb_optimize(m->s[1])));
  }
}

/* ---- consumers ----------------------------------------------------------- */

static void forget_all(struct copy *c) {
  for (uint32_t i = 0; i < KEYS; i++)
    c->rows[i] = c->states[i] = ABSENT;
}

/* The error said that the consumer is lost, so it begins again. */
static void begin_anew(struct model *m, struct copy *c) {
  NEED(OK(m->s[1], emb_delta_begin(m->s[1], c->name, EMB_DELTA_ALL, c->keep)));
  c->lost = 0;
  c->acked = 0;
  m->lost++;
}

static void start_delta(struct model *m, struct copy *c) {
  uint64_t to;
  int rc = emb_delta_open(m->s[1], c->name, &c->delta);
  if (rc == EMB_GAP) {
    NEED(CHECK(strstr(emb_errmsg(m->s[1]), "too far behind") != NULL));
    NEED(CHECK(c->keep < 1 << 30));
    begin_anew(m, c);
    return;
  }
  NEED(OK(m->s[1], rc));
  emb_delta_range(c->delta, &c->from, &to);
  NEED(CHECK_EQ_INT(c->from, c->acked));
  NEED(CHECK(to >= c->from));
  if (c->from == 0)
    forget_all(c);
  c->number++;
  c->writes = m->writes;
}

static void compare(struct model *m, struct copy *c) {
  for (uint32_t at = 0; at < KEYS; at += BATCH) {
    for (uint32_t i = 0; i < BATCH; i++)
      m->keys[i] = key_of(at + i);
    NEED(OK(m->s[1],
            emb_peek(m->s[1], m->keys, BATCH, m->vectors, m->found, NULL)));
    for (uint32_t i = 0; i < BATCH; i++) {
      uint64_t now =
          m->found[i] ? hash_of(m->vectors + i * DIM, NULL, 0) : ABSENT;
      NEED(test_check(now == c->rows[at + i], __FILE__, __LINE__,
                      "consumer %s, from %llu: row %u is %llx, not %llx",
                      c->name, (unsigned long long)c->from, at + i,
                      (unsigned long long)c->rows[at + i],
                      (unsigned long long)now));
    }
  }
  m->compared++;
}

/* Compares the states with those that a new consumer gets.  To begin a consumer
** takes a mark, and moves nothing. */
static void compare_states(struct model *m, const struct copy *c) {
  emb_delta *delta;
  size_t n = 1, rows = 0, mine = 0;
  NEED(OK(m->s[1], emb_delta_begin(m->s[1], "whole", EMB_DELTA_ALL, 0)));
  NEED(OK(m->s[1], emb_delta_open(m->s[1], "whole", &delta)));
  while (n > 0) {
    NEED(OK(m->s[1], emb_delta_next(delta, BATCH,
                                    &(emb_rows){.keys = m->keys,
                                                .ops = m->ops,
                                                .vectors = m->vectors,
                                                .versions = m->versions,
                                                .states = m->optimizers},
                                    &n)));
    for (size_t i = 0; i < n; i++) {
      uint32_t row = row_of(m->keys[i]);
      NEED(CHECK(m->ops[i] == EMB_DELTA_PUT));
      NEED(test_check(
          c->states[row] == hash_of(m->vectors + i * DIM,
                                    m->optimizers + i * m->state_bytes,
                                    m->state_bytes),
          __FILE__, __LINE__, "consumer %s: state of row %u", c->name, row));
    }
    rows += n;
  }
  emb_delta_close(delta);
  for (uint32_t i = 0; i < KEYS; i++)
    mine += c->rows[i] != ABSENT;
  NEED(CHECK_EQ_INT(rows, mine));
  NEED(OK(m->s[1], emb_delta_drop(m->s[1], "whole")));
  m->wholes++;
}

static void acknowledge(struct model *m, struct copy *c) {
  uint64_t to;
  emb_delta_range(c->delta, NULL, &to);
  int rc = emb_delta_ack(m->s[1], c->name, test_chance(50) ? to : 0);
  if (rc == EMB_GAP && strstr(emb_errmsg(m->s[1]), "too far behind") != NULL) {
    begin_anew(m, c);
    return;
  }
  NEED(OK(m->s[1], rc));
  NEED(OK(m->s[1], emb_delta_ack(m->s[1], c->name, to)));
  c->acked = to;
}

static void end_delta(struct model *m, struct copy *c) {
  if (c->writes == m->writes)
    compare(m, c);
  if (!m->stop && c->writes == m->writes && m->state_bytes && test_chance(40))
    compare_states(m, c);
  if (!m->stop && test_chance(60))
    acknowledge(m, c);
  emb_delta_close(c->delta);
  c->delta = NULL;
}

static void next_rows(struct model *m, struct copy *c) {
  size_t n, max = 1 + test_below(BATCH);
  int rc = emb_delta_next(c->delta, max,
                          &(emb_rows){.keys = m->keys,
                                      .ops = m->ops,
                                      .vectors = m->vectors,
                                      .versions = m->versions,
                                      .states = m->optimizers},
                          &n);
  if (rc == EMB_GAP) {
    NEED(CHECK(strstr(emb_errmsg(m->s[1]), "too far behind") != NULL));
    emb_delta_close(c->delta);
    c->delta = NULL;
    begin_anew(m, c);
    return;
  }
  NEED(OK(m->s[1], rc));
  NEED(CHECK(n <= max));
  for (size_t i = 0; i < n; i++) {
    uint32_t row = row_of(m->keys[i]);
    NEED(CHECK(row < KEYS && key_of(row) == m->keys[i]));
    NEED(test_check(c->told[row] != c->number, __FILE__, __LINE__,
                    "consumer %s: row %u comes twice", c->name, row));
    c->told[row] = c->number;
    int put = m->ops[i] == EMB_DELTA_PUT;
    NEED(CHECK(put || m->ops[i] == EMB_DELTA_DELETE ||
               (m->ops[i] == EMB_DELTA_EXPIRE && m->config.ttl) ||
               (m->ops[i] == EMB_DELTA_EVICT && m->config.capacity)));
    NEED(CHECK((m->versions[i] != 0) == put));
    const float *vector = m->vectors + i * DIM;
    NEED(CHECK(!put || !m->plain ||
               help_value(vector, DIM, m->keys[i]) != INT32_MIN));
    c->rows[row] = put ? hash_of(vector, NULL, 0) : ABSENT;
    c->states[row] = put ? hash_of(vector, m->optimizers + i * m->state_bytes,
                                   m->state_bytes)
                         : ABSENT;
    m->deletions += !put;
    m->evictions += m->ops[i] == EMB_DELTA_EVICT;
  }
  m->rows += n;
  if (n == 0)
    end_delta(m, c);
}

static void consume(struct model *m) {
  struct copy *c = &m->copies[test_below(CONSUMERS)];
  if (!c->delta) {
    start_delta(m, c);
  } else if (test_chance(3)) {
    emb_delta_close(c->delta);
    c->delta = NULL;
    m->broken++;
  }
  /* To the end, or a few batches. */
  uint32_t rounds = test_chance(50) ? UINT32_MAX : test_below(10);
  while (rounds-- && c->delta && !m->stop)
    next_rows(m, c);
}

/* ---- opening, closing, crashing ------------------------------------------ */

static void open_store(struct model *m) {
  emb_err err;
  NEED(help_open(m->dir, &m->config, &m->store, &m->s[0]));
  NEED(CHECK_EQ_INT(emb_session_open(m->store, &m->s[1], &err), EMB_OK));
  if (emb_in_doubt(m->store)) {
    emb_delta *none;
    NEED(GIVES(m->s[1], EMB_LOCKED,
               emb_delta_open(m->s[1], m->copies[0].name, &none)));
    /* The coordinator has decided, or decides now. */
    int commit =
        emb_in_doubt(m->store) == m->decided ? m->committed : test_chance(50);
    NEED(CHECK_EQ_INT(
        emb_resolve(m->store, emb_in_doubt(m->store), commit, &err), EMB_OK));
  }
  m->txn = 0;
  m->state_bytes = emb_state_bytes(m->store);
  if (m->now)
    expire(m);
}

static void close_store(struct model *m) {
  for (int i = 0; i < CONSUMERS; i++) {
    emb_delta_close(m->copies[i].delta);
    m->copies[i].delta = NULL;
  }
  emb_session_close(m->s[1]);
  NEED(help_close(m->store, m->s[0]));
}

static void crash(struct model *m) {
  char next[512];
  (void)snprintf(next, sizeof next, "%s/store-%u", test_dir(), ++m->lives);
  NEED(CHECK(files_copy_dir(next, m->dir)));
  close_store(m);
  if (m->stop)
    return;
  NEED(CHECK_EQ_INT(emb_destroy(m->dir, NULL), EMB_OK));
  memcpy(m->dir, next, sizeof next);
  m->crashes++;
  m->writes++;
  open_store(m);
}

static void reopen(struct model *m) {
  close_store(m);
  m->writes++;
  if (!m->stop)
    open_store(m);
}

static void free_model(struct model *m) {
  for (int i = 0; i < CONSUMERS; i++) {
    free(m->copies[i].rows);
    free(m->copies[i].states);
  }
  free(m->optimizers);
  free(m);
}

static void work(struct model *m) {
  uint32_t what = test_below(1000);
  if (what < 350 && (m->plain || test_chance(40)))
    write_now(m);
  else if (what < 350)
    learn(m);
  else if (what < 400)
    add_now(m);
  else if (what < 600)
    transaction(m);
  else if (what < 800)
    consume(m);
  else if (what < 985 && m->now && test_chance(30))
    expire(m);
  else if (what < 985)
    maintain(m);
  else if (what < 992)
    reopen(m);
  else
    crash(m);
}

static void run(const emb_config *config, uint64_t keep, unsigned calls) {
  struct model *m = calloc(1, sizeof *m);
  (void)snprintf(m->dir, sizeof m->dir, "%s/store", test_dir());
  m->config = *config;
  m->config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  m->config.memory_bytes = 1;
  m->plain = config->dim == DIM;
  m->now = config->track ? 1000000 : 0;
  m->optimizers = malloc((size_t)BATCH * DIM * 16);
  for (int i = 0; i < CONSUMERS; i++) {
    struct copy *c = &m->copies[i];
    (void)snprintf(c->name, sizeof c->name, "copy %d", i);
    c->rows = malloc(KEYS * sizeof *c->rows);
    c->states = malloc(KEYS * sizeof *c->states);
    c->keep = keep;
    forget_all(c);
  }
  open_store(m);
  for (int i = 0; i < CONSUMERS && keep && !m->stop; i++)
    m->stop = !OK(m->s[1], emb_delta_begin(m->s[1], m->copies[i].name,
                                           EMB_DELTA_ALL, keep));
  for (unsigned i = 0; i < calls && !m->stop; i++)
    work(m);
  if (!m->stop) {
    help_verify(m->s[1]);
    HELP_CAME(m->compared > 0 && m->deletions > 0 && m->crashes > 0);
    HELP_CAME(!keep || m->lost > 0);
    HELP_CAME(m->plain || (m->gradients > 0 && m->wholes > 0));
    HELP_CAME(!m->now || m->expired > 0);
    HELP_CAME(!config->capacity || m->evictions > 0);
    close_store(m);
  }
  test_count("deltas compared", m->compared);
  test_count("rows delivered", m->rows);
  test_count("deletions delivered", m->deletions);
  test_count("evictions delivered", m->evictions);
  test_count("deltas with states compared", m->wholes);
  test_count("gradients", m->gradients);
  test_count("rows that expired", m->expired);
  test_count("crashes", m->crashes);
  test_count("consumers that began anew", m->lost);
  free_model(m);
}

static const emb_config plain = {.dim = DIM};

TEST(copies_follow_the_store) { run(&plain, 0, help_amount(1000)); }

TEST(copies_of_a_full_table) {
  const emb_config config = {.dim = DIM, .capacity = 1000};
  run(&config, 0, help_amount(700));
}

TEST(copies_that_may_keep_little) { run(&plain, 700000, help_amount(1000)); }

static const emb_segment parts[] = {
    {16, EMB_F32, NULL, "zeros", NULL, NULL},
    {144, EMB_F32, "adam(lr=0.01)", "uniform(low=-1, high=1)", NULL, NULL},
    {96, EMB_F32, "rowwise_adagrad(lr=0.1)", NULL, NULL, NULL},
};

TEST(copies_of_a_trained_table) {
  const emb_config config = {
      .segments = parts, .segment_count = 3, .optimizer = "sgd(lr=0.1)"};
  run(&config, 0, help_amount(700));
}

TEST(copies_of_a_table_that_forgets) {
  const emb_config config = {.segments = parts,
                             .segment_count = 3,
                             .optimizer = "momentum(lr=0.1)",
                             .track = EMB_TRACK_DATA,
                             .ttl = "1h",
                             .admission = "count(n=2)"};
  run(&config, 0, help_amount(700));
}
