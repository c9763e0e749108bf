/* SPDX-License-Identifier: MIT
**
** downsample.c -- emb_downsample(pipeline, trigger [, epoch]): chooses the part
** of a selection that an epoch is trained on, from the model's results for the
** samples.
**
** WHICH     `downsampling` in the selection policy is one policy or a list.
**           Number i of a list is used up to the i-th of its `thresholds`,
**           where triggers count from the end of the warm-up.  In the warm-up,
**           and without a policy, the epoch gets the complete selection.
** TEXT      A policy's SELECT returns place and sample_key of the rows of
**           `selection`, and one of
**             share      samples are drawn one by one without replacement, with
**                        a probability in proportion to their share, and get
**                        the weight 1 / (n p); or
**             priority   the samples with the lowest priority are taken, with
**                        weight 1.
**           A policy that chooses itself returns sample_key and weight for
**           :size of the places from :from up to, but not including, :to.
** DRAWING   Taking samples in ascending order of emb_exponential() / share is
**           the same as drawing one by one (Efraimidis and Spirakis 2006).
** BATCHES   Without batch_size (sample, then batch) all samples are one batch.
**           With it (batch, then sample) each batch has batch_size samples, in
**           the order of the selection.  The order stays.
** EPOCHS    A new choice is made every `period` epochs; 0: only once.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static const char down_insert_sql[] =
    "INSERT INTO {downsampling}"
    " VALUES(:pipeline, :trigger, :epoch, :place, :key, :weight)";

static const char down_all_sql[] =
    "SELECT sample_key, weight FROM {selection} WHERE pipeline = :pipeline"
    " AND trigger = :trigger ORDER BY place";

/* The options' JSON object, or NULL: none. */
static const char down_which_sql[] =
    "SELECT CASE WHEN :trigger < :warmup_triggers THEN NULL"
    " WHEN json_type(:downsampling) = 'object' THEN :downsampling"
    " ELSE (SELECT value FROM json_each(:downsampling) WHERE key ="
    "   (SELECT count(*) FROM json_each(:thresholds) WHERE value <="
    "     :trigger - :warmup_triggers)) END";

static const char down_thresholds_sql[] =
    "SELECT CASE WHEN json_type(:downsampling) = 'array' AND"
    "  (SELECT count(*) FROM json_each(:downsampling)) <>"
    "  coalesce((SELECT count(*) FROM json_each(:thresholds)), 0) + 1"
    "  THEN 'a list of downsampling needs one threshold less than it has "
    "policies'"
    " WHEN json_type(:downsampling) IS NOT 'array' AND :thresholds IS NOT NULL"
    "  THEN 'thresholds are for a list of downsampling'"
    " WHEN EXISTS(SELECT 1 FROM json_each(:thresholds) a"
    "   WHERE a.type <> 'integer' OR a.value <= coalesce((SELECT b.value"
    "     FROM json_each(:thresholds) b WHERE b.key = a.key - 1), 0))"
    "  THEN 'thresholds must be integers from 1 on, each above the last' END";

/* ---- checking ------------------------------------------------------------ */

/* Checks that each batch's share is a whole number. */
static int check_batches(struct ext_pipeline *pipeline,
                         const struct ext_policy *policy, char **err) {
  static const char sql[] =
      "SELECT 'batch_size * share / share_max must be a whole number from 1 on'"
      " WHERE :batch_size IS NOT NULL AND (:batch_size * :share < :share_max"
      " OR abs(:batch_size * :share / (:share_max * 1.0)"
      "   - round(:batch_size * :share / (:share_max * 1.0))) > 1e-9)";
  struct ext_scope scope = {.db = pipeline->db,
                            .prefix = pipeline->prefix,
                            .options = policy->options};
  char *wrong = NULL;
  int rc = ext_scope_string(&scope, sql, &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "pipeline %s, downsampling policy %s: %s",
                   pipeline->name, policy->name, wrong);
  sqlite3_free(wrong);
  return rc;
}

static int check_downsampling(struct ext_pipeline *pipeline, const char *json,
                              char **err) {
  struct ext_policy policy = {0};
  int rc = ext_policy_read(pipeline, "downsampling", json, &policy, err);
  if (rc == SQLITE_OK)
    rc = check_batches(pipeline, &policy, err);
  ext_policy_free(&policy);
  return rc;
}

