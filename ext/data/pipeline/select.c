/* SPDX-License-Identifier: MIT
**
** select.c -- chooses what a trigger is trained on: writes the rows of the
** selection policy, in their order, into `selection`, and then the partitions.
**
** CANDIDATES  are the samples with positions from :low to :high: all so far, or
**             those of this trigger and of the last `tail` triggers before it.
**             :candidates is their number, and :size how many the policy takes.
** RANDOM      :seed is the pipeline's and :stream is the trigger's number.
** AFTERWARDS  Statements after the policy's SELECT run last.  With them a
**             policy records in sample_state what it has taken, if it needs
**             that later.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

static const char select_insert_sql[] =
    "INSERT INTO {selection} VALUES(:pipeline, :trigger, :place, :key, "
    ":weight)";

static const char select_low_sql[] =
    "SELECT CASE WHEN :tail IS NULL THEN 1 ELSE"
    " (SELECT min(first_position) FROM {trigger} WHERE pipeline = :pipeline"
    "   AND trigger >= :trigger - :tail) END";

static const char select_high_sql[] =
    "SELECT last_position FROM {trigger}"
    " WHERE pipeline = :pipeline AND trigger = :trigger";

/* Not high - low + 1: the user may have deleted samples. */
static const char select_candidates_sql[] =
    "SELECT count(*) FROM {sample_state}"
    " WHERE pipeline = :pipeline AND position BETWEEN :low AND :high";

/* The first triggers are trained on all samples that `tail` allows. */
static const char select_warmup_sql[] =
    "SELECT json_object('policy', 'new_data', 'tail', :tail)"
    " WHERE :trigger < :warmup_triggers";

static const char select_count_sql[] =
    "UPDATE {trigger} SET candidates = :candidates, selected = :count"
    " WHERE pipeline = :pipeline AND trigger = :trigger";

static const char select_partitions_sql[] =
    "WITH RECURSIVE p(i) AS (SELECT 0 WHERE :count > 0"
    "  UNION ALL SELECT i + 1 FROM p WHERE (i + 1) * :partition_size < :count)"
    "INSERT INTO {partition} SELECT :pipeline, :trigger, i, i * "
    ":partition_size,"
    " min(:partition_size, :count - i * :partition_size) FROM p";

/* Reads the pipeline's policy, or the warm-up's. */
static int select_policy(struct ext_pipeline *pipeline,
                         struct ext_policy *policy, char **err) {
  char *warmup = NULL;
  int rc = ext_policy_read(pipeline, "selection", pipeline->selection_policy,
                           policy, err);
  pipeline->scope.options = policy->options;
  if (rc == SQLITE_OK)
    rc = ext_scope_string(&pipeline->scope, select_warmup_sql, &warmup, err);
  if (rc == SQLITE_OK && warmup) {
    ext_policy_free(policy);
    rc = ext_policy_read(pipeline, "selection", warmup, policy, err);
  }
  sqlite3_free(warmup);
  return rc;
}

/* Sets :low, :high, :candidates, :size and :stream. */
static int select_range(struct ext_scope *scope, sqlite3_int64 trigger,
                        char **err) {
  sqlite3_int64 low, high = 0, candidates = 0, size = 0;
  int rc = ext_scope_number(scope, select_low_sql, &low, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, select_high_sql, &high, err);
  ext_scope_integer(scope, "low", low);
  ext_scope_integer(scope, "high", high);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, select_candidates_sql, &candidates, err);
  if (rc == SQLITE_OK)
    rc = ext_take_size(scope, candidates, &size, err);
  ext_scope_integer(scope, "candidates", candidates);
  ext_scope_integer(scope, "size", size);
  ext_scope_integer(scope, "stream", trigger);
  return rc;
}

/* Runs the statements after the policy's SELECT. */
static int select_then(struct ext_pipeline *pipeline, const char *then,
                       char **err) {
  int rc = SQLITE_OK;
  while (then && *then && rc == SQLITE_OK) {
    sqlite3_stmt *statement = NULL;
    rc = ext_scope_prepare(&pipeline->scope, then, &statement, &then, err);
    while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW)
      rc = SQLITE_OK;
    if (rc == SQLITE_DONE)
      rc = SQLITE_OK;
    else if (*err == NULL)
      rc = ext_sql_error(err, pipeline->db, rc);
    sqlite3_finalize(statement);
  }
  return rc;
}

static int select_rows(struct ext_pipeline *pipeline,
                       const struct ext_policy *policy, sqlite3_int64 *count,
                       char **err) {
  sqlite3_stmt *rows = NULL;
  char *then = NULL;
  int rc = ext_policy_prepare(pipeline, policy, &rows, &then, err);
  *count = 0;
  if (rc == SQLITE_OK) {
    rc = ext_take_rows(pipeline, rows, select_insert_sql, count, err);
    sqlite3_reset(rows);
    if (rc == SQLITE_OK)
      rc = select_then(pipeline, then, err);
    rc = ext_pipeline_error(err, rc, "pipeline %s, selection policy %s",
                            pipeline->name, policy->name);
  }
  sqlite3_finalize(rows);
  sqlite3_free(then);
  return rc;
}

int ext_pipeline_select(struct ext_pipeline *pipeline, sqlite3_int64 trigger,
                        char **err) {
  struct ext_scope *scope = &pipeline->scope;
  struct ext_policy policy = {0};
  sqlite3_int64 count = 0;
  int rc;
  ext_scope_integer(scope, "trigger", trigger);
  rc = select_policy(pipeline, &policy, err);
  scope->options = policy.options;
  if (rc == SQLITE_OK)
    rc = select_range(scope, trigger, err);
  if (rc == SQLITE_OK)
    rc = select_rows(pipeline, &policy, &count, err);
  ext_scope_integer(scope, "count", count);
  ext_scope_integer(scope, "partition_size", pipeline->partition_size);
  if (rc == SQLITE_OK)
    rc = ext_scope_run(scope, select_count_sql, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_run(scope, select_partitions_sql, err);
  ext_policy_free(&policy);
  return rc;
}
