/* SPDX-License-Identifier: MIT
**
** optim.c -- one step of one row; see optim.h.
**
** STATE     First the scalars of a row, then arrays of dim elements:
**             adam, amsgrad      1 - beta1^t, 1 - beta2^t;  m, v (and x)
**             rowwise_adagrad    a
**             momentum v | adagrad a | rmsprop v (and b) | adadelta v, u
**             ftrl, group_ftrl   z, n
**           Adam's two scalars follow c = beta c + (1 - beta), which keeps
**           their leading digits, unlike the powers themselves.
** FAILURE   A step is done in place; the old values are kept on the stack, and
**           are restored if some value turns out not to be finite.  A row
**           longer than CHUNK is first rehearsed, and each part undone.
*/
#include "optim.h"
#include "optim_form.h"

#include "engine/base/hash.h"
#include "engine/base/seed.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1024 };

uint32_t optim_state_floats(const struct optim *optim, uint32_t dim) {
  return optim->heads + optim->arrays * dim;
}

/* ---- a new row ----------------------------------------------------------- */

static void optim_fill(float *to, uint32_t n, float x) {
  for (uint32_t i = 0; i < n; i++) {
    memcpy(to + i, &x, sizeof x);
  }
}

/* Sets the z from which the formulas of ftrl and group_ftrl yield w. */
static void set_z(const struct optim *optim, uint32_t dim, const float *vector,
                  float *z) {
  double n = (float)optim->initial_accumulator, sum = 0, lasso = 0;
  double slope = (optim->beta + sqrt(n)) / optim->lr + optim->l2;
  emb_assert(slope > 0); /* beta and n are not both 0 */
  for (uint32_t i = 0; i < dim; i++) {
    float w;
    memcpy(&w, vector + i, sizeof w);
    sum += (double)w * (double)w;
  }
  if (optim->kind == OPTIM_GROUP_FTRL && sum > 0) {
    slope += optim->l1 * sqrt(dim) / sqrt(sum);
  } else if (optim->kind == OPTIM_FTRL) {
    lasso = optim->l1;
  }
  for (uint32_t i = 0; i < dim; i++) {
    float w, x;
    memcpy(&w, vector + i, sizeof w);
    x = w == 0 ? 0 : (float)-(w * slope + copysign(lasso, w));
    memcpy(z + i, &x, sizeof x);
  }
}

void optim_init(const struct optim *optim, uint32_t dim, const float *vector,
                float *state) {
  float accumulator = (float)optim->initial_accumulator;
  optim_fill(state, optim_state_floats(optim, dim), 0);
  if (optim->kind == OPTIM_ADAGRAD) {
    optim_fill(state, dim, accumulator);
  } else if (optim->kind == OPTIM_ROWWISE_ADAGRAD) {
    optim_fill(state, 1, accumulator);
  } else if (optim->kind >= OPTIM_FTRL) {
    optim_fill(state + dim, dim, accumulator);
    if (vector) {
      set_z(optim, dim, vector, state);
    }
  }
}

/* ---- scalars of a row ---------------------------------------------------- */

/* beta^step, by squaring, without the host's libm. */
static double beta_power(double beta, uint64_t step) {
  double result = 1;
  for (; step; step /= 2) {
    if (step & 1) {
      result *= beta;
    }
    beta *= beta;
  }
  return result;
}

static float bias_correction(float before, double beta, uint64_t step) {
  return (float)(step ? 1 - beta_power(beta, step)
                      : (double)before * beta + (1 - beta));
}

/* ---- float16 ------------------------------------------------------------- */

/* Rounds up or down with 32 random bits: the discarded fraction of the last
** place is the probability of rounding up. */
static uint16_t half_by_chance(float value, uint32_t chance) {
  uint32_t x;
  memcpy(&x, &value, 4);
  uint32_t sign = x >> 16 & 0x8000, half;
  x &= 0x7fffffffu;
  if (x >= 0x477ff000u) { /* infinite by to_f16, or not finite */
    half = 0x7c00;
  } else if (x >= 0x38800000u) {
    half = (x - 0x38000000u + (chance >> 19)) >> 13;
    half = half < 0x7bff ? half : 0x7bff;
  } else { /* in units of 2^-24: mantissa * 2^-shift */
    uint32_t shift = 126 - (x >> 23);
    uint64_t mantissa = (x & 0x7fffff) | 0x800000;
    half =
        shift > 56 ? 0 : (uint32_t)(((mantissa << 32 >> shift) + chance) >> 32);
  }
  return (uint16_t)(sign | half);
}

