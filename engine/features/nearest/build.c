/* SPDX-License-Identifier: MIT
**
** build.c -- builds an index of nearest neighbours and puts rows into their
** lists; see index.h.
**
** 1  sampling   keys from some partitions of the store's key index, which is
**               partitioned by hash, and their rows
** 2  training   the centres of each index (ivf/centres.h)
** 3  filling    a scan of the table in storage order.  Rows changed after the
**               scan has passed them become recent or dirty, as with a
**               complete index
**
** Work is done in pieces of a few hundred rows, so that other background work
** and sessions can proceed in between.
**
** README.md has the measurements behind these choices (1 million clustered rows
** of 64 elements, one thread).
*/
#include "index.h"

#include <math.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/table/rows/get.h"

/* Sample rows per list.  Going beyond twice this number changes recall by less
** than a thousandth. */
#define SAMPLE_OF_LIST 48
#define SHELL_ROWS 64

/* ---- sets ---------------------------------------------------------------- */

/* The square root of the number of rows balances the time spent on centres and
** on entries.  At most rows / 32, so that most blocks are full. */
static uint32_t default_lists(uint64_t rows) {
  double lists = sqrt((double)rows);
  lists = lists < (double)rows / 32 ? lists : (double)rows / 32;
  return lists < 1 ? 1 : lists > LISTS_MAX ? LISTS_MAX : (uint32_t)lists;
}

/* As many shells as leave SHELL_ROWS rows to each, which fill their blocks. */
static uint32_t default_shells(uint64_t rows, uint32_t centres) {
  uint32_t shells = SHELLS_MAX;
  while (shells > 1 && ((uint64_t)shells * centres > LISTS_MAX ||
                        rows / shells / centres < SHELL_ROWS)) {
    shells /= 2;
  }
  return shells;
}

/* saved: of each vector with an index, as the file has it, or NULL. */
static struct ivf_shape shape_of(const struct nearest_index *x,
                                 uint32_t segment, uint64_t rows,
                                 const struct saved_part *const *saved) {
  const struct segment *of = &x->store->core.schema.segments[segment];
  uint32_t centres = (uint32_t)of->index.lists, shells;
  if (saved) {
    centres = saved[segment]->centres;
    shells = saved[segment]->shells;
  } else {
    centres = centres ? centres : default_lists(rows);
    centres = centres < rows ? centres : (uint32_t)rows;
    centres = centres ? centres : 1;
    shells = default_shells(rows, centres);
  }
  return (struct ivf_shape){.dim = of->dim,
                            .bits = (uint32_t)of->index.code,
                            .metric = of->metric,
                            .centres = centres,
                            .shells = shells,
                            .expected = rows};
}

int build__fits(struct nearest_index *x, uint64_t rows) {
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    if (!index_has(x, k)) {
      continue;
    }
    struct ivf_shape shape = shape_of(x, k, rows, NULL);
    uint64_t need = ivf_bytes_of(&shape, rows);
    double most = x->store->core.schema.segments[k].index.memory * 1048576;
    if (most > 0 && (double)need > most) {
      err_set(&x->why, EMB_NOMEM,
              "an index of %llu rows takes %llu MiB; memory=%.0f is too small",
              (unsigned long long)rows,
              (unsigned long long)(need / 1048576 + 1), most / 1048576);
      return 0;
    }
  }
  return 1;
}

void build__free_set(struct nearest_index *x, struct index_set *set) {
  /* No observer and no search can reach it. */
  emb_assert(!set || (set != index_set_at(x, SET_USED) &&
                      set != index_set_at(x, SET_MADE)));
  emb_assert(!set || set->users == 0);
  for (uint32_t k = 0; set && k < EMB_SEGMENTS_MAX; k++) {
    ivf_writer_free(&set->writers[k]);
    ivf_free(&set->ivf[k]);
  }
  x->store->core.env->release(x->store->core.env, set);
}

