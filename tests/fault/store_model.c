/* SPDX-License-Identifier: MIT
**
** store_model.c -- random calls on a store, compared with an oracle in
** memory.
**
** The store runs without threads (EMB_OPEN_STEP) in the least memory
** possible, with a table several times larger; the seed decides every call
** and when the background work runs, so SEED=n repeats a failure.  LONG=n
** multiplies the number of calls.
**
** ORACLE     One value per key (the vector follows from key and value): the
**            committed one, and the one that the session with the open
**            transaction sees; a copy of the latter for each savepoint.
** SCANS      Keys that a scan's session sees from open to close must come
**            exactly once, and every key with its present value.
** CRASHES    From time to time the directory is copied as it stands and the
**            copy opened, as after a kill.  Each key must have its value of
**            the last durable moment (checkpoint, prepare, clean close) or a
**            value written since; right after a durable moment, exactly its
**            value.  A prepared transaction is in doubt, and decided either
**            way.
*/
#include "store_help.h"

#include "files.h"

#define ABSENT INT32_MIN
#define KEY_ODD UINT64_C(0x9e3779b97f4a7c15)

enum { BATCH_MAX = 300, SCANS = 4, DEPTH_MAX = 6, SCAN_MAX = 700 };

struct watched { /* an open scan */
  emb_scan *scan;
  int side; /* of its session */
  int order;
  int64_t lo, hi, last;
  int started, aborted;
  uint8_t *stable; /* seen by its session since the scan was opened */
  uint8_t *came;   /* how often it was delivered */
};

struct event { /* a write that may or may not survive a crash */
  uint32_t i;
  int32_t value;
};

struct model {
  char dir[512];
  emb_config config;
  emb_store *store;
  emb_session *s[2];
  uint32_t n; /* number of possible keys */
  int sparse; /* keys from the full range, or 0 .. n-1 */
  int stop;
  unsigned calls;

  int32_t *committed;
  int32_t *mine; /* as seen by the session with the transaction */
  int txn;       /* its side, -1 if none */
  uint8_t *claimed;
  int changed;         /* some write was made in the transaction */
  int32_t prepared_at; /* call number + 1 of a prepare without later writes */
  int was_prepared;
  int outcome; /* of the last transaction that was prepared and then ended */
  struct {
    int number;
    int32_t *view;
  } saves[DEPTH_MAX];
  int depth;

  struct watched scans[SCANS];

  int32_t *durable;
  struct event *events;
  size_t event_count, event_room;

  int64_t from_disk, compacted; /* over all openings: the test did its work */

  int64_t keys[BATCH_MAX];
  uint32_t rows[BATCH_MAX];
  uint8_t found[SCAN_MAX];
  uint64_t versions[SCAN_MAX];
  float *vectors; /* BATCH_MAX rows, or fewer wide ones */
  size_t batch;   /* rows that fit */
};

/* A failed check ends the case: later checks would only repeat it. */
#define NEED(held_)                                                            \
  do {                                                                         \
    if (!(held_)) {                                                            \
      m->stop = 1;                                                             \
      return;                                                                  \
    }                                                                          \
  } while (0)

static int64_t key_of(const struct model *m, uint32_t i) {
  if (!m->sparse)
    return (int64_t)i;
  if (i == 1)
    return INT64_MAX;
  return (int64_t)(i * KEY_ODD + (UINT64_C(1) << 63)); /* 0: INT64_MIN */
}

/* KEY_ODD's inverse modulo 2^64, by Newton. */
static uint64_t odd_inverse(void) {
  uint64_t x = KEY_ODD;
  for (int i = 0; i < 6; i++)
    x *= 2 - KEY_ODD * x;
  return x;
}

/* UINT32_MAX for an impossible key. */
static uint32_t row_of(const struct model *m, int64_t key) {
  uint64_t i = (uint64_t)key;
  if (m->sparse)
    i = key == INT64_MAX ? 1 : (i - (UINT64_C(1) << 63)) * odd_inverse();
  return i < m->n && key_of(m, (uint32_t)i) == key ? (uint32_t)i : UINT32_MAX;
}

static int32_t *view(struct model *m, int side) {
  return side == m->txn ? m->mine : m->committed;
}

static int32_t any_value(void) { return (int32_t)test_below(1900) - 950; }

/* ---- bookkeeping of writes ----------------------------------------------- */