static void round_by_chance(uint16_t *to, const float *from, size_t n,
                            size_t first, const struct optim_step *step) {
  uint64_t seed = hash_key(step->key) ^ hash_mix(step->version);
  for (size_t i = 0; i < n; i++) {
    uint64_t random = hash_mix(seed + (first + i) * HASH_POSITION_STEP);
    to[i] = half_by_chance(from[i], (uint32_t)(random >> 32));
  }
}

/* 1: a value is out of range for float16. */
static int to_half(const struct optim *optim, uint16_t *to, const float *from,
                   size_t n, size_t first, const struct optim_step *step) {
  int bad = 0;
  if (optim->stochastic_rounding > 0) {
    round_by_chance(to, from, n, first, step);
  } else {
    optim->vec->to_f16(to, from, n);
  }
  for (size_t i = 0; i < n; i++) {
    bad |= (to[i] & 0x7c00) == 0x7c00;
  }
  return bad;
}

/* ---- a step -------------------------------------------------------------- */

/* One step of one row. */
struct optim_job {
  const struct optim *optim;
  const struct optim_step *step;
  const struct optim_factors *factors;
  size_t n;
  float *vector;  /* float32, or NULL */
  uint16_t *half; /* float16, or NULL */
  float *state;   /* after the heads */
  const float *g, *read;
};

/* Up to CHUNK elements, on the stack. */
struct room {
  float w[CHUNK], state[OPTIM_ARRAYS][CHUNK], old_w[CHUNK];
  uint16_t half[CHUNK];
};

static size_t optim_smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Sets the part to at most CHUNK elements from `first` on.  A float16 vector is
** converted into `room`.  (Field by field: an initializer would clear the whole
** structure first, which takes as long as a step.) */
static void set_part(struct optim_part *part, const struct optim_job *job,
                     size_t first, struct room *room) {
  part->factors = job->factors;
  part->n = optim_smaller(CHUNK, job->n - first);
  part->g = job->g + first;
  part->read = job->read ? job->read + first : NULL;
  part->old_w = room->old_w;
  for (uint32_t j = 0; j < job->optim->arrays; j++) {
    part->state[j] = job->state + j * job->n + first;
    part->old_state[j] = room->state[j];
  }
  if (job->half) {
    part->w = room->w;
    job->optim->vec->from_f16(room->w, job->half + first, part->n);
  } else {
    part->w = job->vector + first;
  }
}

static double sum_over(const struct optim_job *job, enum optim_sum what) {
  struct room room;
  double sum = 0;
  for (size_t first = 0; first < job->n; first += CHUNK) {
    struct optim_part part;
    set_part(&part, job, first, &room);
    sum += job->optim->form->sum(what, &part);
  }
  return sum;
}

/* Do any factors of a step depend on the row? */
static int asks_row(const struct optim *optim) {
  return optim->heads > 0 || optim->clip_norm > 0 ||
         (optim->kind == OPTIM_GROUP_FTRL && optim->l1 > 0);
}

/* Computes the factors that depend on the row, and updates the head. */
static void optim_prepare(const struct optim_job *job, struct optim_factors *k,
                          float head[OPTIM_HEADS]) {
  const struct optim *optim = job->optim;
  double dim = (double)job->n;
  if (optim->clip_norm > 0) {
    double norm = sqrt(sum_over(job, OPTIM_SUM_RAW));
    k->scale = norm > optim->clip_norm ? (float)(optim->clip_norm / norm) : 1;
  }
  if (optim->kind == OPTIM_ADAM || optim->kind == OPTIM_AMSGRAD) {
    head[0] = bias_correction(head[0], optim->beta1, job->step->step);
    head[1] = bias_correction(head[1], optim->beta2, job->step->step);
    k->lr = k->lr / head[0];
    k->root = (float)(1 / sqrt((double)head[1]));
  } else if (optim->kind == OPTIM_ROWWISE_ADAGRAD) {
    head[0] = (float)((double)head[0] + sum_over(job, OPTIM_SUM_FINAL) / dim);
    k->lr = k->lr / (sqrtf(head[0]) + k->eps);
  } else if (optim->kind == OPTIM_GROUP_FTRL && optim->l1 > 0) {
    double norm = sqrt(sum_over(job, OPTIM_SUM_GROUP));
    double lasso = optim->l1 * sqrt(dim);
    k->shrink = norm > lasso ? (float)(1 - lasso / norm) : 0;
  }
}