struct index_set *build__new_set(struct nearest_index *x, uint64_t rows,
                                 const struct saved_part *const *saved) {
  struct env *env = x->store->core.env;
  struct index_set *set = env->allocate(env, sizeof *set);
  int good = set != NULL;
  for (uint32_t k = 0; good && k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      struct ivf_shape shape = shape_of(x, k, rows, saved);
      good = ivf_init(&set->ivf[k], env, &shape);
      good = good && ivf_writer_init(&set->writers[k], &set->ivf[k]);
    }
  }
  if (!good) {
    build__free_set(x, set);
    return NULL;
  }
  set->trained_rows = rows;
  emb_check(index_set_valid(x, set));
  return set;
}

/* ---- rows into lists ----------------------------------------------------- */

static int set_has(struct nearest_index *x, struct index_set *set,
                   int64_t key) {
  uint32_t k = 0;
  while (!index_has(x, k)) {
    k++;
  }
  return ivf_has(&set->ivf[k], key);
}

int build__has(const struct nearest_index *x, struct index_set *set,
               int64_t key) {
  int has = 1;
  for (uint32_t k = 0; has && k < x->store->core.schema.count; k++) {
    has = !index_has(x, k) || ivf_has(&set->ivf[k], key);
  }
  return has;
}

/* Copies one vector of each row, back to back.  Vectors of length 0 are
** included under cosine too: as candidates they yield nothing, but they may
** change. */
static void take_vector(struct nearest_index *x, const struct ivf *ivf,
                        uint32_t segment, const float *rows, size_t n,
                        float *to) {
  const struct schema *schema = &x->store->core.schema;
  const struct segment *of = &schema->segments[segment];
  for (size_t i = 0; i < n; i++) {
    memcpy(to + i * of->dim, rows + i * schema->dim + of->first,
           of->dim * sizeof(float));
    (void)ivf_prepare(ivf, to + i * of->dim);
  }
}

/* Puts rows of the table into all indexes of a set. */
static int set_rows(struct nearest_index *x, struct index_set *set,
                    const int64_t *keys, const float *rows, size_t n) {
  int rc = EMB_OK;
  for (uint32_t k = 0; !rc && k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      take_vector(x, &set->ivf[k], k, rows, n, x->part);
      rc = ivf_set(&set->writers[k], keys, x->part, n);
      set->changed[k] += n;
    }
  }
  return rc ? err_set(&x->s->err, rc, "out of memory") : EMB_OK;
}

/* Puts n rows, which were read after `before`, into both sets.  A key removed
** since then becomes recent again. */
static int set_and_check(struct nearest_index *x, const int64_t *keys,
                         const float *rows, size_t n, const uint32_t *before) {
  int rc = EMB_OK;
  for (int i = 0; !rc && i < 2; i++) {
    struct index_set *set = index_set_at(x, i);
    rc = set && n ? set_rows(x, set, keys, rows, n) : EMB_OK;
  }
  for (size_t i = 0; i < n; i++) {
    if (atomic_load(&x->removals[hash_key(keys[i]) % REMOVALS]) != before[i]) {
      nearest_observe__add(x, keys[i]);
    }
  }
  return rc;
}

static void note_removals(struct nearest_index *x, const int64_t *keys,
                          size_t n, uint32_t *before) {
  for (size_t i = 0; i < n; i++) {
    before[i] = atomic_load(&x->removals[hash_key(keys[i]) % REMOVALS]);
  }
}

int build__apply(struct nearest_index *x, const int64_t *keys, size_t n) {
  uint32_t before[IVF_ROWS], dim = x->store->core.schema.dim;
  int64_t there[IVF_ROWS];
  size_t m = 0;
  emb_assert(n <= IVF_ROWS);
  if (!index_set_at(x, SET_USED) && !index_set_at(x, SET_MADE)) {
    return EMB_OK; /* the coming scan finds them */
  }
  save__note(x, keys, n);
  note_removals(x, keys, n, before);
  int rc = walk__read_rows(x, keys, n);
  for (size_t i = 0; !rc && i < n; i++) {
    if (x->found[i]) {
      memmove(x->rows + m * dim, x->rows + i * dim, dim * sizeof(float));
      before[m] = before[i];
      there[m++] = keys[i];
    } else {
      for (int j = 0; j < 2; j++) {
        struct index_set *set = index_set_at(x, j);
        for (uint32_t k = 0; set && k < x->store->core.schema.count; k++) {
          if (index_has(x, k)) {
            (void)ivf_remove(&set->ivf[k], keys[i]);
          }
        }
      }
    }
  }
  return rc ? rc : set_and_check(x, there, x->rows, m, before);
}

