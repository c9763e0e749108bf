/* SPDX-License-Identifier: MIT
**
** optim_parse.c -- parses and prints optimizers; see optim.h.
*/
#include "optim.h"
#include "optim_form.h"

#include "engine/base/param.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A decay of 1 would never forget, and would divide by 1 - 1. */
#define DECAY_MAX 0.999999
/* A nonzero float32 whose inverse is finite. */
#define TINY 1e-30
#define HUGE_NUMBER 1e30

#define P(name_) .name = #name_, .at = offsetof(struct optim, name_)
#define LR(value_)                                                             \
  { P(lr), .value = (value_), .low = EMB_LR_MIN, .high = EMB_LR_MAX }
#define EPS(value_)                                                            \
  { P(eps), .value = (value_), .low = TINY, .high = 1e6 }
#define DECAY(name_, value_)                                                   \
  { P(name_), .value = (value_), .high = DECAY_MAX }
#define AMOUNT(name_, value_)                                                  \
  { P(name_), .value = (value_), .high = HUGE_NUMBER }
#define FLAG(name_)                                                            \
  { P(name_), .high = 1, .whole = 1, .is = PARAM_BOOL }
#define END                                                                    \
  { .name = NULL }

static const struct param sgd[] = {LR(0.01), END};
static const struct param momentum[] = {LR(0.01), DECAY(momentum, 0.9),
                                        FLAG(nesterov), END};
static const struct param adagrad[] = {LR(0.001), EPS(1e-10),
                                       AMOUNT(initial_accumulator, 0.1), END};
static const struct param rowwise[] = {LR(0.01), EPS(1e-10),
                                       AMOUNT(initial_accumulator, 0.1), END};
static const struct param adam[] = {LR(0.001), DECAY(beta1, 0.9),
                                    DECAY(beta2, 0.999), EPS(1e-8), END};
static const struct param rmsprop[] = {LR(0.01), DECAY(alpha, 0.99), EPS(1e-8),
                                       DECAY(momentum, 0), END};
static const struct param adadelta[] = {LR(1), DECAY(rho, 0.95), EPS(1e-6),
                                        END};
static const struct param ftrl[] = {LR(0.01),
                                    AMOUNT(beta, 0),
                                    AMOUNT(l1, 0),
                                    AMOUNT(l2, 0),
                                    AMOUNT(initial_accumulator, 0.1),
                                    END};
static const struct param group_ftrl[] = {LR(0.01),
                                          AMOUNT(beta, 1),
                                          AMOUNT(l1, 0),
                                          AMOUNT(l2, 0),
                                          AMOUNT(initial_accumulator, 0),
                                          END};
static const struct param optim_parse_common[] = {
    AMOUNT(weight_decay, 0), AMOUNT(clip_value, 0),     AMOUNT(clip_norm, 0),
    AMOUNT(dc, 0),           FLAG(stochastic_rounding), END};

static const struct param_kind optim_parse_kinds[] = {
    [OPTIM_SGD] = {"sgd", sgd},
    [OPTIM_MOMENTUM] = {"momentum", momentum},
    [OPTIM_ADAGRAD] = {"adagrad", adagrad},
    [OPTIM_ROWWISE_ADAGRAD] = {"rowwise_adagrad", rowwise},
    [OPTIM_ADAM] = {"adam", adam},
    [OPTIM_AMSGRAD] = {"amsgrad", adam},
    [OPTIM_RMSPROP] = {"rmsprop", rmsprop},
    [OPTIM_ADADELTA] = {"adadelta", adadelta},
    [OPTIM_FTRL] = {"ftrl", ftrl},
    [OPTIM_GROUP_FTRL] = {"group_ftrl", group_ftrl},
    {NULL, NULL}};

static const struct param_list optim_parse_list = {
    "optimizer", optim_parse_kinds, optim_parse_common};

/* Sets p to a decay, and p1 to 1 - p, rounded once: computed from the float32
** of 0.999, it would be wrong in the fifth digit. */
static void set_decay(float *p, float *p1, double decay) {
  *p = (float)decay;
  *p1 = (float)(1 - decay);
}

static void set_factors(struct optim *optim) {
  struct optim_factors *k = &optim->factors;
  double first = optim->kind == OPTIM_RMSPROP    ? optim->alpha
                 : optim->kind == OPTIM_ADADELTA ? optim->rho
                 : optim->kind == OPTIM_MOMENTUM ? optim->momentum
                                                 : optim->beta1;
  set_decay(&k->p, &k->p1, first);
  set_decay(&k->q, &k->q1,
            optim->kind == OPTIM_RMSPROP ? optim->momentum : optim->beta2);
  k->dc = (float)optim->dc;
  k->clip = optim->clip_value > 0 ? (float)optim->clip_value : INFINITY;
  k->decay = (float)optim->weight_decay;
  k->eps = (float)optim->eps;
  k->beta = (float)optim->beta;
  k->l1 = (float)optim->l1;
  k->l2 = (float)optim->l2;
  k->lr = (float)optim->lr;
  k->inverse = 1 / k->lr;
  k->scale = 1;
  k->root = 1;
  k->shrink = 1;
}

static void set_layout(struct optim *optim) {
  static const uint8_t heads[] = {[OPTIM_ROWWISE_ADAGRAD] = 1,
                                  [OPTIM_ADAM] = 2,
                                  [OPTIM_AMSGRAD] = 2,
                                  [OPTIM_GROUP_FTRL] = 0};
  static const uint8_t arrays[] = {
      [OPTIM_MOMENTUM] = 1, [OPTIM_ADAGRAD] = 1,   [OPTIM_ADAM] = 2,
      [OPTIM_AMSGRAD] = 3,  [OPTIM_RMSPROP] = 1,   [OPTIM_ADADELTA] = 2,
      [OPTIM_FTRL] = 2,     [OPTIM_GROUP_FTRL] = 2};
  optim->heads = heads[optim->kind];
  optim->arrays = arrays[optim->kind];
  if (optim->kind == OPTIM_RMSPROP && optim->momentum > 0) {
    optim->arrays++;
  }
}

int optim_parse(struct optim *optim, const char *text, emb_err *err) {
  int rc;
  memset(optim, 0, sizeof *optim);
  rc = param_parse(&optim_parse_list, text, optim, &optim->kind, err);
  if (rc) {
    return rc;
  }
  if (optim->kind >= OPTIM_FTRL && (float)optim->beta == 0 &&
      (float)optim->initial_accumulator == 0) {
    return err_set(err, EMB_RANGE,
                   "%s: beta and initial_accumulator are both 0",
                   optim_parse_kinds[optim->kind].name);
  }
  set_layout(optim);
  set_factors(optim);
  for (int i = 0; optim_use_form(optim, i); i++) {
  }
  return EMB_OK;
}

int optim_use_form(struct optim *optim, int i) {
  if (optim__form(i) == NULL) {
    return 0;
  }
  optim->form = optim__form(i);
  optim->vec = vec__form(i);
  emb_check(optim_valid(optim));
  return 1;
}

size_t optim_print(const struct optim *optim, char *out, size_t size) {
  return param_print(&optim_parse_list, optim->kind, optim, out, size);
}
