/* SPDX-License-Identifier: MIT
**
** drift.c -- emb_drift_mmd, emb_drift_ks, emb_drift_cvm and
** emb_drift_hellinger(value, is_reference [, options]): how far apart the
** distributions of two samples are.
**
** VALUES    Numbers or vectors, the same for a complete group.  For vectors mmd
**           takes all dimensions together; the others return the mean over the
**           dimensions.
** MEMORY    Every value, until the end of its group: 8 bytes a number, 4 bytes
**           an element.  mmd takes as much again, the others 8 bytes a row.
*/
#include "engine/data/emb_data.h"
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

enum { DRIFT_MMD, DRIFT_KS, DRIFT_CVM, DRIFT_HELLINGER };
static const char *const drift_names[] = {
    "emb_drift_mmd", "emb_drift_ks", "emb_drift_cvm", "emb_drift_hellinger"};

struct drift_numbers {
  double *at;
  size_t n, capacity;
};

/* The two samples; [1] are the references.  All zeros is the state before the
** first row. */
struct drift_state {
  struct drift_numbers numbers[2];
  struct ext_points points[2];
  int is_asked;
  double gamma; /* 0: not given */
  int is_biased, median_of_all;
  size_t bins; /* 0: not given */
  int failed;
};

static const char *drift_name(sqlite3_context *context) {
  return *(const char *const *)sqlite3_user_data(context);
}
static int drift_what(sqlite3_context *context) {
  return (int)((const char *const *)sqlite3_user_data(context) - drift_names);
}

static void drift_free(struct drift_state *state) {
  for (int i = 0; i < 2; i++) {
    sqlite3_free(state->numbers[i].at);
    ext_points_free(&state->points[i]);
  }
  *state = (struct drift_state){.failed = state->failed};
}

/* ---- options ------------------------------------------------------------- */

enum { DRIFT_BANDWIDTH, DRIFT_GAMMA, DRIFT_MEDIAN, DRIFT_ESTIMATE };

/* Parses a number above 0. */
static int drift_positive(const char *name, const char *value, double *to,
                          char **err) {
  size_t n = text__double(value, to);
  if (n == 0 || value[n] || !(*to > 0) || !isfinite(*to))
    return ext_error(err, SQLITE_ERROR, "%s must be a number above 0, got %s",
                     name, value);
  return SQLITE_OK;
}

/* Parses one of two words as 0 or 1. */
static int drift_word(const char *name, const char *value,
                      const char *const words[2], int *to, char **err) {
  for (*to = 0; *to < 2; ++*to)
    if (near_is(words[*to], value))
      return SQLITE_OK;
  return ext_error(err, SQLITE_ERROR, "%s must be %s or %s, got %s", name,
                   words[0], words[1], value);
}

static int drift_mmd_option(void *arg, int i, const char *value, char **err) {
  static const char *const medians[] = {"reference", "all"};
  static const char *const estimates[] = {"unbiased", "biased"};
  struct drift_state *state = arg;
  double number = 0;
  int rc;
  if (i == DRIFT_MEDIAN)
    return drift_word("median", value, medians, &state->median_of_all, err);
  if (i == DRIFT_ESTIMATE)
    return drift_word("estimate", value, estimates, &state->is_biased, err);
  if (state->gamma > 0)
    return ext_error(err, SQLITE_ERROR, "give bandwidth or gamma, not both");
  rc = drift_positive(i == DRIFT_GAMMA ? "gamma" : "bandwidth", value, &number,
                      err);
  state->gamma = i == DRIFT_GAMMA ? number : 1 / (2 * number * number);
  if (rc == SQLITE_OK && !(isfinite(state->gamma) && state->gamma > 0))
    return ext_error(err, SQLITE_ERROR, "bandwidth is out of range: %s", value);
  return rc;
}

static int drift_bins_option(void *arg, int i, const char *value, char **err) {
  struct drift_state *state = arg;
  uint64_t bins;
  (void)i;
  if (!text_whole(value, 1, 1 << 20, &bins))
    return ext_error(err, SQLITE_ERROR,
                     "bins must be an integer between 1 and 1048576, got %s",
                     value);
  state->bins = (size_t)bins;
  return SQLITE_OK;
}

/* Reads the options of the first row; they are the same for all rows. */
static int drift_ask(struct drift_state *state, int what, sqlite3_value *value,
                     char **err) {
  static const char *const names[] = {"bandwidth", "gamma", "median",
                                      "estimate"};
  static const char *const bins[] = {"bins"};
  static const struct ext_pair_names mmd = {names, 4, "estimate=biased",
                                            drift_mmd_option};
  static const struct ext_pair_names hellinger = {bins, 1, "bins=20",
                                                  drift_bins_option};
  int rc = ext_pairs(value, what == DRIFT_MMD ? &mmd : &hellinger, state, err);
  state->is_asked = 1;
  return rc;
}

