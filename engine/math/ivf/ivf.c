/* SPDX-License-Identifier: MIT
**
** ivf.c -- see ivf.h: creation, training and maintenance; search.c searches.
*/
#include "ivf.h"

#include <math.h>
#include <string.h>

#include "engine/base/seed.h"
#include "engine/emb.h"

/* ---- creation ------------------------------------------------------------ */

static int64_t key_at_place(const void *arg, uint32_t place) {
  return lists_keys(arg, place / IVF_BLOCK)[place % IVF_BLOCK];
}

static void kill_at_place(const void *arg, uint32_t place) {
  ivf__lists_kill(arg, place);
}

static void ivf_release(struct ivf *ivf) {
  ivf__centres_free(&ivf->centres, ivf->env);
  ivf__shells_free(&ivf->shells, ivf->env);
  if (ivf->lists.env) {
    ivf__lists_free(&ivf->lists);
  }
  ivf__places_free(&ivf->places);
  memset(ivf, 0, sizeof *ivf);
}

static uint32_t shells_in(const struct ivf_shape *shape) {
  return shape->shells ? shape->shells : 1;
}

int ivf_init(struct ivf *ivf, struct env *env, const struct ivf_shape *shape) {
  uint32_t shells = shells_in(shape);
  emb_assert((uint64_t)shape->centres * shells <= LISTS_MAX);
  memset(ivf, 0, sizeof *ivf);
  ivf->env = env;
  ivf->ops = ivf__ops_best();
  ivf_form_make(&ivf->form, shape->dim, shape->bits, shape->metric);
  ivf__places_init(&ivf->places, env);
  ivf->places.key_at = key_at_place;
  ivf->places.taken = kill_at_place;
  ivf->places.arg = &ivf->lists;
  if (!ivf__centres_init(&ivf->centres, env, shape->dim, shape->centres) ||
      !ivf__shells_init(&ivf->shells, env, shape->centres, shells) ||
      !ivf__lists_init(&ivf->lists, env, &ivf->form, shape->centres * shells,
                       shape->expected)) {
    ivf_release(ivf);
    return 0;
  }
  emb_check(ivf_valid(ivf));
  return 1;
}

void ivf_free(struct ivf *ivf) {
  if (ivf->env) {
    emb_check(ivf_valid(ivf));
    ivf_release(ivf);
  }
}

/* The centres, their shells, and the heads of their lists. */
static uint64_t centres_bytes(uint32_t centres, uint32_t shells, uint32_t dim) {
  return (uint64_t)centres * ((dim + 2 * shells) * sizeof(float) +
                              shells * sizeof(struct ivf_list));
}

uint64_t ivf_bytes_of(const struct ivf_shape *shape, uint64_t rows) {
  struct ivf_form form;
  ivf_form_make(&form, shape->dim, shape->bits, shape->metric);
  uint64_t entry = ivf_code_bytes(&form) + form.marks + sizeof(int64_t);
  uint64_t lists = (uint64_t)shape->centres * shells_in(shape);
  return centres_bytes(shape->centres, shells_in(shape), shape->dim) +
         (rows + lists * 8) * (entry + 1) + rows * 6 + sizeof(struct ivf);
}

uint64_t ivf_bytes(const struct ivf *ivf) {
  return ivf__lists_bytes(&ivf->lists) + ivf->places.bytes +
         centres_bytes(ivf->centres.count, ivf->shells.count, ivf->form.dim) -
         ivf->lists.count * sizeof(struct ivf_list) + sizeof *ivf;
}

/* ---- training ------------------------------------------------------------ */

int ivf_train(struct ivf_training *t, struct ivf *ivf, float *sample,
              size_t n) {
  memset(t, 0, sizeof *t);
  if (!ivf__nearer_init(&t->nearer, ivf->env, ivf->form.dim) ||
      !ivf__shells_sample_init(&t->residuals, ivf->env, n) ||
      !ivf__training_init(&t->training, ivf->env, &ivf->centres, sample, n)) {
    ivf__nearer_free(&t->nearer, ivf->env);
    ivf__shells_sample_free(&t->residuals, ivf->env);
    return 0;
  }
  return 1;
}

