/* SPDX-License-Identifier: MIT
**
** evaluate.c -- emb_accuracy, emb_auc and emb_log_loss: how good predictions
** are; emb_f1 is in classes.c.
**
** A row with a NULL is left out; with no rows the result is NULL.  They need
** the memory of two counters, except emb_auc, which keeps 16 bytes a row.
*/
#include "engine/base/seed.h"
#include "models.h"
SQLITE_EXTENSION_INIT3

#include <float.h>
#include <math.h>
#include <string.h>

/* Returns 1 if a row is left out. */
static int evaluate_skips(int argc, sqlite3_value **argv) {
  int i = 0;
  while (i < argc && sqlite3_value_type(argv[i]) != SQLITE_NULL)
    i++;
  return i < argc;
}

/* Reads a class: its place among n scores. */
static int evaluate_class(sqlite3_value *value, const char *name, uint32_t n,
                          int64_t *label, char **err) {
  char what[64];
  int rc;
  sqlite3_snprintf(sizeof what, what, "argument 2 of %s", name);
  rc = ext_key_from_value(value, what, label, err);
  if (rc == SQLITE_OK && (*label < 0 || *label >= n))
    rc = ext_error(err, SQLITE_ERROR,
                   "%s must be a class between 0 and %u, got %lld", what, n - 1,
                   (long long)*label);
  return rc;
}

/* Reads one score for each class. */
static int evaluate_scores(sqlite3_value *value, const char *name,
                           struct ext_floats *scores, char **err) {
  char what[64];
  int rc;
  sqlite3_snprintf(sizeof what, what, "argument 1 of %s", name);
  rc = ext_vec_from_value(value, &(struct ext_arg){.what = what}, 0, scores,
                          err);
  if (rc == SQLITE_OK && scores->n == 0) {
    ext_floats_free(scores);
    rc = ext_error(err, SQLITE_MISMATCH, "%s is an empty vector", what);
  }
  return rc;
}

/* Reads a score and its label, 0 or 1. */
static int evaluate_pair(sqlite3_value **argv, const char *name, double *score,
                         int *label, char **err) {
  double number = sqlite3_value_double(argv[1]);
  int type = sqlite3_value_type(argv[0]);
  *score = sqlite3_value_double(argv[0]);
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 1 of %s must be a number, got %s", name,
                     ext_value_type_name(argv[0]));
  if (!isfinite(*score))
    return ext_error(err, SQLITE_CONSTRAINT, "argument 1 of %s is not finite",
                     name);
  type = sqlite3_value_type(argv[1]);
  if ((type != SQLITE_INTEGER && type != SQLITE_FLOAT) ||
      (number != 0 && number != 1))
    return ext_error(err, SQLITE_MISMATCH,
                     "argument 2 of %s must be 0 or 1, got %s", name,
                     type == SQLITE_TEXT || type == SQLITE_BLOB
                         ? ext_value_type_name(argv[1])
                         : (const char *)sqlite3_value_text(argv[1]));
  *label = number == 1;
  return SQLITE_OK;
}

/* ---- emb_accuracy -------------------------------------------------------- */

/* All zeros is the state before the first row, here and below. */
struct accuracy {
  int64_t right, rows;
};

/* Is the label among the `top` greatest of n scores?  Of equal scores the class
** with the lower number comes first, as in argmax. */
static int accuracy_is_right(const struct ext_floats *scores, int64_t label,
                             int64_t top) {
  float score = scores->at[label];
  int64_t before = 0;
  for (int64_t i = 0; i < scores->n; i++)
    before += scores->at[i] > score || (scores->at[i] == score && i < label);
  return before < top;
}

