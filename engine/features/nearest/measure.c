/* SPDX-License-Identifier: MIT
**
** measure.c -- see measure.h.
*/
#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "engine/base/hash.h"
#include "engine/base/seed.h"
#include "engine/emb.h"
#include "engine/table/jobs/tasks.h"
#include "index.h"

/* Neighbours sought: one more, as a row finds itself. */
#define MEASURE_K (RECALL_MOST + 1)
#define QUERIES_OF_PIECE 16
/* Measure again if more than 1/CHANGED_PART of the rows has changed since, or
** if ASKED_TIMES as many queries have been asked. */
#define CHANGED_PART 2
#define ASKED_TIMES 4
/* A measurement is followed by a rest of at least this many times its length,
** and REST_US. */
#define REST_TIMES 20
#define REST_US UINT64_C(1000000)

/* ---- beginning ----------------------------------------------------------- */

static struct ivf *measured_ivf(const struct measuring *m) {
  return &m->set->ivf[m->segment];
}

static void measure_release(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  struct env *env = x->store->core.env;
  walk__end(x, &m->walk);
  if (m->compares) {
    compare__free(&m->e.compare);
  }
  if (m->ask.s) {
    ask__end(&m->ask);
  }
  recall_end(&m->recall);
  recall_end(&m->trial);
  ivf_search_free(&m->find);
  env->release(env, m->queries);
  env->release(env, m->keys);
  env->release(env, m->near);
  env->release(env, m->far);
  env->release(env, m->counts);
  env->release(env, m->candidates);
}

void measure__end(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  if (m->is_on) {
    m->set->changed[m->segment] += m->changed;
    measure_release(x);
  }
  memset(&x->measuring, 0, sizeof x->measuring);
}

static int measure_memory_short(struct nearest_index *x) {
  return err_set(&x->s->err, EMB_NOMEM, "out of memory");
}

static void choose_key(void *arg, int64_t key, uint64_t word) {
  struct measuring *m = arg;
  if (word_address(word) && m->count < m->wanted) {
    m->keys[m->count++] = key;
  }
}

/* Begins with the next vector that has an index.  Partitions are by hash, so
** the keys of any are a random sample; each measurement begins at another. */
static int measure_begin(struct nearest_index *x, struct index_set *set,
                         uint32_t segment) {
  struct measuring *m = &x->measuring;
  struct core *core = &x->store->core;
  struct env *env = core->env;
  uint64_t rows = (uint64_t)atomic_load(&core->count);
  size_t dim = core->schema.segments[segment].dim;
  uint32_t parts = index_parts(&core->index);
  uint32_t first = (uint32_t)(hash_mix(atomic_load(&x->measured) + 1) % parts);
  memset(m, 0, sizeof *m);
  m->is_on = 1;
  m->set = set;
  m->segment = segment;
  m->changed = set->changed[segment];
  set->changed[segment] = 0; /* later changes count against this one */
  m->wanted = rows < MEASURE_ROWS ? rows : MEASURE_ROWS;
  m->keys = env->allocate(env, (m->wanted + 1) * sizeof *m->keys);
  m->queries =
      env->allocate(env, (m->wanted + ASKED_KEPT) * dim * sizeof *m->queries);
  if (!m->keys || !m->queries) {
    return measure_memory_short(x);
  }
  for (uint32_t i = 0; i < parts && m->count < m->wanted; i++) {
    epoch_enter(&core->epoch, x->s->slot);
    index_each(&core->index, (first + i) % parts, choose_key, m);
    epoch_leave(x->s->slot);
  }
  m->phase = MEASURE_READING;
  return EMB_OK;
}

/* ---- the queries --------------------------------------------------------- */

/* Has the vector a distance from others?  A vector of zeros has no cosine. */
static int is_query(const struct measuring *m, const float *vector) {
  const struct ivf *ivf = measured_ivf(m);
  double distance;
  return emb_distance((int)ivf->form.metric, vector, vector, ivf->form.dim,
                      &distance);
}

static int read_piece(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  const struct schema *schema = &x->store->core.schema;
  const struct segment *segment = &schema->segments[m->segment];
  size_t n = m->count - m->read < IVF_ROWS ? m->count - m->read : IVF_ROWS;
  int rc = walk__read_rows(x, m->keys + m->read, n);
  for (size_t i = 0; !rc && i < n; i++) {
    const float *vector = x->rows + i * schema->dim + segment->first;
    if (x->found[i] && is_query(m, vector)) {
      memcpy(m->queries + m->rows * segment->dim, vector,
             segment->dim * sizeof *vector);
      m->keys[m->rows++] = m->keys[m->read + i];
    }
  }
  m->read += n;
  return rc;
}

