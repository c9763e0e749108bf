/* SPDX-License-Identifier: MIT
**
** decide.c -- decides whether it is time to train, repeatedly until it is, and
** records each decision.
**
** STATE     is in the tables: the end of the last trigger, and the positions of
**           the last decision and the last sample.
** WARM-UP   `warmup_policy` makes the first `warmup_intervals` decisions.  The
**           policy's own answer is recorded for its criterion.
** SCOPE     Recorded values are bound in a copy of the pipeline's scope,
**           because a policy has options named `threshold` and `trigger`.
** WAITING   A policy can wait for something that does not exist yet:
**           predictions of the samples, or the time that training took.  The
**           reason is written into the pipeline's row, and the next run asks
**           the policy again.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

/* During the warm-up another policy decides, at the same position. */
static int decide_warmup(struct ext_asker *asker, const char *json,
                         const struct ext_question *question,
                         struct ext_answer *answer, char **err) {
  struct ext_question asked = {.first = question->first,
                               .evaluated = answer->position - 1,
                               .last = answer->position,
                               .member = "warmup",
                               .within = 1};
  struct ext_answer other = {0};
  int rc = ext_ask(asker, json, &asked, &other, err);
  if (rc != SQLITE_OK || other.verdict == EXT_WAITS) {
    if (other.verdict == EXT_WAITS)
      answer->verdict = EXT_WAITS;
    sqlite3_free(other.reason);
    return rc;
  }
  answer->verdict = other.verdict == EXT_YES ? EXT_YES : EXT_NO;
  sqlite3_free(answer->reason);
  answer->reason = sqlite3_mprintf("warm-up: %s",
                                   other.reason ? other.reason : "no trigger");
  sqlite3_free(other.reason);
  return answer->reason ? SQLITE_OK : SQLITE_NOMEM;
}

static int decide_root(struct ext_asker *asker,
                       const struct ext_question *question,
                       struct ext_answer *answer, char **err) {
  static const char sql[] =
      "SELECT json_extract(:json, '$.warmup_policy') WHERE "
      "json_extract(:json, '$.warmup_intervals') > (SELECT count(*) "
      "FROM {decision} WHERE pipeline = :pipeline)";
  struct ext_pipeline *pipeline = asker->pipeline;
  struct ext_scope scope;
  char *json = NULL;
  int rc = ext_ask(asker, pipeline->trigger_policy, question, answer, err);
  if (rc != SQLITE_OK || answer->verdict == EXT_NOTHING)
    return rc;
  scope = pipeline->scope;
  ext_scope_text(&scope, "json", pipeline->trigger_policy);
  rc = ext_scope_string(&scope, sql, &json, err);
  if (rc == SQLITE_OK && json)
    rc = decide_warmup(asker, json, question, answer, err);
  sqlite3_free(json);
  return rc;
}

/* The state of the pipeline, from its tables. */
static int decide_question(struct ext_pipeline *pipeline,
                           struct ext_question *question, char **err) {
  struct ext_scope *scope = &pipeline->scope;
  int rc = ext_scope_number(scope,
                            "SELECT max(last_position) FROM {trigger} WHERE "
                            "pipeline = :pipeline",
                            &question->first, err);
  question->first++;
  question->member = "";
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope,
                          "SELECT max(position) FROM {decision} WHERE "
                          "pipeline = :pipeline",
                          &question->evaluated, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope,
                          "SELECT max(position) FROM {sample_state} WHERE "
                          "pipeline = :pipeline",
                          &question->last, err);
  return rc;
}

