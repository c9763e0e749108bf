/* SPDX-License-Identifier: MIT
**
** change.c -- stores whose records hold more than a vector: several segments,
** optimizer state, rows that appear by themselves.
**
** The model keeps each row's vectors and state in memory and works on them with
** the functions of optim.h, which have tests of their own.  The store must keep
** the state with the vectors through log, cache, disk, commit, rollback and
** restart, bit for bit.
*/
#include "store_help.h"

#include <math.h>
#include <pthread.h>

#include "engine/table/session/session.h"
#include "engine/math/vec/init.h"
#include "engine/math/vec/optim.h"

enum { KEYS = 2000, BATCH = 200, STATE_MAX = 820, DIM_MAX = 408, SEGMENTS = 3 };

struct segment_model {
  uint32_t dim, type, first;
  struct optim optim;
  int optimized;
  struct init init;
};

struct row_model {
  int there;
  float vector[DIM_MAX];
  float state[SEGMENTS][STATE_MAX];
};

struct model {
  uint32_t segments, dim, insert_on;
  uint64_t seed;
  struct segment_model segment[SEGMENTS];
  struct row_model *rows;
};

/* ---- the model ----------------------------------------------------------- */

static float half(float x) {
  uint16_t h;
  float back;
  vec_scalar.to_f16(&h, &x, 1);
  vec_scalar.from_f16(&back, &h, 1);
  return back;
}

static void model_init(struct model *m, const emb_config *c) {
  memset(m, 0, sizeof *m);
  m->segments = c->segment_count;
  m->insert_on = c->insert_on;
  m->seed = c->seed;
  for (uint32_t i = 0; i < m->segments; i++) {
    struct segment_model *to = &m->segment[i];
    to->dim = c->segments[i].dim;
    to->type = c->segments[i].type;
    to->first = m->dim;
    to->optimized = c->segments[i].optimizer != NULL;
    if (to->optimized)
      CHECK_EQ_INT(optim_parse(&to->optim, c->segments[i].optimizer, NULL), 0);
    const char *init = c->segments[i].initializer;
    CHECK_EQ_INT(init_parse(&to->init, init ? init : "zeros", NULL), 0);
    m->dim += to->dim;
  }
  m->rows = calloc(KEYS, sizeof *m->rows);
}

static void model_round(const struct segment_model *s, float *vector) {
  for (uint32_t k = 0; s->type == EMB_F16 && k < s->dim; k++)
    vector[s->first + k] = half(vector[s->first + k]);
}

static void model_initial(const struct model *m, int64_t key, float *vector) {
  for (uint32_t i = 0; i < m->segments; i++) {
    const struct segment_model *s = &m->segment[i];
    init_fill(&s->init, m->seed + i, key, s->dim, vector + s->first);
  }
}

static void model_begin(const struct model *m, int64_t key,
                        struct row_model *row) {
  memset(row, 0, sizeof *row);
  model_initial(m, key, row->vector);
  for (uint32_t i = 0; i < m->segments; i++) {
    const struct segment_model *s = &m->segment[i];
    if (s->optimized)
      optim_init(&s->optim, s->dim, row->vector + s->first, row->state[i]);
    model_round(s, row->vector);
  }
  row->there = 1;
}

static int computes(const struct segment_model *s) {
  return s->optimized &&
         (s->optim.kind == OPTIM_FTRL || s->optim.kind == OPTIM_GROUP_FTRL);
}

/* parts: a bit for each segment that is put; 0: all. */
static void model_put(const struct model *m, int64_t key, const float *vector,
                      uint32_t parts) {
  struct row_model *row = &m->rows[key];
  if (!row->there)
    model_begin(m, key, row);
  for (uint32_t i = 0; i < m->segments; i++) {
    const struct segment_model *s = &m->segment[i];
    if (parts && !(parts >> i & 1))
      continue;
    memcpy(row->vector + s->first, vector + s->first, s->dim * sizeof *vector);
    if (computes(s))
      optim_init(&s->optim, s->dim, row->vector + s->first, row->state[i]);
    model_round(s, row->vector);
  }
}