/* ---- sampling ------------------------------------------------------------ */

static void sample_key(void *arg, int64_t key, uint64_t word) {
  struct building *m = arg;
  if (word_address(word) && m->count < m->wanted) {
    m->keys[m->count++] = key;
  }
}

static void choose_sample(struct nearest_index *x) {
  struct core *core = &x->store->core;
  for (uint32_t p = 0;
       p < index_parts(&core->index) && x->making.count < x->making.wanted;
       p++) {
    epoch_enter(&core->epoch, x->s->slot);
    index_each(&core->index, p, sample_key, &x->making);
    epoch_leave(x->s->slot);
  }
}

int build__begin(struct nearest_index *x) {
  struct building *m = &x->making;
  struct core *core = &x->store->core;
  struct env *env = core->env;
  uint64_t rows = (uint64_t)atomic_load(&core->count);
  emb_assert(!m->set);
  memset(m, 0, sizeof *m);
  m->set = build__new_set(x, rows, NULL);
  int good = m->set && nearest_observe__dirty(x, rows * 2);
  for (uint32_t k = 0; good && k < core->schema.count; k++) {
    if (index_has(x, k)) {
      size_t want = (size_t)m->set->ivf[k].centres.count * SAMPLE_OF_LIST;
      want = want < rows ? want : rows;
      m->wanted = want > m->wanted ? want : m->wanted;
    }
  }
  m->keys = good ? env->allocate(env, (m->wanted + 1) * sizeof *m->keys) : NULL;
  good = good && m->keys;
  for (uint32_t k = 0; good && k < core->schema.count; k++) {
    if (index_has(x, k)) {
      m->sample[k] = env->allocate(
          env, (m->wanted + 1) * core->schema.segments[k].dim * sizeof(float));
      good = m->sample[k] != NULL;
    }
  }
  if (!good) {
    build__end(x);
    return err_set(&x->s->err, EMB_NOMEM, "out of memory");
  }
  choose_sample(x);
  atomic_store(&x->state, INDEX_SAMPLING);
  return EMB_OK;
}

/* Reads some sample rows; rows removed since are left out. */
static int sample_piece(struct nearest_index *x) {
  struct building *m = &x->making;
  const struct schema *schema = &x->store->core.schema;
  size_t n = m->count - m->at < IVF_ROWS ? m->count - m->at : IVF_ROWS;
  int rc = walk__read_rows(x, m->keys + m->at, n);
  for (size_t i = 0; !rc && i < n; i++) {
    if (!x->found[i]) {
      continue;
    }
    for (uint32_t k = 0; k < schema->count; k++) {
      if (index_has(x, k)) {
        take_vector(x, &m->set->ivf[k], k, x->rows + i * schema->dim, 1,
                    m->sample[k] + m->sampled * schema->segments[k].dim);
      }
    }
    m->sampled++;
  }
  m->at += n;
  return rc;
}

/* ---- training, filling --------------------------------------------------- */

/* Advances to the next index to train.  0: all are trained. */
static int next_segment(struct nearest_index *x) {
  struct building *m = &x->making;
  while (m->segment < x->store->core.schema.count &&
         !index_has(x, m->segment)) {
    m->segment++;
  }
  return m->segment < x->store->core.schema.count;
}

