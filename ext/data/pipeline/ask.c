/* SPDX-License-Identifier: MIT
**
** ask.c -- asks the pipeline's trigger policy whether it is time to train.
**
** ANSWER    A policy is a SELECT that returns no row (nothing to decide yet) or
**           one row with some of these columns:
**             position   of the last sample it examined, after :evaluated and
**                        up to :last
**             through    where the trigger's samples end; NULL: at `position`
**             triggered  1 or 0; NULL: the criterion judges `value`; without a
**                        `value`, the pipeline waits for `reason`
**             value, threshold   the measured value, and its limit
**             sign       -1 if lower values trigger, else 1
**             reason     in words
** PARAMETERS  The positions :first (the first sample that is in no trigger
**             yet), :last (the last sample) and :evaluated (the last one
**             decided).  :interval and :step: the next position to examine is
**             the next multiple of :step.  :member is the policy's name in
**             decision_part.
** ENSEMBLE  The option `members` makes an ensemble: every member is asked at
**           the multiples of `interval`.  If one member waits, the ensemble
**           waits.
** PARTS     are kept until the decision is recorded.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Maximum nesting of ensembles. */
#define ASK_DEPTH 32

struct ext_part {
  char *member, *policy, *reason;
  int triggered, has_value, has_threshold;
  double value, threshold;
  struct ext_part *next;
};

/* ---- parts --------------------------------------------------------------- */

void ext_ask_free(struct ext_asker *asker) {
  while (asker->parts) {
    struct ext_part *part = asker->parts;
    asker->parts = part->next;
    sqlite3_free(part->member);
    sqlite3_free(part->policy);
    sqlite3_free(part->reason);
    sqlite3_free(part);
  }
}

static int ask_add_part(struct ext_asker *asker,
                        const struct ext_question *question,
                        const struct ext_policy *policy,
                        const struct ext_answer *answer,
                        struct ext_part **out) {
  struct ext_part *part = sqlite3_malloc64(sizeof *part);
  if (part == NULL)
    return SQLITE_NOMEM;
  memset(part, 0, sizeof *part);
  part->next = asker->parts;
  asker->parts = part;
  part->member = sqlite3_mprintf("%s", question->member);
  part->policy = sqlite3_mprintf("%s", policy->name);
  part->reason = sqlite3_mprintf("%s", answer->reason);
  part->triggered = answer->verdict == EXT_YES;
  *out = part;
  return part->member && part->policy && part->reason ? SQLITE_OK
                                                      : SQLITE_NOMEM;
}

int ext_ask_record(const struct ext_asker *asker, const struct ext_scope *of,
                   char **err) {
  struct ext_scope scope = *of;
  static const char sql[] =
      "INSERT INTO {decision_part} VALUES(:pipeline, :position, :member, "
      ":policy, :triggered, :value, :threshold, :reason)";
  int rc = SQLITE_OK;
  for (struct ext_part *part = asker->parts; part && rc == SQLITE_OK;
       part = part->next) {
    ext_scope_text(&scope, "member", part->member);
    ext_scope_text(&scope, "policy", part->policy);
    ext_scope_text(&scope, "reason", part->reason);
    ext_scope_integer(&scope, "triggered", part->triggered);
    ext_scope_text(&scope, "value", NULL);
    ext_scope_text(&scope, "threshold", NULL);
    if (part->has_value)
      ext_scope_real(&scope, "value", part->value);
    if (part->has_threshold)
      ext_scope_real(&scope, "threshold", part->threshold);
    rc = ext_scope_run(&scope, sql, err);
  }
  return rc;
}

/* ---- one policy ---------------------------------------------------------- */

/* Reads a column of an answer; returns 0 if it is NULL or missing. */
static int answer_real(sqlite3_stmt *row, const char *name, double *value) {
  int i = ext_policy_column(row, name);
  if (i < 0 || sqlite3_column_type(row, i) == SQLITE_NULL)
    return 0;
  *value = sqlite3_column_double(row, i);
  return 1;
}

static int answer_integer(sqlite3_stmt *row, const char *name,
                          sqlite3_int64 *value) {
  int i = ext_policy_column(row, name);
  if (i < 0 || sqlite3_column_type(row, i) == SQLITE_NULL)
    return 0;
  *value = sqlite3_column_int64(row, i);
  return 1;
}

