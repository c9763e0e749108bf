/* SPDX-License-Identifier: MIT
**
** method.c -- parses the text of a method, such as
** "submodular(graph_cut, greedy=stochastic, epsilon=0.1)".
*/
#include "choose.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/near.h"
#include "engine/base/text.h"

static const char *const method_kinds[] = {[CHOOSE_CENTRES] = "k-center",
                                           [CHOOSE_CRAIG] = "craig",
                                           [CHOOSE_MATCHING] = "gradmatch",
                                           [CHOOSE_SUBMODULAR] = "submodular",
                                           NULL};
static const char *const method_functions[] = {
    [CHOOSE_FACILITY] = "facility_location",
    [CHOOSE_CUT] = "graph_cut",
    [CHOOSE_DETERMINANT] = "log_determinant",
    NULL};
static const char *const method_greedy[] = {[CHOOSE_LAZY] = "lazy",
                                            [CHOOSE_NAIVE] = "naive",
                                            [CHOOSE_STOCHASTIC] = "stochastic",
                                            NULL};

enum {
  OPTION_FUNCTION,
  OPTION_SEED,
  OPTION_GREEDY,
  OPTION_BATCH,
  OPTION_EPSILON,
  OPTION_LAMBDA,
  OPTION_RIDGE,
  OPTION_NAMED /* seen: an option with its name */
};
static const char *const method_options[] = {
    [OPTION_FUNCTION] = "function", [OPTION_SEED] = "seed",
    [OPTION_GREEDY] = "greedy",     [OPTION_BATCH] = "selection_batch",
    [OPTION_EPSILON] = "epsilon",   [OPTION_LAMBDA] = "lambda",
    [OPTION_RIDGE] = "ridge",       NULL};
/* The options that each kind takes, as bits. */
static const unsigned method_takes[] = {
    [CHOOSE_CENTRES] = 1u << OPTION_SEED,
    [CHOOSE_CRAIG] = 1u << OPTION_SEED | 1u << OPTION_GREEDY |
                     1u << OPTION_BATCH | 1u << OPTION_EPSILON,
    [CHOOSE_MATCHING] = 1u << OPTION_LAMBDA,
    [CHOOSE_SUBMODULAR] = 1u << OPTION_FUNCTION | 1u << OPTION_SEED |
                          1u << OPTION_GREEDY | 1u << OPTION_BATCH |
                          1u << OPTION_EPSILON | 1u << OPTION_LAMBDA |
                          1u << OPTION_RIDGE};

/* Skips a word that is one of the names; *which: its index. */
static int method_find(const char **at, const char *const *names,
                       const char *what, int *which, emb_err *err) {
  size_t n = text_dashed(*at);
  struct near near;
  near_start(&near, *at, n);
  for (*which = 0; names[*which]; ++*which) {
    if (near_same(names[*which], *at, n)) {
      *at = text_space(*at + n);
      return EMB_OK;
    }
    near_offer(&near, names[*which]);
  }
  return err_set(err, EMB_RANGE, "unknown %s: %.*s%s", what, (int)n, *at,
                 near_text(&near));
}

/* Parses the number of an option, within its limits. */
static int method_number(const char **at, const char *name, double least,
                         double most, double *to, emb_err *err) {
  size_t n = text_double(*at, to);
  *at = text_space(*at + n);
  return n && *to >= least && *to <= most
             ? EMB_OK
             : err_set(err, EMB_RANGE, "%s must be a number between %g and %g",
                       name, least, most);
}

static int method_seed(const char **at, int64_t *seed, emb_err *err) {
  int negative = text_word(at, "-");
  uint64_t number;
  if (!text_digits(at, INT64_MAX, &number)) {
    return err_set(err, EMB_RANGE, "seed must be an integer");
  }
  *seed = negative ? -(int64_t)number : (int64_t)number;
  *at = text_space(*at);
  return EMB_OK;
}

