/* SPDX-License-Identifier: MIT
**
** method.c -- parses the text of a method, such as
** "submodular(graph_cut, greedy=stochastic, epsilon=0.1)".  The grammar is that
** of base/param.h.
*/
#include "choose.h"

#include <stddef.h>

#include "engine/base/param.h"

static const char *const method_functions[] = {
    [CHOOSE_FACILITY] = "facility_location",
    [CHOOSE_CUT] = "graph_cut",
    [CHOOSE_DETERMINANT] = "log_determinant",
    NULL};
static const char *const method_greedy[] = {[CHOOSE_LAZY] = "lazy",
                                            [CHOOSE_NAIVE] = "naive",
                                            [CHOOSE_STOCHASTIC] = "stochastic",
                                            NULL};

/* What a text says. */
struct method_text {
  double function, greedy, batch, epsilon, lambda, ridge;
  int64_t seed;
};

#define P(name_, at_) .name = (name_), .at = offsetof(struct method_text, at_)
#define END                                                                    \
  { .name = NULL }
#define FUNCTION                                                               \
  {                                                                            \
    P("function", function), .value = -1, .is = PARAM_WORD,                    \
                             .words = method_functions                         \
  }
#define SEED                                                                   \
  { P("seed", seed), .is = PARAM_INTEGER }
#define GREEDY                                                                 \
  {                                                                            \
    P("greedy", greedy), .value = CHOOSE_LAZY, .is = PARAM_WORD,               \
                         .words = method_greedy                                \
  }
#define BATCH                                                                  \
  {                                                                            \
    P("selection_batch", batch), .value = 64, .low = 1, .high = BLOCK_COLUMNS, \
                                 .whole = 1                                    \
  }
#define EPSILON                                                                \
  { P("epsilon", epsilon), .value = 0.9, .high = 1, .open = 1 }
#define LAMBDA                                                                 \
  { P("lambda", lambda), .value = 1, .high = 1e9 }
#define RIDGE                                                                  \
  { P("ridge", ridge), .value = 1e-3, .low = 1e-9, .high = 1e9 }

static const struct param centres[] = {SEED, END};
static const struct param craig[] = {SEED, GREEDY, BATCH, EPSILON, END};
static const struct param matching[] = {LAMBDA, END};
static const struct param submodular[] = {FUNCTION, SEED,   GREEDY, BATCH,
                                          EPSILON,  LAMBDA, RIDGE,  END};
static const struct param method_common[] = {END};

static const struct param_kind method_kinds[] = {
    [CHOOSE_CENTRES] = {"k-center", centres},
    [CHOOSE_CRAIG] = {"craig", craig},
    [CHOOSE_MATCHING] = {"gradmatch", matching},
    [CHOOSE_SUBMODULAR] = {"submodular", submodular},
    {NULL, NULL}};
static const struct param_list method_list = {"method", method_kinds,
                                              method_common};

int choose__parse(const char *text, struct choose_method *how, emb_err *err) {
  struct method_text parsed = {
      .batch = 64, .epsilon = 0.9, .lambda = 1, .ridge = 1e-3, .function = -1};
  uint32_t kind = 0;
  int rc = param_parse(&method_list, text, &parsed, &kind, err);
  *how = (struct choose_method){.kind = (int)kind,
                                .function = (int)parsed.function,
                                .greedy = (int)parsed.greedy,
                                .lambda = parsed.lambda,
                                .ridge = parsed.ridge,
                                .epsilon = parsed.epsilon,
                                .seed = parsed.seed,
                                .batch = (uint64_t)parsed.batch};
  if (rc == EMB_OK && how->kind == CHOOSE_SUBMODULAR && how->function < 0) {
    rc = err_set(err, EMB_RANGE,
                 "submodular needs a function: facility_location, graph_cut "
                 "or log_determinant");
  }
  return rc;
}