static int accuracy_add(struct accuracy *accuracy, int argc,
                        sqlite3_value **argv, char **err) {
  struct ext_floats scores;
  int64_t label, top = 1;
  int type = sqlite3_value_type(argv[0]), rc = SQLITE_OK;
  if (argc > 2)
    rc = ext_arg_from_one(argv[2], "argument 3 of emb_accuracy", INT64_MAX,
                          &top, err);
  if (rc == SQLITE_OK && (type == SQLITE_INTEGER || type == SQLITE_FLOAT)) {
    int64_t predicted;
    rc = ext_key_from_value(argv[0], "argument 1 of emb_accuracy", &predicted,
                            err);
    if (rc == SQLITE_OK)
      rc = ext_key_from_value(argv[1], "argument 2 of emb_accuracy", &label,
                              err);
    accuracy->right += rc == SQLITE_OK && predicted == label;
  } else if (rc == SQLITE_OK) {
    rc = evaluate_scores(argv[0], "emb_accuracy", &scores, err);
    if (rc == SQLITE_OK) {
      rc = evaluate_class(argv[1], "emb_accuracy", scores.n, &label, err);
      accuracy->right +=
          rc == SQLITE_OK && accuracy_is_right(&scores, label, top);
      ext_floats_free(&scores);
    }
  }
  accuracy->rows++;
  return rc;
}