static void gone_for_scans(struct model *m, int side, uint32_t i) {
  for (int k = 0; k < SCANS; k++)
    if (m->scans[k].scan != NULL && m->scans[k].side == side)
      m->scans[k].stable[i] = 0;
}

static void note_event(struct model *m, uint32_t i, int32_t value) {
  if (m->event_count == m->event_room) {
    m->event_room = m->event_room * 2 + 1024;
    m->events = realloc(m->events, m->event_room * sizeof *m->events);
  }
  m->events[m->event_count++] = (struct event){i, value};
}

/* Sets the committed value of a key. */
static void commit_value(struct model *m, uint32_t i, int32_t value) {
  note_event(m, i, value);
  m->committed[i] = value;
  for (int side = 0; side < 2; side++)
    if (value == ABSENT && side != m->txn)
      gone_for_scans(m, side, i);
}

/* A key that no transaction has claimed: both sides see the new value. */
static void set_now(struct model *m, uint32_t i, int32_t value) {
  commit_value(m, i, value);
  if (m->txn >= 0 && !m->claimed[i]) {
    m->mine[i] = value;
    for (int k = 0; k < m->depth; k++)
      m->saves[k].view[i] = value;
    if (value == ABSENT)
      gone_for_scans(m, m->txn, i);
  }
}

static void all_durable(struct model *m) {
  memcpy(m->durable, m->committed, m->n * sizeof *m->durable);
  m->event_count = 0;
}

/* ---- reading ------------------------------------------------------------- */

/* Fills keys and rows with n random ones. */
static void choose(struct model *m, size_t n) {
  int near = test_chance(30);
  uint32_t at = test_below(m->n);
  for (size_t i = 0; i < n; i++) {
    m->rows[i] = near ? (at + test_below(2 * n)) % m->n : test_below(m->n);
    m->keys[i] = key_of(m, m->rows[i]);
  }
}

static int right(struct model *m, const char *what, uint32_t i, int32_t want,
                 int found, const float *vector, uint64_t version) {
  uint32_t dim = m->config.dim;
  int held = found == (want != ABSENT) && (version != 0) == found;
  if (held && vector != NULL) {
    if (found)
      held = help_is(vector, dim, key_of(m, i), want);
    else
      for (uint32_t d = 0; d < dim; d++)
        held &= vector[d] == 0;
  }
  return test_check(held, __FILE__, __LINE__,
                    "call %u: %s of row %u: found %d, value %d; want %d (%d)",
                    m->calls, what, i, found,
                    vector ? help_value(vector, dim, key_of(m, i)) : 0,
                    want != ABSENT, want);
}

static void read_some(struct model *m) {
  int side = (int)test_below(2), peek = test_chance(30);
  emb_session *s = m->s[side];
  size_t n = 1 + test_below(m->batch);
  float *to = test_chance(90) ? m->vectors : NULL;
  choose(m, n);
  memset(m->found, 7, n);
  NEED(OK(s, (peek ? emb_peek : emb_get)(s, m->keys, n, to, m->found,
                                         m->versions)));
  for (size_t i = 0; i < n; i++)
    NEED(right(m, peek ? "peek" : "get", m->rows[i], view(m, side)[m->rows[i]],
               m->found[i], to ? to + i * m->config.dim : NULL,
               m->versions[i]));
}

static void exists_some(struct model *m) {
  int side = (int)test_below(2);
  size_t n = 1 + test_below(BATCH_MAX);
  choose(m, n);
  NEED(OK(m->s[side], emb_exists(m->s[side], m->keys, n, m->found)));
  for (size_t i = 0; i < n; i++)
    NEED(right(m, "exists", m->rows[i], view(m, side)[m->rows[i]], m->found[i],
               NULL, m->found[i]));
}

static void count_keys(struct model *m) {
  for (int side = 0; side < 2; side++) {
    int64_t want = 0;
    for (uint32_t i = 0; i < m->n; i++)
      want += view(m, side)[i] != ABSENT;
    NEED(CHECK_EQ_INT(emb_count(m->s[side]), want));
  }
}