/* Restores the old values of the elements. */
static void optim_put_back(const struct optim_job *job,
                           const struct optim_part *part,
                           const struct room *room) {
  size_t bytes = part->n * sizeof(float);
  if (job->half == NULL) {
    memcpy(part->w, room->old_w, bytes);
  }
  for (uint32_t j = 0; j < job->optim->arrays; j++) {
    memcpy(part->state[j], room->state[j], bytes);
  }
}

static int optim_variant(const struct optim *optim) {
  return optim->kind == OPTIM_RMSPROP ? optim->momentum > 0
                                      : optim->nesterov > 0;
}

/* Steps the elements from `first` on.  1: some value is not finite.  The step
** is undone then, and always in a rehearsal. */
static int optim_work(const struct optim_job *job, size_t first,
                      int rehearsal) {
  const struct optim *optim = job->optim;
  struct room room;
  struct optim_part part;
  int bad;
  set_part(&part, job, first, &room);
  bad = optim->form->apply(optim->kind, optim_variant(optim), &part);
  if (job->half && !bad) {
    bad = to_half(optim, room.half, room.w, part.n, first, job->step);
  }
  if ((bad && !EMB_SEED(SEED_BAD_STEP_KEPT)) || rehearsal) {
    optim_put_back(job, &part, &room);
  } else if (job->half) {
    memcpy(job->half + first, room.half, part.n * sizeof room.half[0]);
  }
  return bad;
}

/* Steps the row with the job's factors. */
static int work_all(const struct optim_job *job) {
  int bad = 0;
  for (size_t i = 0; i < job->n && job->n > CHUNK && !bad; i += CHUNK) {
    bad = optim_work(job, i, 1);
  }
  for (size_t i = 0; i < job->n && !bad; i += CHUNK) {
    bad = optim_work(job, i, 0);
  }
  return bad;
}

/* Steps a row that has its own factors, and heads before its state. */
static int work_row(struct optim_job *job) {
  const struct optim *optim = job->optim;
  struct optim_factors factors = *job->factors;
  float head[OPTIM_HEADS] = {0}, *state = job->state;
  memcpy(head, state, optim->heads * sizeof(float));
  job->state = state + optim->heads;
  job->factors = &factors;
  optim_prepare(job, &factors, head);
  if (!isfinite(head[0]) || !isfinite(head[1]) || work_all(job)) {
    return 1;
  }
  memcpy(state, head, optim->heads * sizeof(float));
  return 0;
}

/* For assertions: do the vector and the state share no byte? */
static inline int state_is_apart(const struct optim_job *job) {
  size_t bytes = job->n * (job->half ? sizeof *job->half : sizeof(float));
  uintptr_t state = (uintptr_t)job->state;
  uintptr_t vector = (uintptr_t)(job->half ? (void *)job->half : job->vector);
  size_t floats = optim_state_floats(job->optim, (uint32_t)job->n);
  return !floats || vector + bytes <= state ||
         state + floats * sizeof(float) <= vector;
}

/* Runs a job, complete except for its factors. */
static int optim_run(struct optim_job *job) {
  const struct optim *optim = job->optim;
  struct optim_factors factors;
  int bad;
  emb_check_some(64, optim_valid(optim));
  emb_assert(!job->vector != !job->half);
  emb_assert(state_is_apart(job));
  job->factors = &optim->factors;
  if (job->step->lr >= 0) {
    factors = optim->factors;
    factors.lr = job->step->lr;
    factors.inverse = 1 / factors.lr;
    job->factors = &factors;
  }
  bad = asks_row(optim) ? work_row(job) : work_all(job);
  return bad ? EMB_NONFINITE : EMB_OK;
}

static void set_job(struct optim_job *job, const struct optim *optim,
                    uint32_t dim, float *state, const float *gradient,
                    const struct optim_step *step) {
  job->optim = optim;
  job->step = step;
  job->n = dim;
  job->vector = NULL;
  job->half = NULL;
  job->state = state;
  job->g = gradient;
  job->read = optim->dc > 0 ? step->read : NULL;
}

/* Flattened: as five functions, the calls took as long as the arithmetic of 64
** elements. */
__attribute__((flatten)) int optim_apply(const struct optim *optim,
                                         uint32_t dim, float *vector,
                                         float *state, const float *gradient,
                                         const struct optim_step *step) {
  struct optim_job job;
  set_job(&job, optim, dim, state, gradient, step);
  job.vector = vector;
  return optim_run(&job);
}

int optim_apply_f16(const struct optim *optim, uint32_t dim, uint16_t *vector,
                    float *state, const float *gradient,
                    const struct optim_step *step) {
  struct optim_job job;
  set_job(&job, optim, dim, state, gradient, step);
  job.half = vector;
  return optim_run(&job);
}