/* ---- rows ---------------------------------------------------------------- */

static int drift_add_number(struct drift_numbers *to, sqlite3_value *value,
                            const char *name, char **err) {
  double number = sqlite3_value_double(value);
  if (!isfinite(number))
    return ext_error(err, SQLITE_CONSTRAINT, "argument 1 of %s is not finite",
                     name);
  if (to->n == to->capacity) {
    size_t capacity = to->capacity ? to->capacity * 2 : 64;
    double *at = sqlite3_realloc64(to->at, capacity * sizeof *at);
    if (at == NULL)
      return SQLITE_NOMEM;
    to->at = at;
    to->capacity = capacity;
  }
  to->at[to->n++] = number;
  return SQLITE_OK;
}

static int drift_add(struct drift_state *state, sqlite3_value **argv,
                     const char *name, char **err) {
  int type = sqlite3_value_type(argv[0]);
  int is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
  int is_reference = sqlite3_value_double(argv[1]) != 0, rc;
  if (sqlite3_value_numeric_type(argv[1]) != SQLITE_INTEGER &&
      sqlite3_value_numeric_type(argv[1]) != SQLITE_FLOAT)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 2 of %s must be 0 or 1, got %s", name,
                     ext_value_type_name(argv[1]));
  if (is_number ? state->points[0].n || state->points[1].n
                : state->numbers[0].n || state->numbers[1].n)
    return ext_error(err, SQLITE_MISMATCH,
                     "%s needs numbers or vectors, got both", name);
  if (is_number)
    return drift_add_number(&state->numbers[is_reference], argv[0], name, err);
  rc = ext_points_add(&state->points[is_reference], argv[0], name, 1, err);
  if (rc == SQLITE_OK && state->points[0].n && state->points[1].n &&
      state->points[0].dim != state->points[1].dim)
    rc = ext_error(err, SQLITE_MISMATCH,
                   "%s needs vectors of one dimension, got %u and %u", name,
                   state->points[!is_reference].dim,
                   state->points[is_reference].dim);
  return rc;
}

static void drift_step(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct drift_state *state = sqlite3_aggregate_context(context, sizeof *state);
  char *err = NULL;
  int rc = SQLITE_OK;
  if (state == NULL) {
    sqlite3_result_error_nomem(context);
    return;
  }
  if (state->failed || sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return;
  if (!state->is_asked)
    rc = drift_ask(state, drift_what(context), argc > 2 ? argv[2] : NULL, &err);
  if (rc == SQLITE_OK)
    rc = drift_add(state, argv, drift_name(context), &err);
  if (rc != SQLITE_OK) {
    state->failed = 1;
    ext_result_error(context, rc, err);
  }
}

/* ---- mmd ----------------------------------------------------------------- */

/* Numbers as vectors of one element, less their mean, since float32 would lose
** digits otherwise.  *unit: the value of 1 in the vectors. */
static int drift_as_points(struct drift_state *state, double *unit) {
  double mean = 0, most = 0, n = 0;
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < state->numbers[side].n; i++)
      mean += (state->numbers[side].at[i] - mean) / ++n;
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < state->numbers[side].n; i++)
      most = fmax(most, fabs(state->numbers[side].at[i] / 2 - mean / 2));
  *unit = most > 0 ? 2 * most : 1;
  for (int side = 0; side < 2; side++) {
    struct ext_points *to = &state->points[side];
    to->n = state->numbers[side].n;
    to->dim = 1;
    to->vectors = sqlite3_malloc64(to->n * sizeof(float) + 1);
    if (to->vectors == NULL)
      return SQLITE_NOMEM;
    for (size_t i = 0; i < to->n; i++)
      to->vectors[i] =
          (float)((state->numbers[side].at[i] / 2 - mean / 2) / (*unit / 2));
  }
  return SQLITE_OK;
}

/* Appends the other sample to the references. */
static int drift_join(struct drift_state *state) {
  struct ext_points *to = &state->points[1], *from = &state->points[0];
  size_t vector = to->dim * sizeof(float);
  float *both = sqlite3_realloc64(to->vectors, (to->n + from->n) * vector);
  if (both == NULL)
    return SQLITE_NOMEM;
  memcpy(both + to->n * to->dim, from->vectors, from->n * vector);
  to->vectors = both;
  sqlite3_free(from->vectors);
  from->vectors = NULL;
  return SQLITE_OK;
}

