/* SPDX-License-Identifier: MIT
**
** model.c -- ComplEx; see model.h.
**
** A batch is divided into groups of triples.  The candidates of a group are
** the entities of its own triples and some other entities of the batch, drawn
** at random.  Each triple asks for its tail and for its head among all
** candidates (softmax with cross entropy), so a triple has hundreds of
** negatives at the cost of three matrix products per group:
**
**     scores = queries * candidates'          2*group x candidates
**     grad(queries) = p * candidates          p: softmax minus one-hot
**     grad(candidates) = p' * queries
**
** Groups are independent and distributed over the team; each has its own
** gradients.  These are then summed per entity (each member has a share of
** the columns), and one Adagrad step is made per row (each member has a share
** of the rows).  No sum depends on the number of threads.
*/
#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/random.h"

enum { NOWHERE = UINT32_MAX };

/* Scratch memory of one thread. */
struct scratch {
  uint32_t *candidate; /* [rows of a batch] place among the candidates */
  float *vectors;      /* candidates x dim */
  float *queries;      /* 2*group x dim */
  float *query_grads;  /* 2*group x dim */
  float *scores;       /* 2*group x candidates */
};

/* A group and its results. */
struct group {
  const struct triple *triples;
  size_t triple_count;
  uint32_t *rows; /* of the candidates, [candidate_count] */
  size_t candidate_count;
  float *grads;          /* candidates x dim */
  float *relation_grads; /* relations x dim */
  double loss;
};

struct model {
  struct model_options options;
  struct team *team;
  size_t candidates_max;
  size_t groups_max;
  struct scratch *scratch; /* [members] */
  struct group *groups;    /* [groups_max] */
  size_t group_count;
  float *grads;          /* rows of a batch x dim */
  float *relation_grads; /* relations x dim */
  struct batch *batch;
  uint64_t seed;
};

/* ---- queries ------------------------------------------------------------- */

void model_query(enum model_side side, const float *entity,
                 const float *relation, size_t dim, float *query) {
  size_t half = dim / 2;
  float sign = side == PREDICT_TAIL ? 1.0f : -1.0f;
  for (size_t i = 0; i < half; i++) {
    float re = entity[i], im = entity[half + i];
    float r_re = relation[i], r_im = sign * relation[half + i];
    query[i] = re * r_re - im * r_im;
    query[half + i] = re * r_im + im * r_re;
  }
}

/* The chain rule of model_query: adds to the gradients of its two inputs. */
static void query_backward(enum model_side side, const float *entity,
                           const float *relation, const float *grad, size_t dim,
                           float *entity_grad, float *relation_grad) {
  size_t half = dim / 2;
  float sign = side == PREDICT_TAIL ? 1.0f : -1.0f;
  for (size_t i = 0; i < half; i++) {
    float re = entity[i], im = entity[half + i];
    float r_re = relation[i], r_im = sign * relation[half + i];
    float g_re = grad[i], g_im = grad[half + i];
    entity_grad[i] += g_re * r_re + g_im * r_im;
    entity_grad[half + i] += g_im * r_re - g_re * r_im;
    relation_grad[i] += g_re * re + g_im * im;
    relation_grad[half + i] += sign * (g_im * re - g_re * im);
  }
}

/* N3 (Lacroix et al., ICML 2018): decay * sum_i |z_i|^3 of each part of a
** triple.  Adds its gradient. */
static void regularise(const float *vector, size_t dim, float decay,
                       float *grad) {
  size_t half = dim / 2;
  for (size_t i = 0; i < half; i++) {
    float re = vector[i], im = vector[half + i];
    float factor = 3 * decay * sqrtf(re * re + im * im);
    grad[i] += factor * re;
    grad[half + i] += factor * im;
  }
}

/* ---- softmax ------------------------------------------------------------- */