/* The squared residuals of the next rows of the sample. */
static int measure_step(struct ivf_training *t) {
  const struct training *of = &t->training;
  struct shells_sample *to = &t->residuals;
  size_t n = of->n - to->n < NEARER_ROWS ? of->n - to->n : NEARER_ROWS;
  uint32_t dim = of->centres->dim;
  const float *rows = of->sample + to->n * dim;
  ivf__nearest(&t->nearer, of->centres, rows, n, to->centre + to->n);
  for (size_t i = 0; i < n; i++) {
    float square = 2 * t->nearer.best[i];
    for (uint32_t d = 0; d < dim; d++) {
      square += rows[i * dim + d] * rows[i * dim + d];
    }
    to->squares[to->n + i] = square > 0 ? square : 0;
  }
  to->n += n;
  return to->n == of->n;
}

int ivf_train_step(struct ivf_training *t) {
  if (t->has_centres) {
    return measure_step(t);
  }
  t->has_centres = ivf__training_step(&t->training, &t->nearer);
  return 0;
}

static void residual_of(const struct ivf *ivf, const float *vector,
                        uint32_t centre, float *residual) {
  const float *from = centres_row(&ivf->centres, centre);
  for (uint32_t i = 0; i < ivf->form.dim; i++) {
    residual[i] = vector[i] - from[i];
  }
}

/* Fits the marks.  Rows of the sample become their residuals. */
static void fit_marks(struct ivf_training *t, struct ivf *ivf) {
  size_t n = t->residuals.n < NEARER_ROWS ? t->residuals.n : NEARER_ROWS;
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    float *row = t->training.sample + i * ivf->form.dim;
    residual_of(ivf, row, t->residuals.centre[i], row);
    sum += (double)ivf__mark_size(&ivf->form, row);
  }
  ivf__form_base(&ivf->form, (float)(sum / (double)(n ? n : 1)));
  ivf->lists.form = ivf->form;
  emb_check(ivf__lists_valid(&ivf->lists));
}

int ivf_train_end(struct ivf_training *t, struct ivf *ivf) {
  struct env *env = ivf->env;
  fit_marks(t, ivf);
  int good = ivf__shells_fit(&ivf->shells, env, &t->residuals);
  ivf__nearer_free(&t->nearer, env);
  ivf__shells_sample_free(&t->residuals, env);
  ivf__training_free(&t->training);
  return good ? EMB_OK : EMB_NOMEM;
}

/* ---- maintaining --------------------------------------------------------- */

int ivf_prepare(const struct ivf *ivf, float *vector) {
  return ivf__prepare(&ivf->form, vector);
}

int ivf_writer_init(struct ivf_writer *writer, struct ivf *ivf) {
  struct env *env = ivf->env;
  memset(writer, 0, sizeof *writer);
  writer->ivf = ivf;
  writer->words = env->allocate(env, ivf_code_bytes(&ivf->form) + 4);
  writer->residual = env->allocate(env, ivf->form.dim * sizeof(float));
  int good = ivf__nearer_init(&writer->nearer, env, ivf->form.dim) &&
             writer->words && writer->residual;
  if (!good) {
    ivf_writer_free(writer);
  }
  return good;
}

void ivf_writer_free(struct ivf_writer *writer) {
  if (writer->ivf) {
    struct env *env = writer->ivf->env;
    ivf__nearer_free(&writer->nearer, env);
    env->release(env, writer->words);
    env->release(env, writer->residual);
  }
  memset(writer, 0, sizeof *writer);
}

/* Adds an entry for a key that has none. */
static int set_new(struct ivf *ivf, uint32_t list,
                   const struct ivf_entry *entry) {
  uint32_t place = ivf__lists_append(&ivf->lists, list, entry);
  if (place == PLACE_NONE) {
    return EMB_NOMEM;
  }
  if (!ivf__places_add(&ivf->places, entry->key, place)) {
    ivf__lists_kill(&ivf->lists, place);
    return EMB_NOMEM;
  }
  atomic_fetch_add_explicit(&ivf->rows, 1, memory_order_relaxed);
  return EMB_OK;
}

