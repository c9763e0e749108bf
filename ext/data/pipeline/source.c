/* SPDX-License-Identifier: MIT
**
** source.c -- reads a pipeline's row, and makes a call one transaction.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <stdarg.h>
#include <string.h>

#define PIPELINE_SAVEPOINT "emb_pipeline"

static const char pipeline_sql[] =
    "SELECT pipeline, name, samples, features, predictions, trigger_policy, "
    "selection_policy, evaluation_policy, seed, partition_size, "
    "lookback IS NOT NULL AND newest IS NOT NULL "
    "FROM {pipeline} WHERE pipeline = ?1 OR name = ?1";

/* Finds the tables, and prepares the SELECT of the pipeline's row. */
static int pipeline_prepare(struct ext_pipeline *pipeline, sqlite3_value *which,
                            sqlite3_value *prefix, sqlite3_stmt **row,
                            char **err) {
  char *sql = NULL;
  int rc = ext_tables_find(pipeline->db, prefix, &pipeline->prefix, err);
  pipeline->scope.prefix = pipeline->prefix;
  if (rc == SQLITE_OK)
    rc = ext_tables_expand(pipeline->prefix, pipeline_sql, &sql);
  if (rc == SQLITE_OK) {
    rc = sqlite3_prepare_v2(pipeline->db, sql, -1, row, NULL);
    if (rc == SQLITE_OK)
      rc = sqlite3_bind_value(*row, 1, which);
    rc = ext_sql_error(err, pipeline->db, rc);
  }
  sqlite3_free(sql);
  return rc;
}

static int pipeline_copy(sqlite3_stmt *row, int i, char **to) {
  const char *text;
  int rc = ext_column_text(row, i, &text);
  *to = NULL;
  if (rc != SQLITE_OK || text == NULL)
    return rc;
  *to = sqlite3_mprintf("%s", text);
  return *to ? SQLITE_OK : SQLITE_NOMEM;
}

static int pipeline_take(struct ext_pipeline *pipeline, sqlite3_stmt *row) {
  char **const texts[] = {&pipeline->name,
                          &pipeline->samples,
                          &pipeline->features,
                          &pipeline->predictions,
                          &pipeline->trigger_policy,
                          &pipeline->selection_policy,
                          &pipeline->evaluation_policy};
  int rc = SQLITE_OK;
  pipeline->id = sqlite3_column_int64(row, 0);
  for (int i = 0; i < 7 && rc == SQLITE_OK; i++)
    rc = pipeline_copy(row, i + 1, texts[i]);
  pipeline->partition_size = sqlite3_column_int64(row, 9);
  ext_scope_integer(&pipeline->scope, "pipeline", pipeline->id);
  ext_scope_integer(&pipeline->scope, "seed", sqlite3_column_int64(row, 8));
  pipeline->looks_back = sqlite3_column_int(row, 10);
  return rc;
}

static int pipeline_unknown(const struct ext_pipeline *pipeline,
                            sqlite3_value *which, char **err) {
  const char *text = (const char *)sqlite3_value_text(which);
  if (pipeline->prefix[0] == 0)
    return ext_error(err, SQLITE_ERROR, "no such pipeline: %s", text);
  return ext_error(err, SQLITE_ERROR, "no such pipeline in %spipeline: %s",
                   pipeline->prefix, text);
}

int ext_pipeline_load(struct ext_conn *conn, sqlite3_value *which,
                      sqlite3_value *prefix, struct ext_pipeline *pipeline,
                      char **err) {
  sqlite3_stmt *row = NULL;
  int type = sqlite3_value_type(which), rc;
  memset(pipeline, 0, sizeof *pipeline);
  pipeline->conn = conn;
  pipeline->db = pipeline->scope.db = conn->db;
  rc = ext_conn_check(conn, err);
  if (rc != SQLITE_OK)
    return rc;
  if (type != SQLITE_TEXT && type != SQLITE_INTEGER)
    return ext_error(err, SQLITE_MISMATCH,
                     "pipeline must be a name or a number, got %s",
                     ext_value_type_name(which));
  ext_conn_learn_encoding(conn);
  rc = pipeline_prepare(pipeline, which, prefix, &row, err);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW)
      rc = pipeline_take(pipeline, row);
    else if (rc == SQLITE_DONE)
      rc = pipeline_unknown(pipeline, which, err);
    else
      rc = ext_sql_error(err, conn->db, rc);
  }
  sqlite3_finalize(row);
  return rc;
}

void ext_pipeline_free(struct ext_pipeline *pipeline) {
  sqlite3_free(pipeline->prefix);
  sqlite3_free(pipeline->name);
  sqlite3_free(pipeline->samples);
  sqlite3_free(pipeline->features);
  sqlite3_free(pipeline->predictions);
  sqlite3_free(pipeline->trigger_policy);
  sqlite3_free(pipeline->selection_policy);
  sqlite3_free(pipeline->evaluation_policy);
}

char *ext_pipeline_source(const char *source) {
  static const char *const queries[] = {"SELECT", "WITH", "VALUES"};
  const char *at = text_space(source);
  for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
    if (sqlite3_strnicmp(at, queries[i], (int)strlen(queries[i])) == 0 &&
        text_name(at) == strlen(queries[i]))
      return sqlite3_mprintf("(%s\n)", source);
  return sqlite3_mprintf("%s", source);
}

/* ---- one transaction ----------------------------------------------------- */

int ext_pipeline_begin(struct ext_pipeline *pipeline, char **err) {
  emb_check(ext_pipeline_valid(pipeline));
  return ext_savepoint_begin(&pipeline->savepoint, pipeline->db,
                             PIPELINE_SAVEPOINT, err);
}

int ext_pipeline_end(struct ext_pipeline *pipeline, int rc, char **err) {
  emb_check(ext_pipeline_valid(pipeline));
  return ext_savepoint_end(&pipeline->savepoint, rc, err);
}

int ext_pipeline_error(char **err, int rc, const char *format, ...) {
  va_list args;
  char *where, *text = *err;
  if (rc == SQLITE_OK || text == NULL)
    return rc;
  va_start(args, format);
  where = sqlite3_vmprintf(format, args);
  va_end(args);
  if (where == NULL)
    return rc;
  *err = sqlite3_mprintf("%s: %s", where, text);
  sqlite3_free(where);
  sqlite3_free(text);
  return rc;
}