int ext_downsampling_check(struct ext_pipeline *pipeline,
                           const struct ext_policy *selection, char **err) {
  static const char each[] =
      "SELECT value FROM json_each(CASE json_type(:downsampling)"
      " WHEN 'object' THEN json_array(json(:downsampling))"
      " ELSE :downsampling END)";
  struct ext_scope scope = {.db = pipeline->db,
                            .prefix = pipeline->prefix,
                            .options = selection->options};
  sqlite3_stmt *row = NULL;
  char *wrong = NULL;
  int rc = ext_scope_string(&scope, down_thresholds_sql, &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "pipeline %s, selection policy %s: %s",
                   pipeline->name, selection->name, wrong);
  sqlite3_free(wrong);
  if (rc == SQLITE_OK)
    rc = ext_scope_prepare(&scope, each, &row, NULL, err);
  while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
    const char *json;
    rc = ext_column_text(row, 0, &json);
    if (rc == SQLITE_OK)
      rc = check_downsampling(pipeline, json ? json : "null", err);
  }
  if (rc == SQLITE_DONE)
    rc = SQLITE_OK;
  else if (rc != SQLITE_OK && *err == NULL)
    rc = ext_sql_error(err, pipeline->db, rc);
  sqlite3_finalize(row);
  return rc;
}

/* ---- policies that give a share or a priority ---------------------------- */

/* The form of a policy; its columns determine it. */
enum down_form { DOWN_SHARE, DOWN_PRIORITY, DOWN_CHOICE };

static enum down_form down_form(sqlite3_stmt *rows) {
  if (ext_policy_column(rows, "share") >= 0)
    return DOWN_SHARE;
  return ext_policy_column(rows, "priority") >= 0 ? DOWN_PRIORITY : DOWN_CHOICE;
}

/* An order for each form.  A share of 0 comes last. */
#define DOWN_DRAW                                                              \
  "CASE WHEN share > 0 THEN emb_exponential(:seed, sample_key, :stream) "      \
  "/ share ELSE 9e999 END"

static const char *const down_order[] = {DOWN_DRAW, "priority"};
static const char *const down_measure[] = {"share", "priority"};
/* A sample without a share comes only after all samples that have a share. */
static const char *const down_weight[] = {
    "CASE WHEN share > 0 THEN total / (n * share) ELSE 1.0 END", "1.0"};

/* %1 order, %2 weight, %3 the policy, %4 measure */
static const char down_one_sql[] =
    "SELECT sample_key, weight FROM (SELECT place, sample_key, %s AS weight"
    " FROM (SELECT *, :total AS total, :n AS n FROM (%s\n))"
    " ORDER BY %s, place LIMIT :size) ORDER BY place";

static const char down_batches_sql[] =
    "SELECT sample_key, %s AS weight FROM (SELECT *,"
    " sum(%s) OVER batch AS total, count(*) OVER batch AS n,"
    " row_number() OVER (PARTITION BY place / :batch_size"
    "   ORDER BY draw, place) AS rank"
    " FROM (SELECT *, %s AS draw FROM (%s\n))"
    " WINDOW batch AS (PARTITION BY place / :batch_size))"
    " WHERE rank <= max(1, CAST(n * :share / (:share_max * 1.0) + 1e-9"
    "   AS INTEGER)) ORDER BY place";

/* Checks that all samples have a numeric measure, and no share is below 0.
** Also computes :total. */
static const char down_check_sql[] =
    "SELECT total(%s), max(CASE WHEN typeof(%s) NOT IN ('integer', 'real')"
    "%s THEN sample_key END) FROM (%s\n)";

static int down_check(struct ext_pipeline *pipeline,
                      const struct ext_policy *policy, enum down_form form,
                      char **err) {
  static const char share[] = " OR share < 0 OR share > 1e300";
  sqlite3_stmt *row = NULL;
  char *sql =
      sqlite3_mprintf(down_check_sql, down_measure[form], down_measure[form],
                      form == DOWN_SHARE ? share : "", policy->sql);
  int rc = sql ? ext_scope_prepare(&pipeline->scope, sql, &row, NULL, err)
               : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(row);
    rc = rc == SQLITE_ROW ? SQLITE_OK : ext_sql_error(err, pipeline->db, rc);
  }
  if (rc == SQLITE_OK)
    ext_scope_real(&pipeline->scope, "total", sqlite3_column_double(row, 0));
  if (rc == SQLITE_OK && sqlite3_column_type(row, 1) != SQLITE_NULL)
    rc = ext_error(err, SQLITE_ERROR, "sample %s has no usable score",
                   sqlite3_column_text(row, 1));
  sqlite3_finalize(row);
  return rc;
}