/* Values measured by a policy. */
struct measure {
  int has_value, has_threshold;
  double value, threshold;
};

static int answer_reason(sqlite3_stmt *row, char **reason) {
  int i = ext_policy_column(row, "reason");
  const char *text = NULL;
  int rc = i < 0 ? SQLITE_OK : ext_column_text(row, i, &text);
  if (rc != SQLITE_OK)
    return rc;
  *reason = sqlite3_mprintf("%s", text ? text : "");
  return *reason ? SQLITE_OK : SQLITE_NOMEM;
}

/* Lets the criterion, itself a policy, judge the value. */
static int ask_by_criterion(struct ext_pipeline *pipeline,
                            const struct ext_policy *policy,
                            struct measure *measure, struct ext_answer *answer,
                            char **err) {
  struct ext_scope *scope = &pipeline->scope;
  struct ext_policy criterion = {0};
  sqlite3_stmt *row = NULL;
  char *json = NULL, *measured = answer->reason;
  sqlite3_int64 triggered = 0;
  int rc;
  scope->options = policy->options;
  rc = ext_scope_string(scope, "SELECT :criterion", &json, err);
  if (rc == SQLITE_OK)
    rc = ext_policy_read(pipeline, "criterion", json, &criterion, err);
  if (rc == SQLITE_OK)
    rc = ext_policy_prepare(pipeline, &criterion, &row, NULL, err);
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
    answer_integer(row, "triggered", &triggered);
    measure->has_threshold = answer_real(row, "threshold", &measure->threshold);
    answer->reason = NULL;
    rc = answer_reason(row, &answer->reason);
    if (rc == SQLITE_OK && measured[0]) {
      char *both = sqlite3_mprintf("%s: %s", measured, answer->reason);
      sqlite3_free(answer->reason);
      answer->reason = both;
      rc = both ? SQLITE_OK : SQLITE_NOMEM;
    }
    sqlite3_free(measured);
  } else if (rc == SQLITE_OK) {
    rc = sqlite3_reset(row);
    rc = rc ? ext_sql_error(err, pipeline->db, rc)
            : ext_error(err, SQLITE_ERROR, "criterion %s returned no row",
                        criterion.name);
  }
  answer->verdict = triggered ? EXT_YES : EXT_NO;
  sqlite3_finalize(row);
  ext_policy_free(&criterion);
  sqlite3_free(json);
  return rc;
}

/* Turns a policy's row into an answer.  If `triggered` is NULL, the verdict is
** EXT_WAITS, and :value, :sign and :position are set for the criterion. */
static int ask_read_row(struct ext_asker *asker, sqlite3_stmt *row,
                        const struct ext_question *question,
                        struct measure *measure, struct ext_answer *answer,
                        char **err) {
  struct ext_scope *scope = &asker->pipeline->scope;
  sqlite3_int64 triggered, sign = 1;
  int rc;
  if (!answer_integer(row, "position", &answer->position) ||
      answer->position <= question->evaluated ||
      answer->position > question->last)
    return ext_error(
        err, SQLITE_ERROR, "it returned position %lld, expected %lld to %lld",
        (long long)answer->position, (long long)question->evaluated + 1,
        (long long)question->last);
  answer->through = answer->position;
  answer_integer(row, "through", &answer->through);
  measure->has_value = answer_real(row, "value", &measure->value);
  measure->has_threshold = answer_real(row, "threshold", &measure->threshold);
  rc = answer_reason(row, &answer->reason);
  if (rc != SQLITE_OK)
    return rc;
  if (answer_integer(row, "triggered", &triggered)) {
    answer->verdict = triggered ? EXT_YES : EXT_NO;
    return SQLITE_OK;
  }
  answer->verdict = EXT_WAITS;
  answer_integer(row, "sign", &sign);
  ext_scope_integer(scope, "sign", sign < 0 ? -1 : 1);
  ext_scope_real(scope, "value", measure->value);
  ext_scope_integer(scope, "position", answer->position);
  return SQLITE_OK;
}