static void model_apply(const struct model *m, int64_t key, const float *by,
                        float lr, uint32_t parts) {
  struct row_model *row = &m->rows[key];
  if (!row->there && m->insert_on == EMB_INSERT_ON_PUT)
    return;
  if (!row->there)
    model_begin(m, key, row);
  for (uint32_t i = 0; i < m->segments; i++) {
    const struct segment_model *s = &m->segment[i];
    struct optim_step how = {.lr = lr > 0 ? lr : -1, .key = key};
    float *vector = row->vector + s->first;
    if (!s->optimized || (parts && !(parts >> i & 1)))
      continue;
    if (s->type == EMB_F16) {
      uint16_t halves[DIM_MAX];
      vec_scalar.to_f16(halves, vector, s->dim);
      CHECK_EQ_INT(optim_apply_f16(&s->optim, s->dim, halves, row->state[i],
                                   by + s->first, &how),
                   0);
      vec_scalar.from_f16(vector, halves, s->dim);
    } else {
      CHECK_EQ_INT(optim_apply(&s->optim, s->dim, vector, row->state[i],
                               by + s->first, &how),
                   0);
    }
  }
}

/* ---- the store ----------------------------------------------------------- */

struct runner {
  const char *dir;
  emb_config config;
  emb_store *store;
  emb_session *s;
  struct model m;
  int64_t keys[BATCH];
  float rows[BATCH * DIM_MAX], got[BATCH * DIM_MAX];
  uint8_t found[BATCH];
  uint64_t versions[BATCH];
};

static float random_element(void) {
  return (float)((int64_t)(test_random() % 2001) - 1000) / 500.0f;
}

static size_t random_rows(struct runner *r, int distinct) {
  size_t n = 1 + test_random() % BATCH;
  int64_t first = (int64_t)(test_random() % KEYS);
  for (size_t i = 0; i < n; i++)
    r->keys[i] = distinct ? (first + (int64_t)i * 7) % KEYS
                          : (int64_t)(test_random() % KEYS) %
                                (1 + (int64_t)(test_random() % KEYS));
  for (size_t i = 0; i < n * r->m.dim; i++)
    r->rows[i] = random_element();
  return n;
}

static int same_row(const struct runner *r, int64_t key, const float *got,
                    int found) {
  const struct row_model *row = &r->m.rows[key];
  float want[DIM_MAX];
  if (row->there)
    memcpy(want, row->vector, sizeof want);
  else
    model_initial(&r->m, key, want);
  return test_check(found == row->there &&
                        memcmp(got, want, r->m.dim * sizeof *want) == 0,
                    __FILE__, __LINE__,
                    "key %" PRId64 ": found %d not %d, first element %g not %g",
                    key, found, row->there, (double)got[0], (double)want[0]);
}

static void compare(struct runner *r, size_t n) {
  if (!OK(r->s, emb_peek(r->s, r->keys, n, r->got, r->found, r->versions)))
    return;
  for (size_t i = 0; i < n; i++)
    if (!same_row(r, r->keys[i], r->got + i * r->m.dim, r->found[i]))
      return;
}

static void compare_all(struct runner *r) {
  for (int64_t at = 0; at < KEYS; at += BATCH) {
    for (int64_t i = 0; i < BATCH; i++)
      r->keys[i] = at + i;
    compare(r, BATCH);
  }
}

/* The gradients of repeated keys are added in the order of the rows. */
static void apply_to_model(struct runner *r, size_t n, const emb_update *how) {
  uint32_t dim = r->m.dim;
  for (size_t i = 0; i < n; i++) {
    float sum[DIM_MAX];
    int first = 1;
    for (size_t k = 0; k < i; k++)
      first &= r->keys[k] != r->keys[i];
    if (!first)
      continue;
    memcpy(sum, r->rows + i * dim, dim * sizeof *sum);
    for (size_t k = i + 1; k < n; k++)
      for (uint32_t e = 0; r->keys[k] == r->keys[i] && e < dim; e++)
        sum[e] += r->rows[k * dim + e];
    model_apply(&r->m, r->keys[i], sum, how->lr, how->parts);
  }
}