static void accuracy_step(sqlite3_context *context, int argc,
                          sqlite3_value **argv) {
  struct accuracy *accuracy =
      sqlite3_aggregate_context(context, sizeof *accuracy);
  char *err = NULL;
  int rc = SQLITE_OK;
  if (accuracy == NULL)
    rc = SQLITE_NOMEM;
  else if (!evaluate_skips(argc, argv))
    rc = accuracy_add(accuracy, argc, argv, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static void accuracy_final(sqlite3_context *context) {
  const struct accuracy *accuracy = sqlite3_aggregate_context(context, 0);
  if (accuracy && accuracy->rows)
    sqlite3_result_double(context,
                          (double)accuracy->right / (double)accuracy->rows);
}

/* ---- emb_log_loss -------------------------------------------------------- */

struct loss {
  double sum, error; /* of the sum, by Knuth's TwoSum */
  int64_t rows;
};

static void loss_add(struct loss *loss, double p, double least) {
  double x = -log(fmin(fmax(p, least), 1 - least));
  double sum = loss->sum + x, part = sum - loss->sum;
  loss->error += (loss->sum - (sum - part)) + (x - part);
  loss->sum = sum;
  loss->rows++;
}

static int loss_out_of_range(double p, char **err) {
  return ext_error(err, SQLITE_CONSTRAINT,
                   "argument 1 of emb_log_loss has a probability of %g", p);
}

/* A probability of 0 or 1 is moved inside by the least that its type can
** express, as in scikit-learn. */
static int loss_row(struct loss *loss, sqlite3_value **argv, char **err) {
  int type = sqlite3_value_type(argv[0]), is_one = 0, rc;
  struct ext_floats scores;
  int64_t label;
  double p;
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) {
    rc = evaluate_pair(argv, "emb_log_loss", &p, &is_one, err);
    if (rc == SQLITE_OK && !(p >= 0 && p <= 1))
      rc = loss_out_of_range(p, err);
    if (rc == SQLITE_OK && is_one)
      loss_add(loss, p, DBL_EPSILON);
    else if (rc == SQLITE_OK)
      loss_add(loss, 1 - fmin(fmax(p, DBL_EPSILON), 1 - DBL_EPSILON), 0);
    return rc;
  }
  rc = evaluate_scores(argv[0], "emb_log_loss", &scores, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = evaluate_class(argv[1], "emb_log_loss", scores.n, &label, err);
  for (uint32_t i = 0; i < scores.n && rc == SQLITE_OK; i++)
    if (!(scores.at[i] >= 0 && scores.at[i] <= 1))
      rc = loss_out_of_range((double)scores.at[i], err);
  if (rc == SQLITE_OK)
    loss_add(loss, (double)scores.at[label], (double)FLT_EPSILON);
  ext_floats_free(&scores);
  return rc;
}

static void loss_step(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct loss *loss = sqlite3_aggregate_context(context, sizeof *loss);
  char *err = NULL;
  int rc = SQLITE_OK;
  if (loss == NULL)
    rc = SQLITE_NOMEM;
  else if (!evaluate_skips(argc, argv))
    rc = loss_row(loss, argv, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static void loss_final(sqlite3_context *context) {
  const struct loss *loss = sqlite3_aggregate_context(context, 0);
  if (loss && loss->rows)
    sqlite3_result_double(context,
                          (loss->sum + loss->error) / (double)loss->rows);
}

/* ---- emb_auc ------------------------------------------------------------- */

struct scored {
  double score;
  int64_t label;
};

struct auc {
  struct scored *rows;
  size_t n, capacity;
};

static int auc_add(struct auc *auc, sqlite3_value **argv, char **err) {
  double score;
  int label, rc = evaluate_pair(argv, "emb_auc", &score, &label, err);
  if (rc == SQLITE_OK && auc->n == auc->capacity) {
    size_t capacity = auc->capacity ? auc->capacity * 2 : 64;
    struct scored *rows = sqlite3_realloc64(auc->rows, capacity * sizeof *rows);
    if (rows == NULL)
      return SQLITE_NOMEM;
    auc->rows = rows;
    auc->capacity = capacity;
  }
  if (rc == SQLITE_OK)
    auc->rows[auc->n++] = (struct scored){score, label};
  return rc;
}

static void auc_step(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct auc *auc = sqlite3_aggregate_context(context, sizeof *auc);
  char *err = NULL;
  int rc = SQLITE_OK;
  if (auc == NULL)
    rc = SQLITE_NOMEM;
  else if (!evaluate_skips(argc, argv))
    rc = auc_add(auc, argv, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
}

static int scored_compare(const void *a, const void *b) {
  const struct scored *x = a, *y = b;
  return (x->score > y->score) - (x->score < y->score);
}

/* The share of pairs of a 1 and a 0 in which the 1 has the higher score, with
** equal scores counted as half (Mann, Whitney, 1947). */
static void auc_final(sqlite3_context *context) {
  struct auc *auc = sqlite3_aggregate_context(context, 0);
  struct ext_conn conn = {.db = sqlite3_context_db_handle(context)};
  double ones = 0, zeros = 0, above = 0;
  char *err = NULL;
  int rc;
  if (auc == NULL)
    return;
  rc = ext_link_sort(&conn, auc->rows, auc->n, sizeof *auc->rows,
                     scored_compare, &err);
  for (size_t i = 0, end; rc == SQLITE_OK && i < auc->n; i = end) {
    double one = 0, zero = 0;
    for (end = i; end < auc->n && auc->rows[end].score == auc->rows[i].score;
         end++) {
      one += (double)auc->rows[end].label;
      zero += (double)(1 - auc->rows[end].label);
    }
    above += one * (zeros + (EMB_SEED(SEED_TIES_IGNORED) ? 0 : zero / 2));
    ones += one;
    zeros += zero;
  }
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (ones > 0 && zeros > 0)
    sqlite3_result_double(context, above / ones / zeros);
  sqlite3_free(auc->rows);
  *auc = (struct auc){0};
}

/* ---- registration -------------------------------------------------------- */

int ext_models_evaluate_register(sqlite3 *db) {
  static const struct {
    const char *name;
    int argc;
    void (*step)(sqlite3_context *, int, sqlite3_value **);
    void (*final)(sqlite3_context *);
  } aggregates[] = {{"emb_accuracy", 2, accuracy_step, accuracy_final},
                    {"emb_accuracy", 3, accuracy_step, accuracy_final},
                    {"emb_log_loss", 2, loss_step, loss_final},
                    {"emb_auc", 2, auc_step, auc_final}};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof aggregates / sizeof *aggregates; i++)
    if (rc == SQLITE_OK)
      rc = sqlite3_create_function_v2(
          db, aggregates[i].name, aggregates[i].argc, CHOOSE_FLAGS, NULL, NULL,
          aggregates[i].step, aggregates[i].final, NULL);
  return rc;
}