static int ask_single(struct ext_asker *asker, const struct ext_policy *policy,
                      const struct ext_question *question,
                      struct ext_answer *answer, char **err) {
  struct ext_pipeline *pipeline = asker->pipeline;
  struct ext_scope *scope = &pipeline->scope;
  struct measure measure = {0};
  struct ext_given interval;
  struct ext_part *part;
  sqlite3_stmt *row = NULL;
  int rc;
  scope->options = policy->options;
  rc = ext_scope_option(scope, "interval", &interval, err);
  ext_scope_integer(scope, "first", question->first);
  ext_scope_integer(scope, "evaluated", question->evaluated);
  ext_scope_integer(scope, "last", question->last);
  ext_scope_integer(scope, "step", question->within ? 1 : interval.integer);
  ext_scope_text(scope, "member", question->member);
  if (rc == SQLITE_OK)
    rc = ext_policy_prepare(pipeline, policy, &row, NULL, err);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(row);
    if (rc == SQLITE_ROW)
      rc = ask_read_row(asker, row, question, &measure, answer, err);
    else
      rc = rc == SQLITE_DONE ? SQLITE_OK : ext_sql_error(err, pipeline->db, rc);
    if (rc == SQLITE_OK && answer->verdict == EXT_WAITS && measure.has_value)
      rc = ask_by_criterion(pipeline, policy, &measure, answer, err);
    rc = ext_pipeline_error(err, rc, "pipeline %s, trigger policy %s",
                            pipeline->name, policy->name);
  }
  sqlite3_finalize(row);
  if (rc != SQLITE_OK || answer->verdict == EXT_NOTHING ||
      answer->verdict == EXT_WAITS)
    return rc;
  rc = ask_add_part(asker, question, policy, answer, &part);
  if (rc == SQLITE_OK) {
    part->has_value = measure.has_value;
    part->value = measure.value;
    part->has_threshold = measure.has_threshold;
    part->threshold = measure.threshold;
  }
  return rc;
}

/* ---- ensembles ----------------------------------------------------------- */

/* The votes of an ensemble's members. */
struct votes {
  sqlite3_int64 members, fired;
  char *list; /* "[1,0,1]" */
};

static int ask_member(struct ext_asker *asker, const struct ext_scope *scope,
                      const struct ext_question *asked,
                      struct ext_answer *answer, char **err) {
  char *json = NULL;
  int rc = ext_scope_string(
      scope, "SELECT value FROM json_each(:members) WHERE key = :i", &json,
      err);
  if (rc == SQLITE_OK)
    rc = ext_ask(asker, json ? json : "null", asked, answer, err);
  sqlite3_free(json);
  return rc;
}

/* Asks each member at one position.  Sets *answer only if a member waits. */
static int ask_votes(struct ext_asker *asker, const struct ext_policy *policy,
                     const struct ext_question *question, struct votes *votes,
                     struct ext_answer *answer, char **err) {
  struct ext_scope scope = {.db = asker->pipeline->db,
                            .prefix = asker->pipeline->prefix,
                            .options = policy->options};
  sqlite3_str *list = sqlite3_str_new(scope.db);
  int rc = ext_scope_number(&scope, "SELECT json_array_length(:members)",
                            &votes->members, err);
  for (sqlite3_int64 i = 0; i < votes->members && rc == SQLITE_OK; i++) {
    struct ext_question asked = *question;
    struct ext_answer one = {0};
    char *member = sqlite3_mprintf("%s%s%lld", question->member,
                                   question->member[0] ? "." : "", i);
    asked.member = member;
    ext_scope_integer(&scope, "i", i);
    rc = member ? ask_member(asker, &scope, &asked, &one, err) : SQLITE_NOMEM;
    sqlite3_free(member);
    if (one.verdict == EXT_WAITS) {
      *answer = one;
      break;
    }
    votes->fired += one.verdict == EXT_YES;
    sqlite3_str_appendf(list, "%c%d", i ? ',' : '[', one.verdict == EXT_YES);
    sqlite3_free(one.reason);
  }
  sqlite3_str_appendall(list, votes->members ? "]" : "[]");
  votes->list = sqlite3_str_finish(list);
  return rc == SQLITE_OK && votes->list == NULL ? SQLITE_NOMEM : rc;
}