static int decide_trigger(struct ext_pipeline *pipeline,
                          const struct ext_question *question,
                          const struct ext_answer *answer,
                          sqlite3_int64 *trigger, char **err) {
  static const char sql[] =
      "INSERT INTO {trigger} SELECT :pipeline, :trigger, :first, :through,"
      " coalesce(a, b), b, (julianday('now') - 2440587.5) * 86400.0, 0, 0"
      " FROM (SELECT (SELECT timestamp FROM {sample_state}"
      "   WHERE pipeline = :pipeline AND position BETWEEN :first AND :through"
      "   ORDER BY position LIMIT 1) AS a,"
      "  (SELECT timestamp FROM {sample_state}"
      "   WHERE pipeline = :pipeline AND position <= :through"
      "   ORDER BY position DESC LIMIT 1) AS b)";
  struct ext_scope with = pipeline->scope, *scope = &with;
  int rc =
      ext_scope_number(scope,
                       "SELECT coalesce(max(trigger) + 1, 0) FROM {trigger} "
                       "WHERE pipeline = :pipeline",
                       trigger, err);
  if (rc == SQLITE_OK &&
      (answer->through < question->first || answer->through > answer->position))
    rc = ext_error(err, SQLITE_ERROR,
                   "pipeline %s: a trigger through position %lld, expected one "
                   "of %lld to %lld",
                   pipeline->name, (long long)answer->through,
                   (long long)question->first, (long long)answer->position);
  ext_scope_integer(scope, "trigger", *trigger);
  ext_scope_integer(scope, "first", question->first);
  ext_scope_integer(scope, "through", answer->through);
  return rc == SQLITE_OK ? ext_scope_run(scope, sql, err) : rc;
}

static int decide_record(struct ext_asker *asker,
                         const struct ext_question *question,
                         const struct ext_answer *answer,
                         sqlite3_int64 *trigger, char **err) {
  static const char sql[] =
      "INSERT INTO {decision} VALUES(:pipeline, :position, :triggered, "
      ":trigger, "
      ":reason, (julianday('now') - 2440587.5) * 86400.0)";
  struct ext_scope with = asker->pipeline->scope, *scope = &with;
  int yes = answer->verdict == EXT_YES, rc = SQLITE_OK;
  ext_scope_text(scope, "trigger", NULL);
  if (yes) {
    rc = decide_trigger(asker->pipeline, question, answer, trigger, err);
    ext_scope_integer(scope, "trigger", *trigger);
  }
  ext_scope_integer(scope, "position", answer->position);
  ext_scope_integer(scope, "triggered", yes);
  ext_scope_text(scope, "reason", answer->reason);
  if (rc == SQLITE_OK)
    rc = ext_scope_run(scope, sql, err);
  return rc == SQLITE_OK ? ext_ask_record(asker, scope, err) : rc;
}

/* Records in the pipeline's row what it waits for, or that it does not wait. */
static int decide_wait(struct ext_pipeline *pipeline, const char *reason,
                       char **err) {
  struct ext_scope scope = pipeline->scope;
  ext_scope_text(&scope, "reason", reason);
  return ext_scope_run(&scope,
                       "UPDATE {pipeline} SET waits_for = :reason WHERE "
                       "pipeline = :pipeline AND waits_for IS NOT :reason",
                       err);
}

int ext_pipeline_decide(struct ext_pipeline *pipeline, sqlite3_int64 *trigger,
                        char **err) {
  enum ext_verdict verdict = EXT_NO;
  int rc = SQLITE_OK;
  *trigger = -1;
  while (rc == SQLITE_OK && verdict == EXT_NO) {
    struct ext_asker asker = {.pipeline = pipeline};
    struct ext_question question = {0};
    struct ext_answer answer = {0};
    rc = decide_question(pipeline, &question, err);
    if (rc == SQLITE_OK)
      rc = decide_root(&asker, &question, &answer, err);
    verdict = answer.verdict;
    if (rc == SQLITE_OK && verdict != EXT_NOTHING && verdict != EXT_WAITS)
      rc = decide_record(&asker, &question, &answer, trigger, err);
    if (rc == SQLITE_OK)
      rc = decide_wait(pipeline, verdict == EXT_WAITS ? answer.reason : NULL,
                       err);
    sqlite3_free(answer.reason);
    ext_ask_free(&asker);
  }
  return rc;
}
