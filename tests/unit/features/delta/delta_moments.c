/* SPDX-License-Identifier: MIT
**
** delta_moments.c -- the table changes while a delta is read: each row of the
** copy is then as the table had it at some moment from the delta's beginning to
** its end.
**
** A store without threads, smaller in memory than on disk; the seed decides
** every call.  LONG=n multiplies the work.
**
** ORACLE    The test keeps the value of each row and a list of all changes.  A
**           complete delta is checked against the values at its beginning and
**           the changes since then.  Which rows expired or were evicted is
**           read from the table after the call.
** ONCE      Each key comes once in a delta.
*/
#include "store_help.h"

#define ABSENT INT32_MIN

enum { CONSUMERS = 3, DIM = 256, KEYS = 1500, BATCH = 60, EVENTS = 1 << 20 };

struct change {
  int32_t row, value;
};

struct copy {
  char name[16];
  emb_delta *delta;
  int32_t rows[KEYS], start[KEYS]; /* the copy; the table when it began */
  uint32_t told[KEYS], number;     /* the last delta that had the row */
  size_t since;                    /* changes before it began */
  int whole;
};

struct model {
  emb_config config;
  emb_store *store;
  emb_session *s[2]; /* the first one has the transaction */
  int32_t rows[KEYS], pending[KEYS];
  uint8_t held[KEYS]; /* by the transaction */
  struct change *changes;
  size_t count;
  struct copy copies[CONSUMERS];
  int txn, stop;
  uint32_t now;
  int64_t keys[BATCH];
  uint8_t ops[BATCH];
  uint64_t versions[BATCH];
  float vectors[BATCH * DIM];
  uint64_t deltas, later, removals, sweeps;
};

#define NEED(held_)                                                            \
  do {                                                                         \
    if (!(held_)) {                                                            \
      m->stop = 1;                                                             \
      return;                                                                  \
    }                                                                          \
  } while (0)

static void change(struct model *m, uint32_t row, int32_t value) {
  if (m->rows[row] == value)
    return;
  NEED(CHECK(m->count < EVENTS));
  m->changes[m->count++] = (struct change){(int32_t)row, value};
  m->rows[row] = value;
}

/* Which rows are there; the others were removed by the store. */
static void see_removals(struct model *m) {
  static int64_t keys[KEYS];
  static uint8_t found[KEYS];
  for (uint32_t i = 0; i < KEYS; i++)
    keys[i] = i;
  NEED(OK(m->s[1], emb_exists(m->s[1], keys, KEYS, found)));
  for (uint32_t i = 0; i < KEYS; i++)
    if (!found[i])
      change(m, i, ABSENT);
}

/* Chooses keys that no transaction holds, or any if it is the transaction that
** asks; each once. */
static size_t choose(struct model *m, int any) {
  size_t n = 0, want = 1 + test_below(test_chance(40) ? BATCH : 5);
  uint32_t at = test_below(KEYS);
  for (uint32_t i = 0; i < want; i++) {
    uint32_t row = (at + i) % KEYS;
    if (any || !m->held[row])
      m->keys[n++] = row;
  }
  return n;
}

static void write_rows(struct model *m, int in_txn) {
  emb_session *s = m->s[!in_txn];
  int removes = test_chance(40);
  size_t n = choose(m, in_txn);
  int32_t value = (int32_t)test_below(1900) - 950;
  for (size_t i = 0; i < n; i++)
    help_vector(m->vectors + i * DIM, DIM, m->keys[i], value);
  if (n == 0)
    return;
  int rc = in_txn    ? removes ? emb_txn_delete(s, m->keys, n, NULL)
                               : emb_txn_put(s, m->keys, n, m->vectors)
              : removes ? emb_delete(s, m->keys, n, NULL)
                     : emb_put(s, m->keys, n, m->vectors, NULL);
  NEED(OK(s, rc));
  for (size_t i = 0; i < n; i++) {
    uint32_t row = (uint32_t)m->keys[i];
    if (in_txn) {
      m->held[row] = 1;
      m->pending[row] = removes ? ABSENT : value;
      continue;
    }
    if (m->config.capacity && !removes)
      change(m, row, ABSENT); /* it may be evicted before it is put */
    change(m, row, removes ? ABSENT : value);
  }
}

static void transaction(struct model *m) {
  emb_session *s = m->s[0];
  uint64_t number;
  if (!m->txn) {
    NEED(OK(s, emb_begin(s)));
    m->txn = 1;
    return;
  }
  if (test_chance(70)) {
    write_rows(m, 1);
    return;
  }
  if (test_chance(40))
    NEED(OK(s, emb_prepare(s, &number)));
  int commits = test_chance(70);
  if (commits)
    NEED(OK(s, emb_commit(s)));
  else
    emb_rollback(s);
  for (uint32_t i = 0; i < KEYS; i++) {
    if (commits && m->held[i])
      change(m, i, m->pending[i]);
    m->held[i] = 0;
  }
  m->txn = 0;
}