static int drift_mmd(struct drift_state *state, struct ext_conn *conn,
                     double *result, char **err) {
  emb_drift ask = {.unit = 1,
                   .gamma = state->gamma,
                   .median_of_all = state->median_of_all,
                   .is_biased = state->is_biased,
                   .interrupted = ext_link_interrupted,
                   .arg = conn};
  emb_err cause;
  int rc = SQLITE_OK;
  if (state->numbers[0].n)
    rc = drift_as_points(state, &ask.unit);
  if (rc == SQLITE_OK)
    rc = drift_join(state);
  if (rc != SQLITE_OK)
    return rc;
  ask.vectors = state->points[1].vectors;
  ask.references = state->points[1].n;
  ask.others = state->points[0].n;
  ask.dim = state->points[1].dim;
  rc = emb_drift_mmd(&ask, result, &cause);
  return rc == EMB_OK ? SQLITE_OK : ext_engine_error(err, rc, cause.text);
}

/* ---- the others ---------------------------------------------------------- */

static int drift_compare(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Sorts the numbers. */
static int drift_one(const struct drift_state *state, int what,
                     struct ext_conn *conn, double *result, char **err) {
  const struct drift_numbers *x = &state->numbers[1], *y = &state->numbers[0];
  int rc = ext_link_sort(conn, x->at, x->n, sizeof *x->at, drift_compare, err);
  if (rc == SQLITE_OK)
    rc = ext_link_sort(conn, y->at, y->n, sizeof *y->at, drift_compare, err);
  if (rc != SQLITE_OK)
    return rc;
  if (what == DRIFT_KS)
    *result = emb_drift_ks(x->at, x->n, y->at, y->n);
  else if (what == DRIFT_CVM)
    *result = emb_drift_cvm(x->at, x->n, y->at, y->n);
  else
    *result = emb_drift_hellinger(x->at, x->n, y->at, y->n, state->bins);
  return SQLITE_OK;
}

/* For vectors: the mean over dimensions. */
static int drift_columns(struct drift_state *state, int what,
                         struct ext_conn *conn, double *result, char **err) {
  uint32_t dim = state->points[0].dim;
  double sum = 0, one;
  int rc = SQLITE_OK;
  for (int side = 0; side < 2; side++) {
    struct drift_numbers *to = &state->numbers[side];
    to->n = state->points[side].n;
    to->at = sqlite3_malloc64(to->n * sizeof *to->at);
    if (to->at == NULL)
      return SQLITE_NOMEM;
  }
  for (uint32_t k = 0; k < dim && rc == SQLITE_OK; k++) {
    for (int side = 0; side < 2; side++)
      for (size_t i = 0; i < state->numbers[side].n; i++)
        state->numbers[side].at[i] =
            (double)state->points[side].vectors[i * dim + k];
    if (ext_link_interrupted(conn))
      rc = ext_error(err, SQLITE_INTERRUPT, "interrupted");
    if (rc == SQLITE_OK)
      rc = drift_one(state, what, conn, &one, err);
    if (rc == SQLITE_OK)
      sum += one;
  }
  *result = sum / (double)dim;
  return rc;
}

static int drift_compute(struct drift_state *state, int what,
                         struct ext_conn *conn, double *result, char **err) {
  if (ext_link_interrupted(conn))
    return ext_error(err, SQLITE_INTERRUPT, "interrupted");
  if (what == DRIFT_MMD)
    return drift_mmd(state, conn, result, err);
  if (state->points[0].n)
    return drift_columns(state, what, conn, result, err);
  return drift_one(state, what, conn, result, err);
}

static void drift_final(sqlite3_context *context) {
  struct drift_state *state = sqlite3_aggregate_context(context, 0);
  struct ext_conn conn = ext_choose_asked(context);
  int what = drift_what(context), rc;
  size_t needed = what == DRIFT_MMD ? 2 : 1;
  double result = 0;
  char *err = NULL;
  if (state == NULL)
    return;
  if (!state->failed && state->numbers[0].n + state->points[0].n >= needed &&
      state->numbers[1].n + state->points[1].n >= needed) {
    rc = drift_compute(state, what, &conn, &result, &err);
    if (rc == SQLITE_OK)
      sqlite3_result_double(context, result);
    else
      ext_result_error(context, rc, err);
  }
  drift_free(state);
}

int ext_choose_drift_register(sqlite3 *db) {
  int rc = SQLITE_OK;
  for (int i = DRIFT_MMD; i <= DRIFT_HELLINGER; i++)
    for (int argc = 2; argc <= 3 && rc == SQLITE_OK; argc++)
      if (argc == 2 || i == DRIFT_MMD || i == DRIFT_HELLINGER)
        rc = sqlite3_create_function_v2(db, drift_names[i], argc, CHOOSE_FLAGS,
                                        (void *)(uintptr_t)&drift_names[i],
                                        NULL, drift_step, drift_final, NULL);
  return rc;
}