/* Adds the new entry, then changes the place, then kills the old entry: a
** search may find the key twice, but never misses it. */
static int set_moved(struct ivf *ivf, uint32_t list, uint32_t from,
                     const struct ivf_entry *entry) {
  uint32_t place = ivf__lists_append(&ivf->lists, list, entry);
  if (place == PLACE_NONE) {
    return EMB_NOMEM;
  }
  int moved = ivf__places_move(&ivf->places, entry->key, from, place);
  if (!moved || !EMB_SEED(SEED_MOVED_KEY_IN_TWO_LISTS)) {
    ivf__lists_kill(&ivf->lists, moved ? from : place);
  }
  return EMB_OK;
}

/* writer->residual: of the key's vector.  square: its squared length. */
static int set_one(struct ivf_writer *writer, uint32_t centre, int64_t key,
                   float square) {
  struct ivf *ivf = writer->ivf;
  const struct ivf_entry entry = {key, writer->words, writer->marks};
  uint32_t place = ivf__places_find(&ivf->places, key);
  uint32_t shell = shells_of(&ivf->shells, centre, square);
  if (EMB_SEED(SEED_SHELL_MISTAKEN) && shell + 1 == ivf->shells.count) {
    shell = 0;
  }
  uint32_t list = centre * ivf->shells.count + shell;
  ivf__encode(&ivf->form, writer->residual, writer->words, writer->marks);
  if (place == PLACE_NONE) {
    return set_new(ivf, list, &entry);
  }
  if (lists_head(&ivf->lists, place / IVF_BLOCK)->list == list) {
    ivf__lists_replace(&ivf->lists, place, &entry);
    writer->same++;
    return EMB_OK;
  }
  writer->moved++;
  return set_moved(ivf, list, place, &entry);
}

int ivf_set(struct ivf_writer *writer, const int64_t *keys,
            const float *vectors, size_t n) {
  struct ivf *ivf = writer->ivf;
  uint32_t centre[NEARER_ROWS], dim = ivf->form.dim;
  int rc = EMB_OK;
  ivf__nearest(&writer->nearer, &ivf->centres, vectors, n, centre);
  for (size_t i = 0; !rc && i < n; i++) {
    const float *vector = vectors + i * dim;
    float square = ivf__residual_square(
        vector, centres_row(&ivf->centres, centre[i]), dim);
    residual_of(ivf, vector, centre[i], writer->residual);
    rc = set_one(writer, centre[i], keys[i], square);
    ivf->error_sum += (double)square;
    ivf->error_rows++;
  }
  return rc;
}

int ivf_remove(struct ivf *ivf, int64_t key) {
  if (ivf__places_take(&ivf->places, key) == PLACE_NONE) {
    return 0;
  }
  atomic_fetch_sub_explicit(&ivf->rows, 1, memory_order_relaxed);
  return 1;
}

size_t ivf_keys(struct ivf *ivf, uint32_t list, uint32_t *block, int64_t *keys,
                size_t most) {
  uint32_t at = *block ? *block - 1 : ivf->lists.all[list].first;
  size_t n = 0;
  emb_assert(most >= IVF_BLOCK); /* else it never ends */
  emb_assert(at == BLOCK_NONE || lists_head(&ivf->lists, at)->list == list);
  while (at != BLOCK_NONE && most - n >= IVF_BLOCK) {
    const int64_t *from = lists_keys(&ivf->lists, at);
    for (uint32_t live = lists_live(&ivf->lists, at); live; live &= live - 1) {
      keys[n++] = from[__builtin_ctz(live)];
    }
    at = lists_head(&ivf->lists, at)->next;
  }
  *block = at + 1; /* BLOCK_NONE: 0 */
  return n;
}

static int place_moved(void *arg, int64_t key, uint32_t from, uint32_t to) {
  struct ivf *ivf = arg;
  return ivf__places_move(&ivf->places, key, from, to);
}

void ivf_close(struct ivf *ivf, uint32_t list) {
  ivf__lists_close(&ivf->lists, list, place_moved, ivf);
  emb_check_some(64, ivf__lists_valid(&ivf->lists));
}