static void maintain(struct model *m) {
  int more = 1;
  if (test_chance(70)) {
    for (uint32_t i = test_below(8); i && more; i--)
      NEED(OK(NULL, emb_step(m->store, &more)));
  } else {
    NEED(OK(m->s[1],
            test_chance(80) ? emb_checkpoint(m->s[1]) : emb_optimize(m->s[1])));
  }
}

/* Time passes, and rows go. */
static void sweep(struct model *m) {
  uint64_t gone = 0;
  if (m->now) {
    m->now += test_below(600);
    for (int i = 0; i < 2; i++)
      emb_session_time(m->s[i], m->now);
    NEED(OK(m->s[1], emb_expire(m->s[1], &gone)));
  }
  if (m->config.capacity && !m->txn)
    NEED(OK(m->s[1], emb_evict(m->s[1], &gone)));
  m->sweeps += gone;
}

/* ---- consumers ----------------------------------------------------------- */

static void start_delta(struct model *m, struct copy *c) {
  uint64_t from;
  NEED(OK(m->s[1], emb_delta_open(m->s[1], c->name, &c->delta)));
  emb_delta_range(c->delta, &from, NULL);
  c->whole = from == 0;
  for (uint32_t i = 0; i < KEYS && c->whole; i++)
    c->rows[i] = ABSENT;
  memcpy(c->start, m->rows, sizeof c->start);
  c->since = m->count;
  c->number++;
}

/* Had the table this state of the row while the delta was read? */
static void check_moments(struct model *m, struct copy *c) {
  static uint8_t good[KEYS];
  for (uint32_t i = 0; i < KEYS; i++)
    good[i] = c->rows[i] == c->start[i];
  for (size_t i = c->since; i < m->count; i++) {
    uint32_t row = (uint32_t)m->changes[i].row;
    int is = m->changes[i].value == c->rows[row];
    m->later += is && !good[row];
    good[row] |= (uint8_t)is;
  }
  for (uint32_t i = 0; i < KEYS; i++)
    NEED(test_check(good[i], __FILE__, __LINE__,
                    "consumer %s%s: row %u is %d, was %d at the beginning and "
                    "is %d at the end",
                    c->name, c->whole ? ", first delta" : "", i, c->rows[i],
                    c->start[i], m->rows[i]));
  m->deltas++;
}

static void take_row(struct model *m, struct copy *c, size_t i) {
  uint32_t row = (uint32_t)m->keys[i];
  int put = m->ops[i] == EMB_DELTA_PUT;
  NEED(CHECK(row < KEYS && m->keys[i] == row));
  NEED(test_check(c->told[row] != c->number, __FILE__, __LINE__,
                  "consumer %s: row %u comes twice", c->name, row));
  NEED(CHECK(put || m->ops[i] == EMB_DELTA_DELETE ||
             (m->ops[i] == EMB_DELTA_EXPIRE && m->now) ||
             (m->ops[i] == EMB_DELTA_EVICT && m->config.capacity)));
  NEED(CHECK((m->versions[i] != 0) == put));
  c->told[row] = c->number;
  c->rows[row] = put ? help_value(m->vectors + i * DIM, DIM, row) : ABSENT;
  m->removals += !put;
}

static void next_rows(struct model *m, struct copy *c) {
  size_t n;
  NEED(OK(m->s[1], emb_delta_next(c->delta, 1 + test_below(BATCH),
                                  &(emb_rows){.keys = m->keys,
                                              .ops = m->ops,
                                              .vectors = m->vectors,
                                              .versions = m->versions},
                                  &n)));
  for (size_t i = 0; i < n && !m->stop; i++)
    take_row(m, c, i);
  if (n > 0 || m->stop)
    return;
  check_moments(m, c);
  emb_delta_close(c->delta);
  c->delta = NULL;
  if (!m->stop && test_chance(70))
    NEED(OK(m->s[1], emb_delta_ack(m->s[1], c->name, 0)));
}

static void consume(struct model *m) {
  struct copy *c = &m->copies[test_below(CONSUMERS)];
  if (!c->delta) {
    start_delta(m, c);
  } else if (test_chance(3)) {
    emb_delta_close(c->delta);
    c->delta = NULL;
  }
  uint32_t rounds = test_chance(20) ? UINT32_MAX : 1 + test_below(6);
  while (rounds-- && c->delta && !m->stop)
    next_rows(m, c);
}

static void work(struct model *m) {
  uint32_t what = test_below(100);
  if (what < 35)
    write_rows(m, 0);
  else if (what < 55)
    transaction(m);
  else if (what < 85)
    consume(m);
  else if (what < 90)
    sweep(m);
  else
    maintain(m);
  if (!m->stop && (m->now || m->config.capacity))
    see_removals(m);
}