/* Wraps the policy's text in a SELECT that orders its rows and takes some. */
static int down_ranked(struct ext_pipeline *pipeline,
                       const struct ext_policy *policy, enum down_form form,
                       int batches, sqlite3_int64 *place, char **err) {
  sqlite3_stmt *rows = NULL;
  char *sql = NULL;
  int rc = down_check(pipeline, policy, form, err);
  if (rc != SQLITE_OK)
    return rc;
  sql = batches
            ? sqlite3_mprintf(down_batches_sql, down_weight[form],
                              down_measure[form], down_order[form], policy->sql)
            : sqlite3_mprintf(down_one_sql, down_weight[form], policy->sql,
                              down_order[form]);
  rc = sql ? ext_scope_prepare(&pipeline->scope, sql, &rows, NULL, err)
           : SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_take_rows(pipeline, rows, down_insert_sql, place, err);
  sqlite3_finalize(rows);
  sqlite3_free(sql);
  return rc;
}

/* ---- policies that choose themselves ------------------------------------- */

static int down_choice(struct ext_pipeline *pipeline, const char *text,
                       sqlite3_int64 *place, char **err) {
  sqlite3_stmt *rows = NULL;
  int rc = ext_scope_prepare(&pipeline->scope, text, &rows, NULL, err);
  if (rc == SQLITE_OK)
    rc = ext_take_rows(pipeline, rows, down_insert_sql, place, err);
  sqlite3_finalize(rows);
  return rc;
}

/* Runs the policy once for each batch of `batch` places. */
static int down_choices(struct ext_pipeline *pipeline, const char *text,
                        sqlite3_int64 batch, sqlite3_int64 n,
                        sqlite3_int64 *place, char **err) {
  struct ext_scope *scope = &pipeline->scope;
  int rc = SQLITE_OK;
  for (sqlite3_int64 from = 0; from < n && rc == SQLITE_OK; from += batch) {
    sqlite3_int64 to = n - from < batch ? n : from + batch, size = 0;
    rc = ext_take_size(scope, to - from, &size, err);
    ext_scope_integer(scope, "from", from);
    ext_scope_integer(scope, "to", to);
    ext_scope_integer(scope, "size", size);
    if (rc == SQLITE_OK)
      rc = down_choice(pipeline, text, place, err);
  }
  return rc;
}

/* ---- one trigger, one epoch ---------------------------------------------- */

static int down_by_policy(struct ext_pipeline *pipeline, const char *json,
                          sqlite3_int64 n, sqlite3_int64 *place, char **err) {
  struct ext_scope *scope = &pipeline->scope;
  struct ext_policy policy = {0};
  struct ext_given batch = {0};
  sqlite3_stmt *rows = NULL;
  sqlite3_int64 size = 0;
  enum down_form form = DOWN_CHOICE;
  int rc = ext_policy_read(pipeline, "downsampling", json, &policy, err);
  scope->options = policy.options;
  if (rc == SQLITE_OK)
    rc = ext_scope_option(scope, "batch_size", &batch, err);
  if (rc == SQLITE_OK)
    rc = ext_take_size(scope, n, &size, err);
  ext_scope_integer(scope, "size", size);
  if (rc == SQLITE_OK)
    rc = ext_policy_prepare(pipeline, &policy, &rows, NULL, err);
  if (rc == SQLITE_OK)
    form = down_form(rows);
  sqlite3_finalize(rows);
  if (rc == SQLITE_OK) {
    rc = form == DOWN_CHOICE
             ? down_choices(pipeline, policy.sql,
                            batch.integer ? batch.integer : n, n, place, err)
             : down_ranked(pipeline, &policy, form, batch.integer != 0, place,
                           err);
    rc = ext_pipeline_error(err, rc, "pipeline %s, downsampling policy %s",
                            pipeline->name, policy.name);
  }
  ext_policy_free(&policy);
  return rc;
}

