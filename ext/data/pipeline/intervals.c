/* SPDX-License-Identifier: MIT
**
** intervals.c -- emb_evaluation_intervals(pipeline [, prefix]).
**
** Writes the times at which models should be evaluated, by the pipeline's
** evaluation policy, into evaluation_interval.  Existing intervals stay, with
** their measurements.  Returns the number of new intervals.
**
** A policy's SELECT has the columns name, begins, ends and, where an interval
** is for one model, model.  :first_timestamp and :last_timestamp are those of
** the samples seen.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

/* A UNIQUE constraint would not do: it treats all NULL models as different. */
static const char interval_sql[] =
    "INSERT INTO {evaluation_interval}(pipeline, name, model, begins, ends)"
    " SELECT :pipeline, name, model, begins, ends FROM (%s\n) AS i"
    " WHERE NOT EXISTS(SELECT 1 FROM {evaluation_interval} e WHERE"
    "  e.pipeline = :pipeline AND e.model IS i.model AND e.begins = i.begins"
    "  AND e.ends = i.ends)";

/* One policy or a list of policies. */
static const char interval_policies_sql[] =
    "SELECT value FROM json_each(CASE json_type(:json) WHEN 'array' THEN :json"
    " ELSE json_array(json(:json)) END)";

static int interval_times(struct ext_pipeline *pipeline, char **err) {
  sqlite3_stmt *row = NULL;
  int rc = ext_scope_prepare(&pipeline->scope,
                             "SELECT min(timestamp), max(timestamp) FROM "
                             "{sample_state} WHERE pipeline = :pipeline",
                             &row, NULL, err);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(row);
    rc = rc == SQLITE_ROW ? SQLITE_OK : ext_sql_error(err, pipeline->db, rc);
  }
  for (int i = 0; i < 2 && rc == SQLITE_OK; i++) {
    const char *name = i ? "last_timestamp" : "first_timestamp";
    if (sqlite3_column_type(row, i) == SQLITE_INTEGER)
      ext_scope_integer(&pipeline->scope, name, sqlite3_column_int64(row, i));
    else if (sqlite3_column_type(row, i) == SQLITE_FLOAT)
      ext_scope_real(&pipeline->scope, name, sqlite3_column_double(row, i));
    else
      ext_scope_text(&pipeline->scope, name, NULL);
  }
  sqlite3_finalize(row);
  return rc;
}

static int interval_policy(struct ext_pipeline *pipeline, const char *json,
                           sqlite3_int64 *n, char **err) {
  struct ext_policy policy = {0};
  char *sql = NULL;
  int rc = ext_policy_read(pipeline, "interval", json, &policy, err);
  if (rc == SQLITE_OK) {
    pipeline->scope.options = policy.options;
    sql = sqlite3_mprintf(interval_sql, policy.sql);
    rc = sql ? ext_scope_run(&pipeline->scope, sql, err) : SQLITE_NOMEM;
    *n += rc == SQLITE_OK ? sqlite3_changes64(pipeline->db) : 0;
    rc = ext_pipeline_error(err, rc, "pipeline %s, interval policy %s",
                            pipeline->name, policy.name);
  }
  sqlite3_free(sql);
  ext_policy_free(&policy);
  return rc;
}

static int interval_run(struct ext_pipeline *pipeline, sqlite3_int64 *n,
                        char **err) {
  struct ext_scope scope = {.db = pipeline->db, .prefix = pipeline->prefix};
  sqlite3_stmt *row = NULL;
  int rc = interval_times(pipeline, err);
  if (rc == SQLITE_OK && pipeline->evaluation_policy == NULL)
    rc = ext_error(err, SQLITE_ERROR, "pipeline %s has no evaluation_policy",
                   pipeline->name);
  ext_scope_text(&scope, "json", pipeline->evaluation_policy);
  if (rc == SQLITE_OK)
    rc = ext_scope_prepare(&scope, interval_policies_sql, &row, NULL, err);
  while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
    const char *json;
    rc = ext_column_text(row, 0, &json);
    if (rc == SQLITE_OK)
      rc = interval_policy(pipeline, json ? json : "null", n, err);
  }
  if (rc == SQLITE_DONE)
    rc = SQLITE_OK;
  else if (rc != SQLITE_OK && *err == NULL)
    rc = ext_sql_error(err, pipeline->db, rc);
  sqlite3_finalize(row);
  return rc;
}

void ext_fn_intervals(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct ext_pipeline pipeline;
  sqlite3_int64 n = 0;
  char *err = NULL;
  int rc = ext_pipeline_load(ext_fn_conn(context), argv[0],
                             argc > 1 ? argv[1] : NULL, &pipeline, &err);
  if (rc == SQLITE_OK)
    rc = ext_pipeline_begin(&pipeline, &err);
  if (rc == SQLITE_OK) {
    rc = interval_run(&pipeline, &n, &err);
    rc = ext_pipeline_end(&pipeline, rc, &err);
  }
  ext_pipeline_free(&pipeline);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else
    sqlite3_result_int64(context, n);
}