/* Some segments, at least one of them with an optimizer; or all. */
static uint32_t random_parts(const struct model *m) {
  uint32_t parts = (uint32_t)test_random() & ((1u << m->segments) - 1);
  for (uint32_t i = 0; i < m->segments; i++)
    if (parts >> i & 1 && m->segment[i].optimized)
      return parts;
  return 0;
}

static void apply(struct runner *r, int in_txn) {
  size_t n = random_rows(r, test_random() % 2 == 0);
  emb_update how = {.lr = test_random() % 2 ? 0 : 0.03f,
                    .parts = random_parts(&r->m)};
  uint8_t there[BATCH];
  for (size_t i = 0; i < n; i++)
    there[i] = (uint8_t)r->m.rows[r->keys[i]].there;
  int ok =
      in_txn
          ? OK(r->s, emb_txn_apply_gradients(r->s, r->keys, n, r->rows, &how,
                                             r->found))
          : OK(r->s, emb_apply_gradients(r->s, r->keys, n, r->rows, &how,
                                         &(emb_rows){.found = r->found,
                                                     .versions = r->versions}));
  if (!ok)
    return;
  CHECK(memcmp(there, r->found, n) == 0);
  apply_to_model(r, n, &how);
  compare(r, n);
}

static void put(struct runner *r, int in_txn) {
  size_t n = random_rows(r, 0);
  uint32_t parts = (uint32_t)test_random() & ((1u << r->m.segments) - 1);
  int ok =
      in_txn ? OK(r->s, emb_txn_put_parts(r->s, r->keys, n, r->rows, parts))
             : OK(r->s,
                  emb_put_parts(r->s, r->keys, n, r->rows, parts, r->versions));
  for (size_t i = 0; ok && i < n; i++)
    model_put(&r->m, r->keys[i], r->rows + i * r->m.dim, parts);
  compare(r, n);
}

static void erase(struct runner *r, int in_txn) {
  size_t n = random_rows(r, 1) / 4;
  if (in_txn)
    OK(r->s, emb_txn_delete(r->s, r->keys, n, NULL));
  else
    OK(r->s, emb_delete(r->s, r->keys, n, NULL));
  for (size_t i = 0; i < n; i++)
    r->m.rows[r->keys[i]].there = 0;
  compare(r, n);
}

/* Checks the results of a lookup, which may have inserted rows. */
static void check_lookup(struct runner *r, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct row_model *row = &r->m.rows[r->keys[i]];
    if (r->m.insert_on == EMB_INSERT_ON_LOOKUP && !row->there)
      model_begin(&r->m, r->keys[i], row);
    if (!same_row(r, r->keys[i], r->got + i * r->m.dim, r->found[i]))
      return;
  }
}

static void get(struct runner *r) {
  size_t n = random_rows(r, 0);
  if (!OK(r->s, emb_get(r->s, r->keys, n, r->got, r->found, r->versions)))
    return;
  check_lookup(r, n);
}

static void transaction(struct runner *r) {
  struct row_model *before = malloc(KEYS * sizeof *before);
  struct row_model *middle = malloc(KEYS * sizeof *middle);
  memcpy(before, r->m.rows, KEYS * sizeof *before);
  if (OK(r->s, emb_begin(r->s))) {
    apply(r, 1);
    put(r, 1);
    OK(r->s, emb_savepoint(r->s, 0));
    memcpy(middle, r->m.rows, KEYS * sizeof *middle);
    apply(r, 1);
    erase(r, 1);
    apply(r, 1);
    if (test_random() % 2) {
      OK(r->s, emb_rollback_to(r->s, 0));
      memcpy(r->m.rows, middle, KEYS * sizeof *middle);
      compare_all(r);
      apply(r, 1);
    }
    if (test_random() % 2) {
      OK(r->s, emb_commit(r->s));
    } else {
      emb_rollback(r->s);
      memcpy(r->m.rows, before, KEYS * sizeof *before);
    }
    compare_all(r);
  }
  free(before);
  free(middle);
}