static int train_piece(struct nearest_index *x) {
  struct building *m = &x->making;
  struct env *env = x->store->core.env;
  uint32_t k = m->segment;
  if (!m->is_training[k]) {
    if (m->sampled < m->set->ivf[k].centres.count) {
      return err_set(&x->s->err, EMB_RANGE, "too few rows are left");
    }
    if (!ivf_train(&m->training[k], &m->set->ivf[k], m->sample[k],
                   m->sampled)) {
      return err_set(&x->s->err, EMB_NOMEM, "out of memory");
    }
    m->is_training[k] = 1;
  }
  if (ivf_train_step(&m->training[k])) {
    m->is_training[k] = 0;
    if (ivf_train_end(&m->training[k], &m->set->ivf[k])) {
      return err_set(&x->s->err, EMB_NOMEM, "out of memory");
    }
    env->release(env, m->sample[k]);
    m->sample[k] = NULL;
    m->segment++;
  }
  return EMB_OK;
}

/* Publishes the set to observers before the scan begins, so that deleting a row
** the scan has already seen also removes it from the set. */
static int fill_begin(struct nearest_index *x) {
  struct building *m = &x->making;
  atomic_store(&x->sets[SET_MADE], m->set);
  epoch_wait(&x->store->core.epoch);
  atomic_store(&x->state, INDEX_FILLING);
  return walk__begin(x, &m->walk);
}

/* Reads some rows that are not in the lists yet.  *done: there are no more. */
static int next_rows(struct nearest_index *x, int64_t *keys, size_t *n,
                     int *done) {
  struct building *m = &x->making;
  uint32_t dim = x->store->core.schema.dim;
  size_t kept = 0;
  int rc = walk__next(x, &m->walk, keys, n, done);
  for (size_t i = 0; !rc && i < *n; i++) {
    /* A row that was recent is newer in its list than here. */
    if (!set_has(x, m->set, keys[i])) {
      memmove(x->rows + kept * dim, x->rows + i * dim, dim * sizeof(float));
      keys[kept++] = keys[i];
    }
  }
  *n = kept;
  return rc;
}

/* A row may be read and then removed.  Which rows a piece reads is known only
** afterwards, so the removal counts of all keys are saved before it. */
static int fill_piece(struct nearest_index *x, int *done) {
  struct building *m = &x->making;
  int64_t keys[IVF_ROWS];
  size_t n = 0;
  for (uint32_t i = 0; i < REMOVALS; i++) {
    m->removals[i] = atomic_load(&x->removals[i]);
  }
  int rc = next_rows(x, keys, &n, done);
  if (rc || !n) {
    return rc;
  }
  rc = set_rows(x, m->set, keys, x->rows, n);
  for (size_t i = 0; i < n; i++) {
    uint64_t at = hash_key(keys[i]) % REMOVALS;
    if (atomic_load(&x->removals[at]) != m->removals[at]) {
      nearest_observe__add(x, keys[i]);
    }
  }
  return rc;
}

int build__piece(struct nearest_index *x, int *done) {
  struct building *m = &x->making;
  *done = 0;
  switch (atomic_load(&x->state)) {
  case INDEX_SAMPLING:
    if (m->at < m->count) {
      return sample_piece(x);
    }
    atomic_store(&x->state, INDEX_TRAINING);
    return EMB_OK;
  case INDEX_TRAINING:
    return next_segment(x) ? train_piece(x) : fill_begin(x);
  default:
    return fill_piece(x, done);
  }
}

void build__end(struct nearest_index *x) {
  struct building *m = &x->making;
  struct env *env = x->store->core.env;
  walk__end(x, &m->walk);
  for (uint32_t k = 0; k < EMB_SEGMENTS_MAX; k++) {
    if (m->is_training[k]) {
      (void)ivf_train_end(&m->training[k], &m->set->ivf[k]);
    }
    env->release(env, m->sample[k]);
  }
  env->release(env, m->keys);
  if (m->set && index_set_at(x, SET_MADE) == m->set) {
    atomic_store(&x->sets[SET_MADE], NULL);
    epoch_wait(&x->store->core.epoch);
  }
  build__free_set(x, m->set);
  memset(m, 0, sizeof *m);
}