/* Compares every key of a session, or of another open store. */
static void compare_all(struct model *m, int side) {
  emb_session *s = m->s[side];
  for (uint32_t from = 0; from < m->n;) {
    size_t n = 0;
    for (; n < m->batch && from + n < m->n; n++)
      m->keys[n] = key_of(m, from + (uint32_t)n);
    NEED(OK(s, emb_get(s, m->keys, n, m->vectors, m->found, m->versions)));
    for (uint32_t i = 0; i < n; i++)
      NEED(right(m, "compare", from + i, view(m, side)[from + i], m->found[i],
                 m->vectors + i * m->config.dim, m->versions[i]));
    from += (uint32_t)n;
  }
  count_keys(m);
}

/* ---- immediate writes ---------------------------------------------------- */

/* The code that a write of this row by this side must return. */
static int write_rc(const struct model *m, int side, uint32_t i) {
  return m->txn < 0 || !m->claimed[i] ? EMB_OK
         : side == m->txn             ? EMB_LOCKED
                                      : EMB_BUSY;
}

/* Keys for a write.  Only the last one may be claimed by the transaction: the
** rows before it are written nevertheless. */
static size_t choose_writes(struct model *m, int side, int *rc) {
  size_t n = 1 + (test_chance(50) ? test_below(4) : test_below(m->batch));
  choose(m, n);
  *rc = EMB_OK;
  for (size_t i = 0; i < n && *rc == EMB_OK; i++) {
    *rc = write_rc(m, side, m->rows[i]);
    if (*rc != EMB_OK)
      n = i + 1;
  }
  return n;
}

static void put_some(struct model *m) {
  int side = (int)test_below(2), want;
  size_t n = choose_writes(m, side, &want), done = want ? n - 1 : n;
  int32_t values[BATCH_MAX];
  for (size_t i = 0; i < n; i++) {
    values[i] = any_value();
    help_vector(m->vectors + i * m->config.dim, m->config.dim, m->keys[i],
                values[i]);
  }
  NEED(GIVES(m->s[side], want,
             emb_put(m->s[side], m->keys, n, m->vectors, NULL)));
  for (size_t i = 0; i < done; i++)
    set_now(m, m->rows[i], values[i]);
}

/* Rewrites every second or third row, so that all extents have holes. */
static void rewrite_many(struct model *m) {
  int side = (int)test_below(2);
  uint32_t stride = 2 + test_below(2);
  int32_t values[BATCH_MAX];
  for (uint32_t i = test_below(stride); i < m->n;) {
    size_t n = 0;
    for (; n < m->batch && i < m->n; i += stride) {
      if (write_rc(m, side, i))
        continue;
      m->rows[n] = i;
      m->keys[n] = key_of(m, i);
      values[n] = any_value();
      help_vector(m->vectors + n * m->config.dim, m->config.dim, m->keys[n],
                  values[n]);
      n++;
    }
    NEED(OK(m->s[side], emb_put(m->s[side], m->keys, n, m->vectors, NULL)));
    for (size_t k = 0; k < n; k++)
      set_now(m, m->rows[k], values[k]);
  }
}

static void add_some(struct model *m) {
  int side = (int)test_below(2), want;
  size_t n = choose_writes(m, side, &want);
  uint32_t dim = m->config.dim;
  if (want && n > 1) { /* only a single row shows the result */
    m->rows[0] = m->rows[n - 1];
    m->keys[0] = m->keys[n - 1];
    n = 1;
  }
  int32_t deltas[BATCH_MAX], now[BATCH_MAX];
  for (size_t i = 0; i < n; i++) {
    now[i] = m->committed[m->rows[i]];
    for (size_t k = 0; k < i; k++) /* a repeated key adds up */
      now[i] += m->rows[k] == m->rows[i] && now[i] != ABSENT ? deltas[k] : 0;
    deltas[i] = now[i] == ABSENT ? 5 : any_value() - now[i];
    for (uint32_t d = 0; d < dim; d++)
      m->vectors[i * dim + d] = (float)deltas[i];
  }
  NEED(GIVES(m->s[side], want,
             emb_rmw(m->s[side], m->keys, n, m->vectors, m->found, NULL)));
  for (size_t i = 0; !want && i < n; i++) {
    NEED(right(m, "rmw", m->rows[i], m->committed[m->rows[i]], m->found[i],
               NULL, m->found[i]));
    if (m->found[i])
      set_now(m, m->rows[i], now[i] + deltas[i]);
  }
}