static int reopen(struct runner *r) {
  return help_close(r->store, r->s) &&
         help_open(r->dir, &r->config, &r->store, &r->s);
}

/* A prefetch delivers the same as a Get. */
static void prefetch(struct runner *r) {
  size_t n = random_rows(r, 0);
  uint64_t ticket;
  if (!OK(r->s, emb_prefetch(r->s, r->keys, n,
                             &(emb_rows){.vectors = r->got,
                                         .found = r->found,
                                         .versions = r->versions},
                             &ticket)) ||
      !OK(r->s, emb_prefetch_synchronize(r->s, ticket, NULL)))
    return;
  check_lookup(r, n);
}

static void write_back(struct runner *r) {
  size_t n = random_rows(r, 1);
  uint64_t ticket;
  if (OK(r->s, emb_write_back(r->s, r->keys, n, r->rows, &ticket)) &&
      OK(r->s, emb_write_back_synchronize(r->s, ticket, NULL)))
    for (size_t i = 0; i < n; i++)
      model_put(&r->m, r->keys[i], r->rows + i * r->m.dim, 0);
  compare(r, n);
}

static void look_ahead(struct runner *r) {
  size_t n = random_rows(r, 1);
  emb_ahead ahead;
  int dest = test_random() % 2 ? EMB_AHEAD_BUFFER : EMB_AHEAD_CACHE;
  OK(r->s, emb_lookahead(r->s, r->keys, n, dest, &ahead));
  if (test_random() % 2)
    OK(r->s, emb_lookahead_wait(r->s, ahead.number));
}

static void work(struct runner *r, int steps) {
  for (int i = 0; i < steps && !test_state.failures; i++) {
    switch (test_random() % 16) {
    case 0:
      put(r, 0);
      break;
    case 1:
      erase(r, 0);
      break;
    case 2:
      transaction(r);
      break;
    case 3:
      get(r);
      break;
    case 4:
      prefetch(r);
      break;
    case 5:
      write_back(r);
      break;
    case 6:
    case 7:
      look_ahead(r);
      break;
    case 8:
      if (test_random() % 8 == 0)
        OK(r->s, emb_checkpoint(r->s));
      break;
    case 9:
      if (test_random() % 16 == 0)
        reopen(r);
      break;
    default:
      apply(r, 0);
    }
  }
}

/* disk: most records are on disk. */
static void beside_model(const emb_config *config, int disk) {
  struct runner *r = calloc(1, sizeof *r);
  r->dir = help_path("store");
  r->config = *config;
  model_init(&r->m, config);
  if (help_open(r->dir, config, &r->store, &r->s)) {
    work(r, 300 * (int)help_long());
    compare_all(r);
    help_verify(r->s);
    if (disk)
      CHECK(help_stat(r->store, "read_pages") > 100);
    if (reopen(r)) {
      compare_all(r);
      help_close(r->store, r->s);
    }
  }
  free(r->m.rows);
  free(r);
}

TEST_OF_ONE_THREAD(one_vector_with_adagrad) {
  emb_segment segment = {16, EMB_F32, "adagrad(lr=0.05)", NULL, NULL, NULL};
  emb_config config = {.flags = EMB_OPEN_CREATE,
                       .segments = &segment,
                       .segment_count = 1,
                       .insert_on = EMB_INSERT_ON_UPDATE};
  beside_model(&config, 0);
}

TEST_OF_ONE_THREAD(bias_and_vector_that_appear_when_looked_up) {
  emb_segment segments[2] = {
      {1, EMB_F32, "ftrl(lr=0.1, l1=0.01)", NULL, NULL, NULL},
      {400, EMB_F32, "adam(lr=0.01)", "uniform(low=-0.1, high=0.1)", NULL,
       NULL}};
  emb_config config = {.flags = EMB_OPEN_CREATE,
                       .memory_bytes = 1,
                       .segments = segments,
                       .segment_count = 2,
                       .insert_on = EMB_INSERT_ON_LOOKUP,
                       .seed = 3};
  beside_model(&config, 1);
}