/* exp(x) for x <= 0 within 2e-7, in arithmetic that compilers can vectorise:
** 2^n * 2^f with f in [-0.5, 0.5]. */
static inline float exponential(float x) {
  float y = x < -87 ? -87 : x;
  float n = y * 1.44269504f + 12582912.0f; /* rounds to an integer */
  int32_t bits;
  memcpy(&bits, &n, sizeof(bits));
  float f = y - (n - 12582912.0f) * 0.693147181f;
  float p =
      1 + f * (1 + f * (0.5f +
                        f * (0.166666667f +
                             f * (0.0416666667f +
                                  f * (0.00833333333f + f * 0.00138888889f)))));
  int32_t power = (int32_t)((uint32_t)(bits + 127) << 23);
  float scale;
  memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}

/* Turns scores into softmax minus one-hot(target); returns the loss. */
static float softmax(float *scores, size_t count, uint32_t target) {
  float largest = scores[0];
  for (size_t i = 1; i < count; i++) {
    largest = scores[i] > largest ? scores[i] : largest;
  }
  float right = scores[target] - largest;
  for (size_t i = 0; i < count; i++) {
    scores[i] = exponential(scores[i] - largest);
  }
  float sums[16] = {0};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (size_t j = 0; j < 16; j++) {
      sums[j] += scores[i + j];
    }
  }
  float sum = 0;
  for (; i < count; i++) {
    sum += scores[i];
  }
  for (size_t j = 0; j < 16; j++) {
    sum += sums[j];
  }
  float scale = 1 / sum;
  for (i = 0; i < count; i++) {
    scores[i] *= scale;
  }
  scores[target] -= 1;
  return logf(sum) - right;
}

/* ---- one group ----------------------------------------------------------- */

static void add_candidate(struct group *group, struct scratch *scratch,
                          uint32_t row) {
  if (scratch->candidate[row] == NOWHERE) {
    scratch->candidate[row] = (uint32_t)group->candidate_count;
    group->rows[group->candidate_count++] = row;
  }
}

static void choose_candidates(const struct model *model, struct group *group,
                              struct scratch *scratch, uint64_t seed) {
  const struct batch *batch = model->batch;
  size_t dim = model->options.dim;
  group->candidate_count = 0;
  for (size_t i = 0; i < group->triple_count; i++) {
    add_candidate(group, scratch, group->triples[i].head);
    add_candidate(group, scratch, group->triples[i].tail);
  }
  for (size_t i = 0; i < model->options.negatives; i++) {
    uint64_t row = random_next(&seed) % batch->row_count;
    add_candidate(group, scratch, (uint32_t)row);
  }
  for (size_t i = 0; i < group->candidate_count; i++) {
    memcpy(scratch->vectors + i * dim, batch->rows + group->rows[i] * 2 * dim,
           dim * sizeof(float));
  }
}

/* Other right answers in the group are not negatives. */
static void mask_known(const struct group *group, const struct scratch *scratch,
                       size_t i) {
  const struct triple *asked = &group->triples[i];
  float *tails = scratch->scores + (2 * i) * group->candidate_count;
  float *heads = scratch->scores + (2 * i + 1) * group->candidate_count;
  for (size_t j = 0; j < group->triple_count; j++) {
    const struct triple *known = &group->triples[j];
    if (known->relation != asked->relation) {
      continue;
    }
    if (known->head == asked->head && known->tail != asked->tail) {
      tails[scratch->candidate[known->tail]] = -1e30f;
    }
    if (known->tail == asked->tail && known->head != asked->head) {
      heads[scratch->candidate[known->head]] = -1e30f;
    }
  }
}