/* Adds the queries that were asked, if they are not too few.  Some may be for
** another metric. */
static size_t take_asked(struct measuring *m, struct asked *asked,
                         uint32_t dim) {
  float *to = m->queries + m->rows * dim;
  uint32_t n = asked__copy(asked, to, dim);
  size_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (is_query(m, to + (size_t)i * dim)) {
      memmove(to + kept++ * dim, to + (size_t)i * dim, dim * sizeof *to);
    }
  }
  return kept < MEASURE_ASKED || EMB_SEED(SEED_ASKED_QUERIES_IGNORED) ? 0
                                                                      : kept;
}

/* For lists in the order m->order. */
static int prepare_recall(struct nearest_index *x, struct recall_measure *to) {
  struct measuring *m = &x->measuring;
  struct env *env = x->store->core.env;
  const struct ivf *ivf = measured_ivf(m);
  const struct ivf_options *options =
      &x->store->core.schema.segments[m->segment].index;
  struct recall_form form = {.queries = {m->rows, m->n - m->rows},
                             .lists = ivf->lists.count,
                             .order = m->order,
                             .promised = options->recall,
                             .probes =
                                 effort__lists(ivf, (uint32_t)options->probes),
                             .is_exact = ivf->form.dim * ivf->form.bits >= 64};
  for (int k = 0; k < RECALL_KS; k++) {
    form.extra[k] =
        effort__extra(ivf->form.metric, ivf->form.bits, recall_ks[k]);
  }
  return recall_begin(to, env, &form) ? EMB_OK : measure_memory_short(x);
}

/* Makes room for the candidates of a query. */
static int codes_begin(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  struct env *env = x->store->core.env;
  m->candidate_room = recall_rows(&m->recall);
  m->candidates =
      env->allocate(env, (m->candidate_room + 1) * sizeof *m->candidates);
  m->at = 0;
  m->phase = MEASURE_CODES;
  return m->candidates ? EMB_OK : measure_memory_short(x);
}

/* Hardly any row has a distance, as in a table of zeros under cosine: the curve
** has no points, and searches compare all rows. */
static int nothing_to_measure(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  m->rows = m->n = 0;
  int rc = prepare_recall(x, &m->recall);
  return rc ? rc : codes_begin(x);
}

/* Adds queries that were asked, and prepares the pass over all rows. */
static int pass_begin(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  struct core *core = &x->store->core;
  struct env *env = core->env;
  struct asked *asked = &x->asked[m->segment];
  uint32_t dim = core->schema.segments[m->segment].dim;
  const emb_nearest_how how = {.segment = m->segment};
  m->seen = asked__seen(asked);
  m->n = m->rows + take_asked(m, asked, dim);
  if (m->n <= FEW_QUERIES) { /* which compare__row does not take */
    return nothing_to_measure(x);
  }
  m->near = env->allocate(env, (m->n + 1) * MEASURE_K * sizeof *m->near);
  m->far = env->allocate(env, (m->n + 1) * MEASURE_K * sizeof *m->far);
  m->counts = env->allocate(env, (m->n + 1) * sizeof *m->counts);
  if (!m->near || !m->far || !m->counts) {
    return measure_memory_short(x);
  }
  int rc = ask__begin(&m->ask, x->s, m->queries, m->n, MEASURE_K, &how);
  if (!rc && compare__init(&m->e.compare, &m->ask)) {
    rc = measure_memory_short(x);
  }
  m->compares = !rc;
  m->search = (struct search){.ask = &m->ask, .core = core};
  m->e.search = &m->search;
  m->e.slot = x->s->slot;
  m->phase = MEASURE_PASS;
  return rc ? rc : walk__begin(x, &m->walk);
}

/* ---- their neighbours ---------------------------------------------------- */

/* The pass has ended: prepares the search for the neighbours' lists. */
static int lists_begin(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  const emb_neighbours to = {
      .keys = m->near, .distances = m->far, .counts = m->counts};
  walk__end(x, &m->walk);
  compare__blocks(&m->e, 1);
  int rc = best__deliver(&m->e.compare.best, &to, x->s);
  compare__free(&m->e.compare);
  m->compares = 0;
  rc = rc ? rc : prepare_recall(x, &m->recall);
  if (!rc && !ivf_search_init(&m->find, measured_ivf(m))) {
    rc = measure_memory_short(x);
  }
  m->phase = MEASURE_LISTS;
  return rc;
}