static void delete_some(struct model *m) {
  int side = (int)test_below(2), want;
  size_t n = choose_writes(m, side, &want), done = want ? n - 1 : n;
  NEED(GIVES(m->s[side], want, emb_delete(m->s[side], m->keys, n, m->found)));
  for (size_t i = 0; i < done; i++) {
    NEED(right(m, "delete", m->rows[i], m->committed[m->rows[i]], m->found[i],
               NULL, m->found[i]));
    if (m->found[i])
      set_now(m, m->rows[i], ABSENT);
  }
}

/* Wrong rows must leave everything unchanged. */
static void refused(struct model *m) {
  int side = (int)test_below(2), done;
  emb_session *s = m->s[side];
  size_t n = 1 + test_below(m->batch);
  choose(m, n);
  memset(m->vectors, 0, n * m->config.dim * sizeof *m->vectors);
  m->vectors[test_below(n * m->config.dim)] =
      test_chance(50) || m->config.type == EMB_F32 ? __builtin_nanf("")
                                                   : 70000.0f;
  NEED(GIVES(
      s, EMB_NONFINITE,
      side == m->txn && n == 1
          ? emb_txn_put_if(s, m->keys[0], m->vectors, 0, test_chance(50), &done)
      : side == m->txn && test_chance(50)
          ? emb_txn_put(s, m->keys, n, m->vectors)
      : test_chance(50) ? emb_put(s, m->keys, n, m->vectors, NULL)
                        : emb_rmw(s, m->keys, n, m->vectors, NULL, NULL)));
  NEED(GIVES(s, EMB_OK, emb_put(s, m->keys, 0, m->vectors, NULL)));
}

/* ---- transactions -------------------------------------------------------- */

static void begin(struct model *m) {
  int side = (int)test_below(2);
  NEED(OK(m->s[side], emb_begin(m->s[side])));
  m->txn = side;
  memcpy(m->mine, m->committed, m->n * sizeof *m->mine);
  memset(m->claimed, 0, m->n);
  m->changed = m->was_prepared = 0;
  m->depth = 0;
  m->prepared_at = 0;
  NEED(GIVES(m->s[!side], EMB_BUSY, emb_begin(m->s[!side])));
  NEED(GIVES(m->s[side], EMB_MISUSE, emb_begin(m->s[side])));
  NEED(GIVES(m->s[side], EMB_LOCKED, emb_checkpoint(m->s[side])));
}

/* Writes one row, only if the key exists, or only if it does not. */
static void txn_write_if(struct model *m) {
  int present = test_chance(50), done = -1;
  int32_t value = any_value();
  choose(m, 1);
  uint32_t row = m->rows[0];
  help_vector(m->vectors, m->config.dim, m->keys[0], value);
  NEED(OK(m->s[m->txn], emb_txn_put_if(m->s[m->txn], m->keys[0], m->vectors, 0,
                                       present, &done)));
  NEED(CHECK_EQ_INT(done, (m->mine[row] != ABSENT) == present));
  if (done) {
    m->mine[row] = value;
    m->claimed[row] = 1;
    m->changed = 1;
  }
}

static void txn_write(struct model *m) {
  emb_session *s = m->s[m->txn];
  size_t n = 1 + (test_chance(50) ? test_below(3) : test_below(m->batch));
  choose(m, n);
  m->prepared_at = 0;
  if (test_chance(30)) {
    txn_write_if(m);
    return;
  }
  if (test_chance(65)) {
    int32_t values[BATCH_MAX];
    for (size_t i = 0; i < n; i++) {
      values[i] = any_value();
      help_vector(m->vectors + i * m->config.dim, m->config.dim, m->keys[i],
                  values[i]);
    }
    NEED(OK(s, emb_txn_put(s, m->keys, n, m->vectors)));
    for (size_t i = 0; i < n; i++) {
      m->mine[m->rows[i]] = values[i];
      m->claimed[m->rows[i]] = 1;
    }
    m->changed = 1;
    return;
  }
  NEED(OK(s, emb_txn_delete(s, m->keys, n, m->found)));
  for (size_t i = 0; i < n; i++) {
    uint32_t row = m->rows[i];
    NEED(right(m, "delete in transaction", row, m->mine[row], m->found[i], NULL,
               m->found[i]));
    if (m->found[i]) {
      m->mine[row] = ABSENT;
      m->claimed[row] = 1;
      m->changed = 1;
      gone_for_scans(m, m->txn, row);
    }
  }
}