static void score(const struct model *model, struct group *group,
                  struct scratch *scratch) {
  const struct batch *batch = model->batch;
  size_t dim = model->options.dim, queries = 2 * group->triple_count;
  for (size_t i = 0; i < group->triple_count; i++) {
    const struct triple *t = &group->triples[i];
    const float *relation = batch->relations + t->relation * 2 * dim;
    float *query = scratch->queries + 2 * i * dim;
    model_query(PREDICT_TAIL, batch->rows + t->head * 2 * dim, relation, dim,
                query);
    model_query(PREDICT_HEAD, batch->rows + t->tail * 2 * dim, relation, dim,
                query + dim);
  }
  int n = (int)group->candidate_count, d = (int)dim;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)queries, n, d, 1,
              scratch->queries, d, scratch->vectors, d, 0, scratch->scores, n);
  group->loss = 0;
  for (size_t i = 0; i < group->triple_count; i++) {
    const struct triple *t = &group->triples[i];
    float *scores = scratch->scores + 2 * i * group->candidate_count;
    mask_known(group, scratch, i);
    group->loss +=
        softmax(scores, group->candidate_count, scratch->candidate[t->tail]);
    group->loss += softmax(scores + group->candidate_count,
                           group->candidate_count, scratch->candidate[t->head]);
  }
}

static void backward(const struct model *model, struct group *group,
                     struct scratch *scratch) {
  const struct batch *batch = model->batch;
  size_t dim = model->options.dim, queries = 2 * group->triple_count;
  float decay = model->options.decay;
  int n = (int)group->candidate_count, d = (int)dim;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)queries, d, n, 1,
              scratch->scores, n, scratch->vectors, d, 0, scratch->query_grads,
              d);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, d, (int)queries, 1,
              scratch->scores, n, scratch->queries, d, 0, group->grads, d);
  memset(group->relation_grads, 0,
         model->options.relation_count * dim * sizeof(float));
  for (size_t i = 0; i < group->triple_count; i++) {
    const struct triple *t = &group->triples[i];
    const float *head = batch->rows + t->head * 2 * dim;
    const float *tail = batch->rows + t->tail * 2 * dim;
    const float *relation = batch->relations + t->relation * 2 * dim;
    float *head_grad = group->grads + scratch->candidate[t->head] * dim;
    float *tail_grad = group->grads + scratch->candidate[t->tail] * dim;
    float *relation_grad = group->relation_grads + t->relation * dim;
    const float *grad = scratch->query_grads + 2 * i * dim;
    query_backward(PREDICT_TAIL, head, relation, grad, dim, head_grad,
                   relation_grad);
    query_backward(PREDICT_HEAD, tail, relation, grad + dim, dim, tail_grad,
                   relation_grad);
    regularise(head, dim, decay, head_grad);
    regularise(tail, dim, decay, tail_grad);
    regularise(relation, dim, decay, relation_grad);
  }
}

static void do_groups(void *context, size_t member, size_t members) {
  struct model *model = context;
  struct scratch *scratch = &model->scratch[member];
  for (size_t i = member; i < model->group_count; i += members) {
    struct group *group = &model->groups[i];
    choose_candidates(model, group, scratch, model->seed + i);
    score(model, group, scratch);
    backward(model, group, scratch);
    for (size_t j = 0; j < group->candidate_count; j++) {
      scratch->candidate[group->rows[j]] = NOWHERE;
    }
  }
}

/* ---- sums and Adagrad ---------------------------------------------------- */

static void sum_columns(void *context, size_t member, size_t members) {
  struct model *model = context;
  size_t dim = model->options.dim;
  size_t from = dim * member / members, to = dim * (member + 1) / members;
  for (size_t i = 0; i < model->batch->row_count; i++) {
    memset(model->grads + i * dim + from, 0, (to - from) * sizeof(float));
  }
  for (size_t i = 0; i < model->group_count; i++) {
    const struct group *group = &model->groups[i];
    for (size_t j = 0; j < group->candidate_count; j++) {
      float *sum = model->grads + group->rows[j] * dim;
      const float *add = group->grads + j * dim;
      for (size_t k = from; k < to; k++) {
        sum[k] += add[k];
      }
    }
  }
}

/* Adagrad (Duchi et al., 2011) on one row. */
static void adagrad(float *row, const float *grad, size_t dim, float rate) {
  for (size_t i = 0; i < dim; i++) {
    row[dim + i] += grad[i] * grad[i];
    row[i] -= rate * grad[i] / (sqrtf(row[dim + i]) + 1e-10f);
  }
}