TEST_OF_ONE_THREAD(mixed_types_with_and_without_optimizer) {
  emb_segment segments[3] = {
      {5, EMB_F16, "rowwise_adagrad(lr=0.05)", "normal(std=0.1)", NULL, NULL},
      {3, EMB_F32, NULL, "constant(value=0.5)", NULL, NULL},
      {7, EMB_F16, "momentum(lr=0.01, momentum=0.5)", NULL, NULL, NULL}};
  emb_config config = {.flags = EMB_OPEN_CREATE,
                       .segments = segments,
                       .segment_count = 3,
                       .insert_on = EMB_INSERT_ON_PUT};
  beside_model(&config, 0);
}

/* ---- refused input ------------------------------------------------------- */

static void refuses(const emb_config *config, int code, const char *text) {
  emb_store *store;
  emb_err err;
  CHECK_EQ_INT(emb_open(help_path("refused"), config, &store, &err), code);
  (void)test_check(strstr(err.text, text) != NULL, __FILE__, __LINE__,
                   "\"%s\" does not say \"%s\"", err.text, text);
}

TEST(what_cannot_be_is_named) {
  emb_segment many[EMB_SEGMENTS_MAX + 1] = {
      {4, EMB_F32, NULL, NULL, NULL, NULL}};
  emb_config c = {.dim = 4, .flags = EMB_OPEN_CREATE, .optimizer = "sdg"};
  refuses(&c, EMB_RANGE, "sdg");
  c.optimizer = "sgd(rl=1)";
  refuses(&c, EMB_RANGE, "rl");
  c.optimizer = NULL;
  c.initializer = "gauss";
  refuses(&c, EMB_RANGE, "gauss");
  c.initializer = NULL;
  c.insert_on = 9;
  refuses(&c, EMB_RANGE, "insert_on 9");
  c.insert_on = 0;
  c.segments = many;
  c.segment_count = EMB_SEGMENTS_MAX + 1;
  refuses(&c, EMB_RANGE, "17");
  c.segment_count = 2;
  refuses(&c, EMB_RANGE, "got 0");
  many[1] = (emb_segment){EMB_DIM_MAX, EMB_F32, NULL, NULL, NULL, NULL};
  refuses(&c, EMB_RANGE, "65540");
}

TEST(a_bad_gradient_changes_nothing) {
  emb_config c = {
      .dim = 4, .flags = EMB_OPEN_TEMPORARY, .optimizer = "sgd(lr=1)"};
  emb_store *store;
  emb_session *s;
  int64_t keys[2] = {1, 2};
  float rows[8] = {1, 1, 1, 1, 1, 1, 1, 1}, got[8];
  emb_update how = {.lr = -1};
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  OK(s, emb_put(s, keys, 2, rows, NULL));
  GIVES(s, EMB_RANGE, emb_apply_gradients(s, keys, 2, rows, &how, NULL));
  const float bad[] = {1e-31f, 1.4e-45f,        1.1e6f,
                       1e30f,  (float)INFINITY, (float)NAN};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    how.lr = bad[i];
    GIVES(s, EMB_RANGE, emb_apply_gradients(s, keys, 2, rows, &how, NULL));
    CHECK(strstr(emb_errmsg(s), "between 1e-30 and 1000000") != NULL);
  }
  how.lr = 1e6f;
  rows[6] = 1e35f;
  GIVES(s, EMB_NONFINITE, emb_apply_gradients(s, keys, 2, rows, &how, NULL));
  CHECK(strstr(emb_errmsg(s), "row 1 (key 2)") != NULL);
  rows[6] = (float)INFINITY;
  GIVES(s, EMB_NONFINITE, emb_apply_gradients(s, keys, 2, rows, NULL, NULL));
  CHECK(strstr(emb_errmsg(s), "gradient 1 (key 2)") != NULL);
  OK(s, emb_peek(s, keys + 1, 1, got, NULL, NULL));
  CHECK(got[0] == 1 && got[2] == 1);
  help_close(store, s);
}