static int method_batch(const char **at, uint64_t *batch, emb_err *err) {
  if (!text_digits(at, BLOCK_COLUMNS, batch) || *batch == 0) {
    return err_set(err, EMB_RANGE,
                   "selection_batch must be an integer between 1 and %d",
                   BLOCK_COLUMNS);
  }
  *at = text_space(*at);
  return EMB_OK;
}

/* Parses `name =`, or finds the next option of the method for a value alone;
** its number. */
static int method_name(const char **at, const struct choose_method *how,
                       unsigned *seen, int *option, emb_err *err) {
  size_t n = text_dashed(*at);
  const char *value = *at + n;
  int k = 0;
  if (text_equals(&value)) {
    *seen |= 1u << OPTION_NAMED;
    int rc = method_find(at, method_options, "option", option, err);
    *at = value;
    return rc;
  }
  while (method_options[k] &&
         (!(method_takes[how->kind] >> k & 1) || *seen >> k & 1)) {
    k++;
  }
  *option = k;
  if (n == 0 && **at != '-') {
    return err_set(err, EMB_RANGE, "expected an option, got \"%.40s\"", *at);
  }
  if (*seen >> OPTION_NAMED & 1 || method_options[k] == NULL) {
    return err_set(err, EMB_RANGE,
                   method_options[k] ? "a value after one with a name needs a "
                                       "name too: \"%.40s\""
                                     : "more values than options: \"%.40s\"",
                   *at);
  }
  return EMB_OK;
}

/* Parses one name=value, or a value alone. */
static int method_option(const char **at, struct choose_method *how,
                         unsigned *seen, emb_err *err) {
  int option = 0, rc = method_name(at, how, seen, &option, err);
  if (rc) {
    return rc;
  }
  const char *name = method_options[option];
  if (!(method_takes[how->kind] >> option & 1)) {
    return err_set(err, EMB_RANGE, "%s has no option %s",
                   method_kinds[how->kind], name);
  }
  if (*seen >> option & 1) {
    return err_set(err, EMB_RANGE, "given twice: %s", name);
  }
  *seen |= 1u << option;
  switch (option) {
  case OPTION_FUNCTION:
    return method_find(at, method_functions, "function", &how->function, err);
  case OPTION_SEED:
    return method_seed(at, &how->seed, err);
  case OPTION_GREEDY:
    return method_find(at, method_greedy, "greedy", &how->greedy, err);
  case OPTION_BATCH:
    return method_batch(at, &how->batch, err);
  case OPTION_EPSILON:
    return method_number(at, name, 1e-9, 0.999999999, &how->epsilon, err);
  case OPTION_LAMBDA:
    return method_number(at, name, 0, 1e9, &how->lambda, err);
  default:
    return method_number(at, name, 1e-9, 1e9, &how->ridge, err);
  }
}

static int method_arguments(const char **at, struct choose_method *how,
                            emb_err *err) {
  unsigned seen = 0;
  int rc = EMB_OK, first = 1;
  *at = text_space(*at);
  while (rc == EMB_OK && !text_word(at, ")")) {
    if (!first && !text_word(at, ",")) {
      return err_set(err, EMB_RANGE, "expected , or ) at \"%.40s\"", *at);
    }
    *at = text_space(*at);
    rc = method_option(at, how, &seen, err);
    first = 0;
  }
  return rc;
}

int choose__parse(const char *text, struct choose_method *how, emb_err *err) {
  const char *at = text_space(text);
  *how = (struct choose_method){
      .lambda = 1, .ridge = 1e-3, .epsilon = 0.9, .batch = 64, .function = -1};
  int rc = method_find(&at, method_kinds, "method", &how->kind, err);
  if (rc == EMB_OK && text_word(&at, "(")) {
    rc = method_arguments(&at, how, err);
  }
  at = text_space(at);
  if (rc == EMB_OK && *at) {
    rc = err_set(err, EMB_RANGE, "unexpected \"%.40s\" after the method", at);
  }
  if (rc == EMB_OK && how->kind == CHOOSE_SUBMODULAR && how->function < 0) {
    rc = err_set(err, EMB_RANGE,
                 "submodular needs a function: facility_location, graph_cut "
                 "or log_determinant");
  }
  return rc;
}