static void update_rows(void *context, size_t member, size_t members) {
  struct model *model = context;
  size_t dim = model->options.dim, rows = model->batch->row_count;
  size_t to = rows * (member + 1) / members;
  for (size_t i = rows * member / members; i < to; i++) {
    adagrad(model->batch->rows + i * 2 * dim, model->grads + i * dim, dim,
            model->options.rate);
  }
}

static void update_relations(struct model *model) {
  size_t dim = model->options.dim, relations = model->options.relation_count;
  memset(model->relation_grads, 0, relations * dim * sizeof(float));
  for (size_t i = 0; i < model->group_count; i++) {
    for (size_t j = 0; j < relations * dim; j++) {
      model->relation_grads[j] += model->groups[i].relation_grads[j];
    }
  }
  for (size_t i = 0; i < relations; i++) {
    adagrad(model->batch->relations + i * 2 * dim,
            model->relation_grads + i * dim, dim, model->options.rate);
  }
}

double model_step(struct model *model, struct batch *batch, uint64_t seed) {
  size_t group = model->options.group;
  model->batch = batch;
  model->seed = random_next(&seed);
  model->group_count = (batch->triple_count + group - 1) / group;
  for (size_t i = 0; i < model->group_count; i++) {
    size_t left = batch->triple_count - i * group;
    model->groups[i].triples = batch->triples + i * group;
    model->groups[i].triple_count = left < group ? left : group;
  }
  team_run(model->team, do_groups, model);
  team_run(model->team, sum_columns, model);
  team_run(model->team, update_rows, model);
  update_relations(model);
  double loss = 0;
  for (size_t i = 0; i < model->group_count; i++) {
    loss += model->groups[i].loss;
  }
  return loss;
}

/* ---- memory -------------------------------------------------------------- */

struct model *model_new(const struct model_options *options,
                        struct team *team) {
  struct model *model = need(1, sizeof(*model));
  size_t dim = options->dim, queries = 2 * options->group;
  openblas_set_num_threads(1); /* the team's threads call it */
  model->options = *options;
  model->team = team;
  model->candidates_max = queries + options->negatives;
  model->groups_max =
      (options->batch_max + options->group - 1) / options->group;
  model->grads = need(2 * options->batch_max * dim, sizeof(float));
  model->relation_grads = need(options->relation_count * dim, sizeof(float));
  model->scratch = need(team_members(team), sizeof(*model->scratch));
  for (size_t i = 0; i < team_members(team); i++) {
    struct scratch *scratch = &model->scratch[i];
    scratch->candidate = need(2 * options->batch_max, sizeof(uint32_t));
    for (size_t j = 0; j < 2 * options->batch_max; j++) {
      scratch->candidate[j] = NOWHERE;
    }
    scratch->vectors = need(model->candidates_max * dim, sizeof(float));
    scratch->queries = need(queries * dim, sizeof(float));
    scratch->query_grads = need(queries * dim, sizeof(float));
    scratch->scores = need(queries * model->candidates_max, sizeof(float));
  }
  model->groups = need(model->groups_max, sizeof(*model->groups));
  for (size_t i = 0; i < model->groups_max; i++) {
    struct group *group = &model->groups[i];
    group->rows = need(model->candidates_max, sizeof(uint32_t));
    group->grads = need(model->candidates_max * dim, sizeof(float));
    group->relation_grads = need(options->relation_count * dim, sizeof(float));
  }
  return model;
}

void model_free(struct model *model) {
  for (size_t i = 0; i < team_members(model->team); i++) {
    struct scratch *scratch = &model->scratch[i];
    free(scratch->candidate);
    free(scratch->vectors);
    free(scratch->queries);
    free(scratch->query_grads);
    free(scratch->scores);
  }
  for (size_t i = 0; i < model->groups_max; i++) {
    free(model->groups[i].rows);
    free(model->groups[i].grads);
    free(model->groups[i].relation_grads);
  }
  free(model->scratch);
  free(model->groups);
  free(model->grads);
  free(model->relation_grads);
  free(model);
}