/* The transaction's session sees `to` from now on. */
static void back_to(struct model *m, const int32_t *to) {
  for (uint32_t i = 0; i < m->n; i++) {
    /* Others' later writes stay: they cannot write keys that it claimed. */
    int32_t was = to == NULL || !m->claimed[i] ? m->committed[i] : to[i];
    if (was == ABSENT && m->mine[i] != ABSENT)
      gone_for_scans(m, m->txn, i);
    m->mine[i] = was;
  }
  for (int k = 0; k < SCANS; k++)
    if (m->scans[k].scan != NULL && m->scans[k].side == m->txn)
      m->scans[k].aborted = 1;
}

static void savepoints(struct model *m) {
  emb_session *s = m->s[m->txn];
  int what = (int)test_below(10);
  if (what < 5 && m->depth < DEPTH_MAX) {
    int number = m->depth
                     ? m->saves[m->depth - 1].number + 1 + (int)test_below(2)
                     : 1 + (int)test_below(3);
    NEED(OK(s, emb_savepoint(s, number)));
    m->saves[m->depth].number = number;
    memcpy(m->saves[m->depth++].view, m->mine, m->n * sizeof *m->mine);
    return;
  }
  if (m->depth == 0)
    return;
  int at = (int)test_below((uint64_t)m->depth), number = m->saves[at].number;
  if (what < 7) {
    NEED(OK(s, emb_savepoint_release(s, number)));
    m->depth = at;
    return;
  }
  m->prepared_at = 0;
  if (what == 9 && test_chance(30)) { /* older than the first */
    NEED(OK(s, emb_rollback_to(s, 0)));
    back_to(m, NULL);
    m->depth = 0;
    return;
  }
  NEED(OK(s, emb_rollback_to(s, number)));
  back_to(m, m->saves[at].view);
  m->depth = at + 1;
}

static void prepare(struct model *m) {
  emb_session *s = m->s[m->txn];
  uint64_t number, again;
  NEED(OK(s, emb_prepare(s, &number)));
  if (number == 0) {
    for (uint32_t i = 0; i < m->n; i++)
      NEED(CHECK_EQ_INT(m->mine[i], m->committed[i]));
    return;
  }
  NEED(CHECK(m->changed));
  NEED(OK(s, emb_prepare(s, &again)));
  NEED(CHECK_EQ_INT(again, number));
  if (!m->prepared_at) /* otherwise it was prepared, and did nothing */
    all_durable(m);
  m->prepared_at = (int32_t)m->calls + 1;
  m->was_prepared = 1;
}

static void finish(struct model *m, int commit) {
  emb_session *s = m->s[m->txn];
  int side = m->txn, prepared = m->prepared_at != 0;
  if (commit) {
    NEED(OK(s, emb_commit(s)));
    m->txn = -1; /* so that scans of both sides note deleted keys */
    for (uint32_t i = 0; i < m->n; i++)
      if (m->claimed[i] && m->mine[i] != m->committed[i]) {
        commit_value(m, i, m->mine[i]);
        if (prepared)
          m->durable[i] = m->mine[i];
      }
  } else {
    back_to(m, NULL);
    emb_rollback(s);
    m->txn = -1;
  }
  if (m->was_prepared)
    m->outcome = commit && prepared;
  NEED(CHECK_EQ_INT(emb_in_transaction(m->s[side]), 0));
}

static void transaction(struct model *m) {
  if (m->txn < 0) {
    begin(m);
    return;
  }
  NEED(CHECK_EQ_INT(emb_in_transaction(m->s[m->txn]), 1));
  uint32_t what = test_below(100);
  if (what < 60)
    txn_write(m);
  else if (what < 85)
    savepoints(m);
  else if (what < 90)
    prepare(m);
  else
    finish(m, what < 97);
}

/* ---- scans --------------------------------------------------------------- */

static int in_range(const struct watched *w, int64_t key) {
  return key >= w->lo && key <= w->hi;
}

static void scan_open(struct model *m, struct watched *w) {
  memset(&w->last, 0, sizeof w->last);
  w->side = (int)test_below(2);
  w->order = (int)test_below(3);
  w->lo = test_chance(70) ? INT64_MIN : key_of(m, test_below(m->n));
  w->hi = test_chance(70) ? INT64_MAX : key_of(m, test_below(m->n));
  w->started = w->aborted = 0;
  NEED(OK(m->s[w->side],
          emb_scan_open(m->s[w->side], w->lo, w->hi, w->order, &w->scan)));
  memset(w->came, 0, m->n);
  for (uint32_t i = 0; i < m->n; i++)
    w->stable[i] = view(m, w->side)[i] != ABSENT && in_range(w, key_of(m, i));
}