TEST(a_part_without_optimizer_takes_no_gradients) {
  emb_segment segments[2] = {{2, EMB_F32, NULL, NULL, NULL, NULL},
                             {2, EMB_F32, "sgd(lr=1)", NULL, NULL, NULL}};
  emb_config c = {.dim = 4,
                  .segments = segments,
                  .segment_count = 2,
                  .flags = EMB_OPEN_TEMPORARY};
  emb_store *store;
  emb_session *s;
  int64_t key = 1;
  float row[4] = {1, 1, 1, 1}, got[4];
  emb_update how = {.parts = 1};
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  OK(s, emb_put(s, &key, 1, row, NULL));
  GIVES(s, EMB_UNFIT, emb_apply_gradients(s, &key, 1, row, &how, NULL));
  how.parts = 4; /* there is no such segment */
  GIVES(s, EMB_UNFIT, emb_apply_gradients(s, &key, 1, row, &how, NULL));
  how.parts = 3;
  OK(s, emb_apply_gradients(s, &key, 1, row, &how, NULL));
  OK(s, emb_peek(s, &key, 1, got, NULL, NULL));
  CHECK(got[0] == 1 && got[1] == 1 && got[2] == 0 && got[3] == 0);
  help_close(store, s);
}

TEST(a_store_without_optimizer_takes_no_gradients) {
  emb_config c = {.dim = 4, .flags = EMB_OPEN_TEMPORARY};
  emb_store *store;
  emb_session *s;
  int64_t key = 1;
  float row[4] = {0};
  if (!help_open(test_dir(), &c, &store, &s))
    return;
  GIVES(s, EMB_UNFIT, emb_apply_gradients(s, &key, 1, row, NULL, NULL));
  help_close(store, s);
}

/* ---- the schema of an existing store ------------------------------------- */

TEST(a_store_keeps_its_schema) {
  emb_config c = {.dim = 4,
                  .flags = EMB_OPEN_CREATE,
                  .optimizer = "adam(lr=0.1)",
                  .initializer = "constant(value=2)"};
  emb_store *store;
  emb_session *s;
  int64_t key = 1;
  float row[4] = {1, 1, 1, 1}, first[4], second[4];
  const char *dir = help_path("store");
  if (!help_open(dir, &c, &store, &s))
    return;
  OK(s, emb_apply_gradients(s, &key, 1, row, NULL, NULL));
  OK(s, emb_peek(s, &key, 1, first, NULL, NULL));
  CHECK(first[0] < 2 && first[0] > 1.8f); /* a first step of Adam is lr */
  help_close(store, s);
  emb_config asks = {.dim = 0};
  if (!help_open(dir, &asks, &store, &s))
    return;
  OK(s, emb_apply_gradients(s, &key, 1, row, NULL, NULL));
  OK(s, emb_peek(s, &key, 1, second, NULL, NULL));
  CHECK(second[0] < first[0] - 0.05f);
  help_close(store, s);
  asks = (emb_config){.dim = 4, .optimizer = "adagrad"};
  emb_err err;
  CHECK_EQ_INT(emb_open(dir, &asks, &store, &err), EMB_MISMATCH);
  CHECK(strstr(err.text, "adagrad") && strstr(err.text, "adam"));
  asks = (emb_config){.dim = 4, .optimizer = "adam(lr=1)"};
  if (!help_open(dir, &asks, &store, &s))
    return;
  OK(s, emb_apply_gradients(s, &key, 1, row, NULL, NULL));
  OK(s, emb_peek(s, &key, 1, first, NULL, NULL));
  CHECK(first[0] < second[0] - 0.5f);
  help_close(store, s);
}

/* ---- at the same time ---------------------------------------------------- */

enum { THREADS = 8, SHARED = 64, ROUNDS = 300 };

struct shared {
  emb_store *store;
  uint64_t seed;
  int64_t applied[SHARED]; /* by this thread */
};

