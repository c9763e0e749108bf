/* SPDX-License-Identifier: MIT
**
** inform.c -- gives positions to samples that a pipeline has not seen yet.
**
** A sample of the source is new if it is not in sample_state.  If the pipeline
** limits how late a sample may be (`lookback`), samples older than the newest
** one less `lookback` are ignored.  Positions follow timestamp and key, so the
** same samples get the same positions in every run.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

static const char inform_sql[] =
    "INSERT INTO {sample_state}(pipeline, position, sample_key, timestamp, "
    "label)"
    " SELECT :pipeline, :seen + row_number() OVER (ORDER BY timestamp, key),"
    " key, timestamp, label FROM %s AS sample WHERE %s%s";

/* No position is given twice, even if the user has deleted samples. */
static const char inform_seen_sql[] =
    "SELECT max(coalesce((SELECT max(position) FROM {sample_state}"
    "   WHERE pipeline = :pipeline), 0),"
    " coalesce((SELECT max(position) FROM {decision}"
    "   WHERE pipeline = :pipeline), 0))";

static const char inform_recent_sql[] =
    "timestamp >= (SELECT newest - lookback FROM {pipeline}"
    " WHERE pipeline = :pipeline)";

/* The first run omits this test: all samples are new.  The plus removes the
** affinity of the source's key.  With an affinity, the index on sample_key, a
** column without one, would not be used. */
static const char inform_unseen_sql[] =
    " AND NOT EXISTS(SELECT 1 FROM {sample_state} AS s"
    " WHERE s.pipeline = :pipeline AND s.sample_key = +sample.key)";

static const char inform_newest_sql[] =
    "UPDATE {pipeline} SET newest = max(coalesce(newest, -9e999),"
    " (SELECT max(timestamp) FROM {sample_state}"
    "   WHERE pipeline = :pipeline AND position > :seen))"
    " WHERE pipeline = :pipeline";

/* SQLite's message names our table, but the user wrote a source. */
static int inform_error(const struct ext_pipeline *pipeline, int rc,
                        char **err) {
  const char *why = NULL;
  switch (rc == SQLITE_CONSTRAINT ? sqlite3_extended_errcode(pipeline->db)
                                  : SQLITE_OK) {
  case SQLITE_CONSTRAINT_UNIQUE:
    why = "a key occurs more than once";
    break;
  case SQLITE_CONSTRAINT_NOTNULL:
    why = "a key or a timestamp is NULL";
    break;
  case SQLITE_CONSTRAINT_CHECK:
    why = "a timestamp is not a number";
    break;
  }
  if (why) {
    sqlite3_free(*err);
    *err = NULL;
    ext_error(err, rc, "%s", why);
  }
  return ext_pipeline_error(err, rc, "samples of pipeline %s", pipeline->name);
}

int ext_pipeline_inform(struct ext_pipeline *pipeline, sqlite3_int64 *n,
                        char **err) {
  struct ext_scope *scope = &pipeline->scope;
  char *source = ext_pipeline_source(pipeline->samples), *sql;
  sqlite3_int64 seen;
  int rc = ext_scope_number(scope, inform_seen_sql, &seen, err);
  *n = 0;
  sql = source ? sqlite3_mprintf(inform_sql, source,
                                 pipeline->looks_back ? inform_recent_sql : "1",
                                 seen ? inform_unseen_sql : "")
               : NULL;
  sqlite3_free(source);
  if (rc == SQLITE_OK && sql == NULL)
    rc = SQLITE_NOMEM;
  ext_scope_integer(scope, "seen", seen);
  if (rc == SQLITE_OK) {
    rc = ext_scope_run(scope, sql, err);
    *n = rc == SQLITE_OK ? sqlite3_changes64(pipeline->db) : 0;
    rc = inform_error(pipeline, rc, err);
  }
  sqlite3_free(sql);
  if (rc == SQLITE_OK && *n)
    rc = ext_scope_run(scope, inform_newest_sql, err);
  return rc;
}