static void scan_close(struct model *m, struct watched *w) {
  (void)m;
  emb_scan_close(w->scan);
  w->scan = NULL;
}

static void scan_row(struct model *m, struct watched *w, int64_t key,
                     const float *vector, uint64_t version) {
  uint32_t i = row_of(m, key);
  NEED(test_check(i != UINT32_MAX && in_range(w, key), __FILE__, __LINE__,
                  "call %u: a scan gave key %" PRId64, m->calls, key));
  int32_t now = view(m, w->side)[i];
  NEED(right(m, "scan", i, now, 1, vector, version));
  if (w->order != EMB_SCAN_ANY) {
    NEED(test_check(!w->started || (w->order == EMB_SCAN_ASC ? key > w->last
                                                             : key < w->last),
                    __FILE__, __LINE__, "call %u: keys out of order",
                    m->calls));
    w->last = key;
    w->started = 1;
  }
  w->came[i]++;
  NEED(test_check(!w->stable[i] || w->came[i] == 1, __FILE__, __LINE__,
                  "call %u: row %u came %d times in a scan, order %d", m->calls,
                  i, w->came[i], w->order));
}

static void scan_next(struct model *m, struct watched *w) {
  emb_session *s = m->s[w->side];
  size_t max = 1 + test_below(m->batch), n;
  int with_versions = test_chance(50);
  float *to = test_chance(80) ? m->vectors : NULL;
  int rc = emb_scan_next(w->scan, max, m->keys, to,
                         with_versions ? m->versions : NULL, &n);
  if (w->aborted && w->order == EMB_SCAN_ANY) {
    NEED(GIVES(s, EMB_ABORT, rc));
    scan_close(m, w);
    return;
  }
  NEED(OK(s, rc));
  NEED(CHECK(n <= max));
  for (size_t i = 0; i < n && !m->stop; i++)
    scan_row(m, w, m->keys[i], to ? to + i * m->config.dim : NULL,
             with_versions ? m->versions[i] : 1);
  if (m->stop || n > 0)
    return;
  for (uint32_t i = 0; i < m->n; i++)
    NEED(test_check(!w->stable[i] || w->came[i] == 1, __FILE__, __LINE__,
                    "call %u: row %u was left out of a scan, order %d",
                    m->calls, i, w->order));
  scan_close(m, w);
}

static void scanning(struct model *m) {
  struct watched *w = &m->scans[test_below(SCANS)];
  if (w->scan == NULL) {
    if (test_chance(30))
      scan_open(m, w);
  } else if (test_chance(1)) {
    scan_close(m, w);
  } else {
    for (uint32_t i = test_below(20) + 1; i && w->scan != NULL && !m->stop; i--)
      scan_next(m, w);
  }
}

/* ---- maintenance, closing, crashing -------------------------------------- */

static void step_some(struct model *m) {
  int more = 1;
  for (uint32_t i = test_below(6); i && more; i--)
    NEED(OK(NULL, emb_step(m->store, &more)));
}

static int idle_side(const struct model *m) {
  return m->txn < 0 ? (int)test_below(2) : !m->txn;
}

static void checkpoint(struct model *m) {
  emb_session *s = m->s[idle_side(m)];
  NEED(OK(s, test_chance(70) ? emb_checkpoint(s) : emb_optimize(s)));
  all_durable(m);
}

static void open_store(struct model *m) {
  static const uint32_t io[] = {EMB_IO_AUTO, EMB_IO_URING, EMB_IO_PREAD};
  m->config.memory_bytes = test_chance(60) ? 1 : (uint64_t)test_below(12) << 20;
  m->config.io = io[test_below(3)];
  emb_err err;
  NEED(help_open(m->dir, &m->config, &m->store, &m->s[0]));
  NEED(CHECK_EQ_INT(emb_session_open(m->store, &m->s[1], &err), EMB_OK));
}