static void *apply_ones(void *arg) {
  struct shared *t = arg;
  emb_session *s;
  int64_t keys[16];
  float ones[16 * 4], got[16 * 4];
  for (size_t i = 0; i < 16 * 4; i++)
    ones[i] = 1;
  if (!OK(NULL, emb_session_open(t->store, &s, NULL)))
    return NULL;
  for (int round = 0; round < ROUNDS; round++) {
    size_t n = 1 + test_random_from(&t->seed) % 16;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(test_random_from(&t->seed) % SHARED);
      t->applied[keys[i]]++;
    }
    OK(s, emb_apply_gradients(s, keys, n, ones, NULL, NULL));
    OK(s, emb_get(s, keys, n, got, NULL, NULL));
    for (size_t i = 0; i < n * 4; i++) /* not torn: all elements alike */
      CHECK(got[i] == got[i / 4 * 4] && got[i] <= -1);
    if (round % 64 == 63)
      OK(s, emb_checkpoint(s));
  }
  emb_session_close(s);
  return NULL;
}

/* Every gradient of every thread is in the sum. */
static void nothing_is_lost(const char *optimizer, uint32_t type) {
  emb_config c = {
      .dim = 4, .type = type, .flags = EMB_OPEN_CREATE, .optimizer = optimizer};
  struct shared threads[THREADS];
  pthread_t id[THREADS];
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path(optimizer), &c, &store, &s))
    return;
  for (int i = 0; i < THREADS; i++) {
    memset(&threads[i], 0, sizeof threads[i]);
    threads[i].store = store;
    threads[i].seed = test_random();
    CHECK_EQ_INT(pthread_create(&id[i], NULL, apply_ones, &threads[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ_INT(pthread_join(id[i], NULL), 0);
  for (int64_t key = 0; key < SHARED; key++) {
    float got[4];
    int64_t want = 0;
    for (int i = 0; i < THREADS; i++)
      want += threads[i].applied[key];
    OK(s, emb_peek(s, &key, 1, got, NULL, NULL));
    CHECK_EQ_INT((int64_t)got[0], -want);
  }
  help_close(store, s);
}

TEST(gradients_of_threads_add_up) {
  nothing_is_lost("sgd(lr=1)", EMB_F32);
  nothing_is_lost("momentum(lr=1, momentum=0)", EMB_F16);
}

/* ---- batches that are too large ------------------------------------------ */

TEST(a_batch_of_too_many_rows) {
  emb_config c = {.dim = 4, .flags = EMB_OPEN_CREATE, .optimizer = "sgd"};
  emb_store *store;
  emb_session *s;
  int64_t key = 1;
  float row[4] = {0};
  size_t n = (size_t)EMB_ROWS_MAX + 1;
  if (!help_open(help_path("large"), &c, &store, &s))
    return;
  GIVES(s, EMB_RANGE, emb_put(s, &key, n, row, NULL));
  CHECK_STR(emb_errmsg(s),
            "a batch has at most 4294967294 rows, got 4294967295");
  GIVES(s, EMB_RANGE, emb_rmw(s, &key, n, row, NULL, NULL));
  GIVES(s, EMB_RANGE, emb_apply_gradients(s, &key, n, row, NULL, NULL));
  OK(s, emb_begin(s));
  GIVES(s, EMB_RANGE, emb_txn_put(s, &key, n, row));
  GIVES(s, EMB_RANGE, emb_txn_apply_gradients(s, &key, n, row, NULL, NULL));
  emb_rollback(s);
  help_close(store, s);
}

/* The session does not keep the sums of a large batch. */
TEST_OF_ONE_THREAD(memory_after_a_large_batch) {
  enum { MANY = 1 << 17 };
  emb_config c = {.dim = 16, .flags = EMB_OPEN_CREATE, .optimizer = "sgd"};
  emb_store *store;
  emb_session *s;
  int64_t *keys = calloc(MANY, sizeof *keys);
  float *rows = calloc((size_t)MANY * 16, sizeof *rows);
  if (!CHECK(keys && rows) || !help_open(help_path("large"), &c, &store, &s))
    return;
  for (int i = 0; i < MANY; i++)
    keys[i] = i / 2;
  OK(s, emb_apply_gradients(s, keys, MANY, rows, NULL, NULL));
  CHECK_EQ_INT(s->groups.sums_room, 0);
  OK(s, emb_apply_gradients(s, keys, 1000, rows, NULL, NULL));
  CHECK(s->groups.sums_room > 0);
  OK(s, emb_begin(s));
  OK(s, emb_txn_apply_gradients(s, keys, MANY, rows, NULL, NULL));
  OK(s, emb_commit(s));
  CHECK_EQ_INT(s->groups.sums_room, 0);
  help_close(store, s);
  free(keys);
  free(rows);
}

/* ---- a part of a row, with gradients for the other ----------------------- */

struct parts {
  emb_store *store;
  uint64_t seed;
  int number;
};

static void *put_parts(void *arg) {
  struct parts *t = arg;
  emb_session *s;
  if (!OK(NULL, emb_session_open(t->store, &s, NULL)))
    return NULL;
  for (int round = 0; round < 4 * ROUNDS; round++) {
    int64_t key = (int64_t)(test_random_from(&t->seed) % SHARED);
    float row[4] = {(float)round, 7, 7, 7};
    int done;
    if (t->number % 2) {
      OK(s, emb_put_parts(s, &key, 1, row, 1, NULL));
      continue;
    }
    OK(s, emb_begin(s));
    OK(s, emb_txn_put_if(s, key, row, 1, 1, &done));
    CHECK(done);
    OK(s, emb_commit(s));
    if (round % 64 == 63)
      OK(s, emb_checkpoint(s));
  }
  emb_session_close(s);
  return NULL;
}

static void *apply_parts(void *arg) {
  struct shared *t = arg;
  emb_session *s;
  float ones[4] = {1, 1, 1, 1};
  if (!OK(NULL, emb_session_open(t->store, &s, NULL)))
    return NULL;
  for (int round = 0; round < 8 * ROUNDS; round++) {
    int64_t key = (int64_t)(test_random_from(&t->seed) % SHARED);
    OK(s, emb_apply_gradients(s, &key, 1, ones, NULL, NULL));
    t->applied[key]++;
  }
  emb_session_close(s);
  return NULL;
}

/* Puts of one vector of a row lose no gradient of the other vector. */
TEST(parts_of_a_row) {
  enum { PAIRS = 2 };
  emb_segment segments[] = {{1, EMB_F32, NULL, NULL, NULL, NULL},
                            {3, EMB_F32, "sgd(lr=1)", NULL, NULL, NULL}};
  emb_config c = {.segments = segments,
                  .segment_count = 2,
                  .timeout_ms = 60000,
                  .flags = EMB_OPEN_CREATE};
  struct shared applies[PAIRS];
  struct parts puts[PAIRS];
  pthread_t id[2 * PAIRS];
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("parts"), &c, &store, &s))
    return;
  for (int64_t key = 0; key < SHARED; key++)
    OK(s, emb_put(s, &key, 1, (float[4]){0}, NULL));
  for (int i = 0; i < PAIRS; i++) {
    memset(&applies[i], 0, sizeof applies[i]);
    applies[i].store = store;
    applies[i].seed = test_random();
    puts[i] = (struct parts){store, test_random(), i};
    CHECK_EQ_INT(pthread_create(&id[i], NULL, apply_parts, &applies[i]), 0);
    CHECK_EQ_INT(pthread_create(&id[PAIRS + i], NULL, put_parts, &puts[i]), 0);
  }
  for (int i = 0; i < 2 * PAIRS; i++)
    CHECK_EQ_INT(pthread_join(id[i], NULL), 0);
  for (int64_t key = 0; key < SHARED; key++) {
    float got[4];
    int64_t want = 0;
    for (int i = 0; i < PAIRS; i++)
      want += applies[i].applied[key];
    OK(s, emb_peek(s, &key, 1, got, NULL, NULL));
    for (int i = 1; i < 4; i++)
      CHECK_EQ_INT((int64_t)got[i], -want);
  }
  help_close(store, s);
}