static void open_store(struct model *m) {
  emb_err err;
  NEED(help_open(help_path("store"), &m->config, &m->store, &m->s[0]));
  NEED(CHECK_EQ_INT(emb_session_open(m->store, &m->s[1], &err), EMB_OK));
  for (int i = 0; i < 2 && m->now; i++)
    emb_session_time(m->s[i], m->now);
}

static void run(const emb_config *config) {
  struct model *m = calloc(1, sizeof *m);
  m->config = *config;
  m->config.dim = DIM;
  m->config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  m->config.memory_bytes = 1;
  m->now = config->track ? 1000000 : 0;
  m->changes = malloc(sizeof *m->changes * EVENTS);
  for (uint32_t i = 0; i < KEYS; i++)
    m->rows[i] = ABSENT;
  for (int i = 0; i < CONSUMERS; i++)
    (void)snprintf(m->copies[i].name, sizeof m->copies[i].name, "copy %d", i);
  open_store(m);
  for (unsigned i = help_amount(4000); i > 0 && !m->stop; i--)
    work(m);
  for (int i = 0; i < CONSUMERS; i++)
    emb_delta_close(m->copies[i].delta);
  if (m->txn)
    emb_rollback(m->s[0]);
  if (!m->stop) {
    help_verify(m->s[1]);
    HELP_CAME(m->deltas > 0 && m->later > 0 && m->removals > 0);
    HELP_CAME((!m->now && !config->capacity) || m->sweeps > 0);
  }
  emb_session_close(m->s[1]);
  help_close(m->store, m->s[0]);
  test_count("deltas", m->deltas);
  test_count("rows as of a later moment", m->later);
  test_count("removals", m->removals);
  test_count("rows that expired or were evicted", m->sweeps);
  free(m->changes);
  free(m);
}

TEST(a_table) { run(&(emb_config){0}); }

TEST(a_full_table) { run(&(emb_config){.capacity = 400}); }

TEST(a_table_that_forgets) {
  run(&(emb_config){.track = EMB_TRACK_DATA, .ttl = "1h"});
}

/* ---- single cases -------------------------------------------------------- */

enum { FEW = 300 };

struct reading {
  emb_store *store;
  emb_session *s, *other;
  emb_delta *delta;
  uint8_t ops[FEW]; /* of the rows read; 0: not in the delta */
  int32_t values[FEW];
};

/* Reads at most `max` rows of the delta: all, if 0. */
static void read_rows(struct reading *r, size_t max) {
  float vector[DIM];
  int64_t key;
  uint8_t op;
  size_t n = 1;
  for (size_t i = 0; (!max || i < max) && n; i++) {
    if (!OK(r->s,
            emb_delta_next(
                r->delta, 1,
                &(emb_rows){.keys = &key, .ops = &op, .vectors = vector}, &n)))
      return;
    if (n && CHECK(key >= 0 && key < FEW && !r->ops[key])) {
      r->ops[key] = op;
      r->values[key] =
          op == EMB_DELTA_PUT ? help_value(vector, DIM, key) : ABSENT;
    }
  }
}

static int read_first(struct reading *r) {
  memset(r->ops, 0, sizeof r->ops);
  if (!OK(r->s, emb_delta_open(r->s, "a", &r->delta)))
    return 0;
  read_rows(r, 1);
  return CHECK_EQ_INT(r->ops[0], EMB_DELTA_PUT);
}

static void read_rest(struct reading *r) {
  read_rows(r, 0);
  emb_delta_close(r->delta);
  r->delta = NULL;
}

/* What the delta after this one has; some of its rows may be removed. */
static void read_next(struct reading *r) {
  OK(r->s, emb_delta_ack(r->s, "a", 0));
  memset(r->ops, 0, sizeof r->ops);
  if (OK(r->s, emb_delta_open(r->s, "a", &r->delta)))
    read_rest(r);
}

/* A consumer that has all rows with the value 1. */
static int open_rows(struct reading *r, emb_config config) {
  emb_err err;
  memset(r, 0, sizeof *r);
  config.dim = DIM;
  config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  config.memory_bytes = 1;
  if (!help_open(help_path("store"), &config, &r->store, &r->s) ||
      !CHECK_EQ_INT(emb_session_open(r->store, &r->other, &err), EMB_OK))
    return 0;
  if (config.track)
    for (int i = 0; i < 2; i++)
      emb_session_time(i ? r->other : r->s, 1000000);
  return help_put_rows(r->s, 0, 1, FEW, 1) &&
         OK(r->s, emb_delta_begin(r->s, "a", EMB_DELTA_NOW, 0));
}