static void close_store(struct model *m) {
  m->from_disk += help_stat(m->store, "get_disk");
  m->compacted += help_stat(m->store, "compacted_records");
  for (int k = 0; k < SCANS; k++)
    if (m->scans[k].scan != NULL)
      scan_close(m, &m->scans[k]);
  if (m->txn >= 0) {
    if (test_chance(50)) {
      m->outcome = m->was_prepared ? 0 : m->outcome;
      m->txn = -1; /* closing the session rolls back */
    } else {
      finish(m, 1);
    }
  }
  emb_session_close(m->s[1]);
  NEED(help_close(m->store, m->s[0]));
  m->store = NULL;
  all_durable(m);
}

static void reopen(struct model *m) {
  close_store(m);
  if (!m->stop)
    open_store(m);
  if (!m->stop)
    count_keys(m);
}

static int by_row(const void *a, const void *b) {
  uint32_t x = ((const struct event *)a)->i, y = ((const struct event *)b)->i;
  return x < y ? -1 : x > y;
}

/* May a key have this value after a crash?  Events are sorted. */
static int may_have(const struct model *m, uint32_t i, int32_t value) {
  if (value == m->durable[i])
    return 1;
  size_t low = 0, high = m->event_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (m->events[middle].i < i)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < m->event_count && m->events[low].i == i; low++)
    if (m->events[low].value == value)
      return 1;
  return 0;
}

/* Compares the copy while in doubt or after a decision. */
static void crash(struct model *m) {
  const char *dir = help_path("crash");
  emb_store *store;
  emb_session *s;
  emb_err err;
  emb_config config = m->config;
  int doubt = m->txn >= 0 && m->prepared_at != 0, decide = test_chance(50);
  NEED(CHECK(files_copy_dir(dir, m->dir)));
  NEED(help_open(dir, &config, &store, &s));
  if (doubt)
    NEED(CHECK(emb_in_doubt(store) != 0));
  else /* the transaction in doubt was decided before, or is void */
    decide = m->txn >= 0 && m->was_prepared ? 0 : m->outcome;
  if (emb_in_doubt(store) != 0) {
    NEED(GIVES(s, EMB_LOCKED, emb_begin(s)));
    NEED(test_check(emb_resolve(store, emb_in_doubt(store), decide, &err) ==
                        EMB_OK,
                    __FILE__, __LINE__, "resolve: %s", err.text));
  }
  if (m->event_count)
    qsort(m->events, m->event_count, sizeof *m->events, by_row);
  for (uint32_t from = 0; from < m->n;) {
    size_t n = 0;
    for (; n < m->batch && from + n < m->n; n++)
      m->keys[n] = key_of(m, from + (uint32_t)n);
    NEED(OK(s, emb_get(s, m->keys, n, m->vectors, m->found, m->versions)));
    for (uint32_t k = 0; k < n; k++) {
      uint32_t i = from + k;
      int32_t value = m->found[k] ? help_value(m->vectors + k * config.dim,
                                               config.dim, m->keys[k])
                                  : ABSENT;
      int good = !m->found[k] || value != ABSENT;
      if (doubt && decide && m->claimed[i])
        good = good && value == m->mine[i];
      else
        good = good && may_have(m, i, value);
      NEED(test_check(good, __FILE__, __LINE__,
                      "call %u: after a crash row %u is %d, was %d (doubt %d, "
                      "decided %d, %zu writes since)",
                      m->calls, i, value, m->durable[i], doubt, decide,
                      m->event_count));
    }
    from += (uint32_t)n;
  }
  NEED(help_verify(s));
  NEED(help_close(store, s));
  NEED(CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK));
  NEED(CHECK_EQ_INT(help_entries(dir), -1));
}

/* ---- a case -------------------------------------------------------------- */

static void one_call(struct model *m) {
  uint32_t what = test_below(1000);
  if (what < 250)
    read_some(m);
  else if (what < 400)
    put_some(m);
  else if (what < 480)
    add_some(m);
  else if (what < 540)
    delete_some(m);
  else if (what < 560)
    refused(m);
  else if (what < 590)
    exists_some(m);
  else if (what < 600)
    count_keys(m);
  else if (what < 800)
    transaction(m);
  else if (what < 900)
    scanning(m);
  else if (what < 980)
    step_some(m);
  else if (what < 986)
    checkpoint(m);
  else if (what < 989)
    reopen(m);
  else if (what < 992)
    crash(m);
  else if (what < 994)
    (void)help_verify(m->s[idle_side(m)]);
  else if (what < 996)
    rewrite_many(m);
}