/* The ensemble's SQL decides from the votes. */
static int ask_count(struct ext_asker *asker, const struct ext_policy *policy,
                     const struct ext_question *question,
                     const struct votes *votes, struct ext_answer *answer,
                     char **err) {
  struct ext_pipeline *pipeline = asker->pipeline;
  struct ext_scope *scope = &pipeline->scope;
  sqlite3_int64 enough = 0;
  sqlite3_stmt *row = NULL;
  struct ext_part *part;
  int rc;
  ext_scope_integer(scope, "fired", votes->fired);
  ext_scope_integer(scope, "count", votes->members);
  ext_scope_text(scope, "votes", votes->list);
  rc = ext_policy_prepare(pipeline, policy, &row, NULL, err);
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
    answer_integer(row, "triggered", &enough);
    answer->verdict = enough ? EXT_YES : EXT_NO;
    rc = answer_reason(row, &answer->reason);
  } else if (rc == SQLITE_OK) {
    rc = ext_sql_error(err, pipeline->db, sqlite3_reset(row));
  }
  sqlite3_finalize(row);
  if (rc == SQLITE_OK && answer->reason)
    rc = ask_add_part(asker, question, policy, answer, &part);
  if (rc == SQLITE_OK && answer->reason) {
    part->has_value = 1;
    part->value = (double)votes->fired;
  }
  return rc;
}

static int ask_ensemble(struct ext_asker *asker,
                        const struct ext_policy *policy,
                        const struct ext_question *question,
                        struct ext_answer *answer, char **err) {
  struct ext_question asked = *question;
  struct votes votes = {0};
  struct ext_given interval;
  sqlite3_int64 step;
  int rc;
  asker->pipeline->scope.options = policy->options;
  rc = ext_scope_option(&asker->pipeline->scope, "interval", &interval, err);
  step = question->within || interval.integer < 1 ? 1 : interval.integer;
  asked.last = (question->evaluated / step + 1) * step;
  asked.evaluated = asked.last - 1;
  asked.within++;
  if (rc != SQLITE_OK || asked.last > question->last)
    return rc;
  answer->position = answer->through = asked.last;
  rc = ask_votes(asker, policy, &asked, &votes, answer, err);
  if (rc == SQLITE_OK && answer->verdict != EXT_WAITS)
    rc = ask_count(asker, policy, question, &votes, answer, err);
  sqlite3_free(votes.list);
  return rc;
}

/* Checks that only the pipeline's own policy has a warm-up. */
static int ask_alone(struct ext_asker *asker, const struct ext_policy *policy,
                     const struct ext_question *question, char **err) {
  struct ext_given warmup;
  int rc = ext_scope_option(&asker->pipeline->scope, "warmup_intervals",
                            &warmup, err);
  if (rc == SQLITE_OK && question->within && warmup.integer)
    rc =
        ext_error(err, SQLITE_ERROR,
                  "pipeline %s, trigger policy %s: a member of an ensemble has "
                  "no warm-up",
                  asker->pipeline->name, policy->name);
  return rc;
}

int ext_ask(struct ext_asker *asker, const char *json,
            const struct ext_question *question, struct ext_answer *answer,
            char **err) {
  struct ext_scope before = asker->pipeline->scope;
  struct ext_policy policy = {0};
  struct ext_given members;
  int rc = ext_policy_read(asker->pipeline, "trigger", json, &policy, err);
  emb_assert(answer->verdict == EXT_NOTHING && !answer->reason);
  emb_assert(question->member && question->within >= 0);
  if (rc == SQLITE_OK && question->within > ASK_DEPTH)
    rc = ext_error(err, SQLITE_ERROR,
                   "pipeline %s: ensembles nested in more than %d others",
                   asker->pipeline->name, ASK_DEPTH);
  asker->pipeline->scope.options = policy.options;
  if (rc == SQLITE_OK)
    rc = ask_alone(asker, &policy, question, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_option(&asker->pipeline->scope, "members", &members, err);
  if (rc == SQLITE_OK)
    rc = (members.type == SQLITE_NULL ? ask_single : ask_ensemble)(
        asker, &policy, question, answer, err);
  ext_policy_free(&policy);
  asker->pipeline->scope = before; /* these parameters end here */
  emb_check(rc != SQLITE_OK || ext_answer_valid(question, answer));
  return rc;
}