static int pass_piece(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  const struct schema *schema = &x->store->core.schema;
  uint32_t first = schema->segments[m->segment].first;
  uint32_t page = x->store->core.layout.slots;
  int64_t keys[IVF_ROWS];
  size_t n = 0;
  int done;
  int rc = walk__next(x, &m->walk, keys, &n, &done);
  for (size_t i = 0; !rc && i < n; i++) {
    compare__row(&m->e.compare, keys[i], x->rows + i * schema->dim + first);
    if ((i + 1) % page == 0 || i + 1 == n) {
      compare__blocks(&m->e, 0);
    }
  }
  return rc ? rc : done ? lists_begin(x) : EMB_OK;
}

/* Copies a query's neighbours, without the row itself, and those that are in a
** list, with its position. */
static size_t neighbours_of(struct measuring *m, uint32_t order, size_t query,
                            int64_t *keys, uint32_t *at) {
  const int64_t *from = m->near + query * MEASURE_K;
  uint32_t found[MEASURE_K];
  size_t n = 0;
  ivf_positions(&m->find, m->ask.queries + query * m->ask.segment->dim, order,
                from, m->counts[query], found);
  for (size_t i = 0; i < m->counts[query] && n < RECALL_MOST; i++) {
    int is_itself = query < m->rows && from[i] == m->keys[query];
    if (!is_itself && found[i] != UINT32_MAX) {
      keys[n] = from[i];
      at[n++] = found[i];
    }
  }
  return n;
}

/* An order is done: keeps the better one, and begins the next. */
static int order_end(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  struct recall_measure *of = m->order ? &m->trial : &m->recall;
  recall_choose_lists(of);
  if (m->order && recall_is_better(&m->trial, &m->recall)) {
    recall_end(&m->recall);
    m->recall = m->trial;
    m->trial = (struct recall_measure){0};
  }
  recall_end(&m->trial);
  m->at = 0;
  m->order++;
  return m->order < IVF_ORDERS ? prepare_recall(x, &m->trial) : codes_begin(x);
}

static int lists_piece(struct nearest_index *x) {
  struct measuring *m = &x->measuring;
  int64_t keys[RECALL_MOST];
  uint32_t at[RECALL_MOST];
  for (int i = 0; i < QUERIES_OF_PIECE && m->at < m->n; i++, m->at++) {
    size_t n = neighbours_of(m, m->order, m->at, keys, at);
    recall_lists(m->order ? &m->trial : &m->recall, m->at, at, n);
  }
  return m->at < m->n ? EMB_OK : order_end(x);
}

/* ---- when ---------------------------------------------------------------- */

/* Is the curve missing, for other options, or out of date? */
static int measure_is_stale(struct nearest_index *x, struct index_set *set,
                            uint32_t segment) {
  const struct ivf *ivf = &set->ivf[segment];
  const struct recall_curve *curve = &set->curves[segment];
  const struct ivf_options *options =
      &x->store->core.schema.segments[segment].index;
  uint64_t rows = atomic_load_explicit(&ivf->rows, memory_order_relaxed);
  uint64_t seen = asked__seen(&x->asked[segment]);
  uint32_t fixed = effort__lists(ivf, (uint32_t)options->probes);
  return !curve->measured || curve->promised != options->recall ||
         (fixed && curve->points[RECALL_PROMISED][0].probes != fixed) ||
         set->changed[segment] > rows / CHANGED_PART ||
         (seen >= MEASURE_ASKED &&
          (!curve->asked || seen / ASKED_TIMES > set->asked_seen[segment]));
}

/* The first vector from this one on whose curve is stale, or the number of
** vectors. */
static uint32_t measure_next(struct nearest_index *x, struct index_set *set,
                             uint32_t segment) {
  uint32_t count = x->store->core.schema.count;
  while (segment < count &&
         !(index_has(x, segment) && measure_is_stale(x, set, segment))) {
    segment++;
  }
  return segment;
}

/* ---- codes --------------------------------------------------------------- */

struct numbered {
  int64_t key;
  uint32_t number;
};

static int compare_numbered(const void *a, const void *b) {
  int64_t x = ((const struct numbered *)a)->key;
  int64_t y = ((const struct numbered *)b)->key;
  return (x > y) - (x < y);
}