/* Most keys exist at the beginning. */
static void load(struct model *m) {
  for (uint32_t from = 0; from < m->n;) {
    size_t n = 0;
    for (; n < m->batch && from + n < m->n; n++) {
      uint32_t i = from + (uint32_t)n;
      int32_t value = any_value();
      m->keys[n] = key_of(m, i);
      help_vector(m->vectors + n * m->config.dim, m->config.dim, m->keys[n],
                  value);
      set_now(m, i, value);
    }
    NEED(OK(m->s[0], emb_put(m->s[0], m->keys, n, m->vectors, NULL)));
    from += (uint32_t)n;
    if (test_chance(50))
      step_some(m);
  }
}

static void *array(size_t n, size_t bytes) {
  void *a = calloc(n, bytes);
  if (a == NULL)
    abort();
  return a;
}

static void model_run(uint32_t dim, uint32_t type, uint32_t n, unsigned calls) {
  struct model *m = array(1, sizeof *m);
  if (access("/dev/shm", W_OK) == 0) /* hundreds of syncs */
    (void)test_dir_in("/dev/shm");
  (void)snprintf(m->dir, sizeof m->dir, "%s", help_path("store"));
  m->config.dim = dim;
  m->config.type = type;
  m->config.flags = EMB_OPEN_CREATE | EMB_OPEN_STEP;
  m->n = n;
  m->sparse = test_chance(50);
  m->txn = -1;
  m->batch = (4u << 20) / (dim * 4);
  m->batch = m->batch > BATCH_MAX ? BATCH_MAX : m->batch;
  m->vectors = array(BATCH_MAX < m->batch ? BATCH_MAX : m->batch, dim * 4);
  m->committed = array(n, 4);
  m->mine = array(n, 4);
  m->durable = array(n, 4);
  m->claimed = array(n, 1);
  for (int i = 0; i < DEPTH_MAX; i++)
    m->saves[i].view = array(n, 4);
  for (int i = 0; i < SCANS; i++) {
    m->scans[i].stable = array(n, 1);
    m->scans[i].came = array(n, 1);
  }
  for (uint32_t i = 0; i < n; i++)
    m->committed[i] = m->durable[i] = ABSENT;

  open_store(m);
  if (!m->stop)
    load(m);
  calls = help_amount(calls);
  if (dim > 1 && dim < 5000 && calls < 400)
    calls = 400; /* so that some are compacted */
  for (m->calls = 0; m->calls < calls && !m->stop; m->calls++) {
    one_call(m);
    if (!m->stop && m->calls % (calls / 3) == calls / 4) {
      compare_all(m, 0);
      compare_all(m, 1);
    }
  }
  test_count("calls compared with a model", m->calls);
  if (!m->stop)
    close_store(m);
  if (!m->stop)
    open_store(m);
  if (!m->stop)
    compare_all(m, 0);
  if (!m->stop)
    rewrite_many(m);
  if (!m->stop)
    OK(m->s[0], emb_optimize(m->s[0]));
  if (!m->stop)
    compare_all(m, 0);
  if (!m->stop)
    CHECK(help_verify(m->s[0]));
  if (!m->stop)
    close_store(m);
  if (!m->stop) {
    CHECK(m->from_disk > 0);
    if (dim > 1 && dim < 5000) /* the others may leave no holes */
      CHECK(m->compacted > 0);
  }

  for (int i = 0; i < SCANS; i++) {
    free(m->scans[i].stable);
    free(m->scans[i].came);
  }
  for (int i = 0; i < DEPTH_MAX; i++)
    free(m->saves[i].view);
  free(m->events);
  free(m->claimed);
  free(m->durable);
  free(m->mine);
  free(m->committed);
  free(m->vectors);
  free(m);
}

TEST(model_1_float32) { model_run(1, EMB_F32, 300000, 700); }
TEST(model_3_float16) { model_run(3, EMB_F16, 200000, 700); }
TEST(model_64_float32) { model_run(64, EMB_F32, 60000, 1500); }
TEST(model_64_float16) { model_run(64, EMB_F16, 5000, 4000); }
TEST(model_700_float16) { model_run(700, EMB_F16, 9000, 1000); }
TEST(model_700_float32) { model_run(700, EMB_F32, 4500, 1000); }
TEST(model_5000_float32) { model_run(5000, EMB_F32, 700, 800); }
TEST(model_65536_float32) { model_run(65536, EMB_F32, 60, 250); }
TEST(model_65536_float16) { model_run(65536, EMB_F16, 100, 250); }