/* Sets :n, the number of places in the trigger's selection. */
static int down_find_trigger(struct ext_pipeline *pipeline,
                             sqlite3_int64 trigger, sqlite3_int64 *n,
                             char **err) {
  struct ext_scope *scope = &pipeline->scope;
  int rc = ext_scope_number(scope,
                            "SELECT count(*) FROM {trigger} WHERE "
                            "pipeline = :pipeline AND trigger = :trigger",
                            n, err);
  if (rc == SQLITE_OK && *n == 0)
    rc = ext_error(err, SQLITE_ERROR, "pipeline %s has no trigger %lld",
                   pipeline->name, (long long)trigger);
  /* Counts places, not rows: the user may have removed some rows. */
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope,
                          "SELECT coalesce(max(place) + 1, 0) FROM {selection} "
                          "WHERE pipeline = :pipeline AND trigger = :trigger",
                          n, err);
  ext_scope_integer(scope, "n", *n);
  return rc;
}

/* The epoch of the last choice, at or before this one, by `period`. */
static int down_epoch(const struct ext_scope *scope, const char *json,
                      sqlite3_int64 *epoch, char **err) {
  struct ext_scope with = *scope;
  with.options = json;
  return ext_scope_number(&with,
                          "SELECT CASE coalesce(:period, 1) WHEN 0 THEN 0 ELSE "
                          ":epoch - :epoch % coalesce(:period, 1) END",
                          epoch, err);
}

static int down_run(struct ext_pipeline *pipeline, sqlite3_int64 trigger,
                    sqlite3_int64 epoch, sqlite3_int64 *count, char **err) {
  static const char delete_sql[] =
      "DELETE FROM {downsampling} WHERE pipeline = :pipeline AND "
      "trigger = :trigger AND epoch = :epoch";
  struct ext_scope *scope = &pipeline->scope;
  struct ext_policy selection = {0};
  sqlite3_int64 n = 0;
  char *json = NULL;
  int rc = down_find_trigger(pipeline, trigger, &n, err);
  if (rc == SQLITE_OK)
    rc = ext_policy_read(pipeline, "selection", pipeline->selection_policy,
                         &selection, err);
  if (rc == SQLITE_OK)
    rc = ext_downsampling_check(pipeline, &selection, err);
  scope->options = selection.options;
  if (rc == SQLITE_OK)
    rc = ext_scope_string(scope, down_which_sql, &json, err);
  if (rc == SQLITE_OK)
    rc = down_epoch(scope, json, &epoch, err);
  ext_scope_integer(scope, "epoch", epoch);
  ext_scope_integer(scope, "stream", -1 - (trigger * 1000000 + epoch));
  if (rc == SQLITE_OK)
    rc = ext_scope_run(scope, delete_sql, err);
  *count = 0;
  if (rc == SQLITE_OK)
    rc = json ? down_by_policy(pipeline, json, n, count, err)
              : down_choice(pipeline, down_all_sql, count, err);
  sqlite3_free(json);
  ext_policy_free(&selection);
  return rc;
}

static int down_arguments(struct ext_pipeline *pipeline, int argc,
                          sqlite3_value **argv, int64_t *trigger,
                          int64_t *epoch, char **err) {
  int rc = ext_key_from_value(argv[1], "trigger", trigger, err);
  *epoch = 0;
  if (rc == SQLITE_OK && argc > 2)
    rc = ext_key_from_value(argv[2], "epoch", epoch, err);
  if (rc == SQLITE_OK && *epoch < 0)
    rc = ext_error(err, SQLITE_ERROR, "epoch must be at least 0, got %lld",
                   (long long)*epoch);
  ext_scope_integer(&pipeline->scope, "trigger", *trigger);
  ext_scope_integer(&pipeline->scope, "epoch", *epoch);
  return rc;
}

/* Returns the number of samples. */
void ext_fn_downsample(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_pipeline pipeline;
  int64_t trigger, epoch;
  sqlite3_int64 count = 0;
  char *err = NULL;
  int rc = ext_pipeline_load(ext_fn_conn(context), argv[0],
                             argc > 3 ? argv[3] : NULL, &pipeline, &err);
  if (rc == SQLITE_OK)
    rc = down_arguments(&pipeline, argc, argv, &trigger, &epoch, &err);
  if (rc == SQLITE_OK)
    rc = ext_pipeline_begin(&pipeline, &err);
  if (rc == SQLITE_OK) {
    rc = down_run(&pipeline, trigger, epoch, &count, &err);
    rc = ext_pipeline_end(&pipeline, rc, &err);
  }
  ext_pipeline_free(&pipeline);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else
    sqlite3_result_int64(context, count);
}