static int codes_of(struct nearest_index *x, size_t query) {
  struct measuring *m = &x->measuring;
  struct numbered near[RECALL_MOST];
  int64_t keys[RECALL_MOST];
  uint32_t at[RECALL_MOST];
  uint32_t order = m->recall.form.order;
  size_t n = neighbours_of(m, order, query, keys, at), found = 0;
  for (size_t i = 0; i < n; i++) {
    near[i] = (struct numbered){keys[i], (uint32_t)i};
  }
  qsort(near, n, sizeof *near, compare_numbered);
  const struct ivf_asked asked = {.query = m->ask.queries +
                                           query * m->ask.segment->dim,
                                  .probes = recall_probes(&m->recall),
                                  .order = order,
                                  .most = recall_rows(&m->recall)};
  if (ivf_search(&m->find, &asked)) {
    return measure_memory_short(x);
  }
  for (; found < m->find.n && found < m->candidate_room; found++) {
    const struct ivf_candidate *candidate = &m->find.found[found];
    const struct numbered key = {candidate->key, 0};
    const struct numbered *there =
        bsearch(&key, near, n, sizeof *near, compare_numbered);
    m->candidates[found] =
        (struct recall_candidate){candidate->estimate, candidate->at,
                                  there ? there->number : RECALL_NOWHERE};
  }
  recall_rows_found(&m->recall, query, m->candidates, found);
  return EMB_OK;
}

/* Publishes the curve, and goes on with the next vector. */
static int measure_publish(struct nearest_index *x, int *done) {
  struct measuring *m = &x->measuring;
  struct env *env = x->store->core.env;
  struct index_set *set = m->set;
  struct recall_curve curve;
  uint32_t segment = m->segment;
  m->changed = 0;
  recall_choose(&m->recall, &curve);
  curve.measured = env->wall_s(env);
  curve.measured += !curve.measured;
  pthread_mutex_lock(&x->use_lock);
  set->curves[segment] = curve;
  pthread_mutex_unlock(&x->use_lock);
  set->asked_seen[segment] = m->seen;
  x->measure_us = env->now_us(env);
  uint64_t rest = m->worked_us * REST_TIMES;
  x->measure_us += rest > REST_US ? rest : REST_US;
  count_add(&x->measured, 1);
  x->is_saved = 0;
  measure__end(x);
  uint32_t next = measure_next(x, set, segment + 1);
  *done = next == x->store->core.schema.count;
  return *done ? EMB_OK : measure_begin(x, set, next);
}

static int codes_piece(struct nearest_index *x, int *done) {
  struct measuring *m = &x->measuring;
  int rc = EMB_OK;
  if (!measured_ivf(m)->form.bits) {
    m->at = m->n;
  }
  for (int i = 0; !rc && i < QUERIES_OF_PIECE && m->at < m->n; i++) {
    rc = codes_of(x, m->at++);
  }
  return rc || m->at < m->n ? rc : measure_publish(x, done);
}

/* ---- the calls ----------------------------------------------------------- */

uint64_t measure__rest_us(struct nearest_index *x, struct index_set *set) {
  struct env *env = x->store->core.env;
  uint64_t now = env->now_us(env);
  if (x->measuring.is_on) {
    return 0;
  }
  if (measure_next(x, set, 0) == x->store->core.schema.count) {
    return TASKS_NEVER;
  }
  return x->store->core.step_mode || x->measure_us <= now ? 0
                                                          : x->measure_us - now;
}

static int measure_phase(struct nearest_index *x, int *done) {
  struct measuring *m = &x->measuring;
  switch (m->phase) {
  case MEASURE_READING:
    return m->read < m->count ? read_piece(x) : pass_begin(x);
  case MEASURE_PASS:
    return pass_piece(x);
  case MEASURE_LISTS:
    return lists_piece(x);
  default:
    return codes_piece(x, done);
  }
}

int measure__piece(struct nearest_index *x, struct index_set *set, int *done) {
  struct measuring *m = &x->measuring;
  struct env *env = x->store->core.env;
  uint64_t began = env->now_us(env);
  *done = 0;
  if (m->is_on && m->set != set) {
    measure__end(x);
  }
  if (!m->is_on) {
    uint32_t next = measure_next(x, set, 0);
    *done = next == x->store->core.schema.count;
    return *done ? EMB_OK : measure_begin(x, set, next);
  }
  int rc = measure_phase(x, done);
  m->worked_us += env->now_us(env) - began;
  return rc;
}