static void close_rows(struct reading *r) {
  emb_session_close(r->other);
  help_close(r->store, r->s);
}

TEST(deleted) {
  struct reading r;
  if (!open_rows(&r, (emb_config){0}))
    return;
  help_put_rows(r.s, 0, 1, FEW, 2);
  if (read_first(&r)) {
    help_delete_rows(r.other, 200, 1);
    help_delete_rows(r.other, 201, 1);
    help_put_rows(r.other, 201, 1, 1, 3);
    help_put_rows(r.other, 202, 1, 1, 3);
    help_put_rows(r.other, 203, 1, 1, 3);
    help_delete_rows(r.other, 203, 1);
    help_delete_rows(r.other, 0, 1); /* it came before */
    read_rest(&r);
    CHECK_EQ_INT(r.ops[200], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.ops[201], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.values[202], 3);
    CHECK_EQ_INT(r.ops[203], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.values[204], 2);
    read_next(&r);
    CHECK_EQ_INT(r.ops[0], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.ops[200], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.values[201], 3);
    CHECK_EQ_INT(r.values[202], 3);
    CHECK_EQ_INT(r.ops[203], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.ops[204], 0);
  }
  close_rows(&r);
}

/* Deleted before the delta, and put again while it is read. */
TEST(put_again) {
  struct reading r;
  if (!open_rows(&r, (emb_config){0}))
    return;
  help_put_rows(r.s, 0, 1, 100, 2);
  help_delete_rows(r.s, 250, 2);
  if (read_first(&r)) {
    help_put_rows(r.other, 250, 1, 1, 3);
    read_rest(&r);
    CHECK_EQ_INT(r.ops[250], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.ops[251], EMB_DELTA_DELETE);
    read_next(&r);
    CHECK_EQ_INT(r.values[250], 3);
    CHECK_EQ_INT(r.ops[251], 0);
  }
  close_rows(&r);
}

/* The reason is that of the removal. */
TEST(expired) {
  struct reading r;
  uint64_t gone = 0;
  if (!open_rows(&r, (emb_config){.track = EMB_TRACK_DATA, .ttl = "1h"}))
    return;
  help_put_rows(r.s, 0, 1, FEW, 2);
  if (read_first(&r)) {
    emb_session_time(r.other, 1000000 + 3000);
    help_put_rows(r.other, 100, 1, 20, 3);
    emb_session_time(r.other, 1000000 + 3700);
    help_put_rows(r.other, 120, 1, 20, 4);
    OK(r.other, emb_expire(r.other, &gone));
    CHECK_EQ_INT(gone, FEW - 40);
    read_rest(&r);
    CHECK_EQ_INT(r.values[110], 3);
    CHECK_EQ_INT(r.values[130], 4);
    CHECK_EQ_INT(r.ops[99], EMB_DELTA_EXPIRE);
    CHECK_EQ_INT(r.ops[FEW - 1], EMB_DELTA_EXPIRE);
  }
  close_rows(&r);
}

TEST(evicted) {
  struct reading r;
  uint64_t gone = 0;
  if (!open_rows(&r, (emb_config){.capacity = FEW}))
    return;
  help_put_rows(r.s, 0, 1, FEW, 2);
  if (read_first(&r)) {
    help_put_rows(r.other, FEW, 1, 150, 3);
    OK(r.other, emb_evict(r.other, NULL));
    read_rest(&r);
    for (int64_t key = 1; key < FEW; key++) {
      int is = help_peek(r.s, key) != ABSENT;
      CHECK(r.ops[key] == (is ? EMB_DELTA_PUT : EMB_DELTA_EVICT) ||
            r.values[key] == 2);
      gone += r.ops[key] == EMB_DELTA_EVICT;
    }
    CHECK(gone > 0);
  }
  close_rows(&r);
}

/* A transaction that began before the delta commits while it is read. */
TEST(committed) {
  struct reading r;
  float vector[DIM];
  int64_t keys[] = {240, 241, 242};
  if (!open_rows(&r, (emb_config){0}))
    return;
  help_put_rows(r.s, 0, 1, FEW, 2);
  OK(r.other, emb_begin(r.other));
  help_vector(vector, DIM, 240, 3);
  OK(r.other, emb_txn_put(r.other, keys, 1, vector));
  OK(r.other, emb_txn_delete(r.other, keys + 1, 1, NULL));
  if (read_first(&r)) {
    OK(r.other, emb_txn_delete(r.other, keys + 2, 1, NULL));
    OK(r.other, emb_commit(r.other));
    read_rest(&r);
    CHECK_EQ_INT(r.values[240], 3);
    CHECK_EQ_INT(r.ops[241], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.ops[242], EMB_DELTA_DELETE);
    CHECK_EQ_INT(r.values[243], 2);
  }
  close_rows(&r);
}
