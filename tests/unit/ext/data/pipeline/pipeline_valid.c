/* SPDX-License-Identifier: MIT
**
** pipeline_valid.c -- proofs that the assertions of ext/data/pipeline fire.
*/
#include "sql_help.h"
#include "death.h"

#include "ext/data/pipeline/pipeline.h"

#include <unistd.h>

/* As much of sql/examples/modyn/schema.sql as a pipeline is loaded from. */
static const char tables[] =
    "CREATE TABLE pipeline(pipeline INTEGER PRIMARY KEY, name, samples,"
    " features, predictions, trigger_policy, selection_policy,"
    " evaluation_policy, seed, partition_size, lookback, newest);"
    "INSERT INTO pipeline(pipeline, name, seed) VALUES(7, 'p', 3)";

static struct ext_conn conn;
static struct ext_pipeline pipeline;

static int open_pipeline(void) {
  sqlite3_stmt *name = NULL;
  char *err = NULL;
  conn.db = sql_connect(":memory:", 0);
  conn.process = getpid();
  if (!CHECK(conn.db != NULL) || !CHECK(sql_runs(conn.db, tables)) ||
      !CHECK_EQ_INT(sqlite3_prepare_v2(conn.db, "SELECT 'p'", -1, &name, NULL),
                    SQLITE_OK))
    return 0;
  CHECK_EQ_INT(sqlite3_step(name), SQLITE_ROW);
  CHECK_EQ_INT(ext_pipeline_load(&conn, sqlite3_column_value(name, 0), NULL,
                                 &pipeline, &err),
               SQLITE_OK);
  sqlite3_finalize(name);
  return CHECK_EQ_INT(pipeline.id, 7);
}

static void close_pipeline(void) {
  ext_pipeline_free(&pipeline);
  CHECK_EQ_INT(sqlite3_close(conn.db), SQLITE_OK);
}

TEST(the_scope) {
  struct ext_scope *scope = &pipeline.scope;
  sqlite3_stmt *statement;
  char *err = NULL;
  if (!open_pipeline())
    return;
  ext_scope_text(scope, "member", "0.1");
  ext_scope_real(scope, "value", 0.5);
  ext_scope_text(scope, "reason", NULL);
  CHECK(ext_scope_valid(scope));
  CHECK_FIRES(scope->db = NULL; ext_scope_valid(scope));
  CHECK_FIRES(scope->n = EXT_SCOPE_MAX + 1; ext_scope_valid(scope));
  CHECK_FIRES(scope->given[0].type = SQLITE_BLOB; ext_scope_valid(scope));
  CHECK_FIRES(scope->given[0].type = SQLITE_TEXT; ext_scope_valid(scope));
  CHECK_FIRES(scope->given[0].name = "seed"; ext_scope_valid(scope));
  CHECK_FIRES(scope->given[2].type = SQLITE_NULL;
              ext_scope_prepare(scope, "SELECT 1", &statement, NULL, &err));
  CHECK_FIRES(char names[EXT_SCOPE_MAX + 1][8];
              for (int i = 0; i <= EXT_SCOPE_MAX; i++) {
                sqlite3_snprintf(8, names[i], "n%d", i);
                ext_scope_integer(scope, names[i], i);
              });
  close_pipeline();
}

TEST(the_pipeline) {
  char *err = NULL;
  if (!open_pipeline())
    return;
  CHECK(ext_pipeline_valid(&pipeline));
  CHECK_FIRES(pipeline.db = NULL; ext_pipeline_valid(&pipeline));
  CHECK_FIRES(pipeline.scope.prefix = "x"; ext_pipeline_valid(&pipeline));
  CHECK_FIRES(pipeline.scope.n = 1; ext_pipeline_valid(&pipeline));
  CHECK_FIRES(pipeline.id = 8; ext_pipeline_valid(&pipeline));
  CHECK_FIRES(pipeline.id = 8; ext_pipeline_begin(&pipeline, &err));
  CHECK_EQ_INT(ext_pipeline_begin(&pipeline, &err), SQLITE_OK);
  CHECK_FIRES(pipeline.id = 8; ext_pipeline_end(&pipeline, SQLITE_OK, &err));
  CHECK_EQ_INT(ext_pipeline_end(&pipeline, SQLITE_OK, &err), SQLITE_OK);
  close_pipeline();
}

TEST(the_answers) {
  struct ext_question question = {
      .first = 1, .evaluated = 4, .last = 9, .member = ""};
  struct ext_answer answer = {.verdict = EXT_YES, .position = 6, .reason = "r"};
  struct ext_answer none = {0};
  CHECK(ext_answer_valid(&question, &answer));
  CHECK(ext_answer_valid(&question, &none));
  CHECK_FIRES(answer.verdict = (enum ext_verdict)4;
              ext_answer_valid(&question, &answer));
  CHECK_FIRES(answer.reason = NULL; ext_answer_valid(&question, &answer));
  CHECK_FIRES(none.reason = "r"; ext_answer_valid(&question, &none));
  CHECK_FIRES(answer.position = 4; ext_answer_valid(&question, &answer));
  CHECK_ALL_FIRED("ext/data/pipeline/pipeline_valid.c");
}

TEST(the_calls) {
  struct ext_asker asker = {.pipeline = &pipeline};
  struct ext_question question = {.last = 9, .member = ""};
  struct ext_answer answer = {0};
  struct ext_policy policy = {.kind = "trigger"};
  sqlite3_stmt *rows = NULL;
  sqlite3_int64 place = 0;
  char *err = NULL;
  if (!open_pipeline())
    return;
  CHECK_FIRES(answer.verdict = EXT_NO;
              ext_ask(&asker, "{}", &question, &answer, &err));
  CHECK_FIRES(question.member = NULL;
              ext_ask(&asker, "{}", &question, &answer, &err));
  CHECK_FIRES(ext_policy_prepare(&pipeline, &policy, &rows, NULL, &err));
  CHECK_EQ_INT(
      sqlite3_prepare_v2(conn.db, "SELECT 1 AS sample_key", -1, &rows, NULL),
      SQLITE_OK);
  CHECK_FIRES(
      ext_take_rows(&pipeline, rows, "SELECT :place, :key", &place, &err));
  sqlite3_finalize(rows);
  close_pipeline();
}
