/* SPDX-License-Identifier: MIT
**
** policy.c -- a policy: its row, its options, its statement.
**
** OPTIONS   A JSON object, {"policy": "random", "share": 0.1}; options.c checks
**           it.
** TEXT      :name is a parameter (scope.c).  {name} is replaced by text: a
**           source of the pipeline ({features} and {predictions}; a missing
**           source has no rows), an option of type sql, or the name of a table
**           (tables.c).  A policy's row can already do anything that SQL can,
**           so this adds no risk.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- its text ------------------------------------------------------------ */

static const char no_features[] = "SELECT NULL AS key, NULL AS value LIMIT 0";
static const char no_predictions[] =
    "SELECT NULL AS key, NULL AS prediction LIMIT 0";

/* The text for {name}; NULL with SQLITE_OK: there is none. */
static int policy_replacement(struct ext_pipeline *pipeline,
                              const struct ext_scope *scope, const char *name,
                              char **text, char **err) {
  static const char sql[] =
      "SELECT value FROM json_each(:options) WHERE key = :name AND EXISTS("
      "SELECT 1 FROM {policy_option} o WHERE o.kind = :kind AND o.policy IN "
      "(:policy, 'common') AND o.name = :name AND o.type = 'sql')";
  const char *source = NULL;
  int rc;
  if (strcmp(name, "features") == 0)
    source = pipeline->features ? pipeline->features : no_features;
  else if (strcmp(name, "predictions") == 0)
    source = pipeline->predictions ? pipeline->predictions : no_predictions;
  if (source == NULL) {
    rc = ext_scope_string(scope, sql, text, err);
    if (rc != SQLITE_OK || *text || !ext_tables_have(name, strlen(name)))
      return rc;
    *text = sqlite3_mprintf("%s%s", pipeline->prefix, name);
  } else {
    *text = ext_pipeline_source(source);
  }
  return *text ? SQLITE_OK : SQLITE_NOMEM;
}

/* Appends the text for {name} at *at, and moves past it. */
static int policy_put(struct ext_pipeline *pipeline, struct ext_scope *scope,
                      const char **at, sqlite3_str *to, char **err) {
  size_t size = text_name(*at + 1);
  char *name, *text = NULL;
  int rc;
  if (size == 0 || (*at)[size + 1] != '}') { /* the SQL's own brace */
    sqlite3_str_appendchar(to, 1, *(*at)++);
    return SQLITE_OK;
  }
  name = sqlite3_mprintf("%.*s", (int)size, *at + 1);
  if (name == NULL)
    return SQLITE_NOMEM;
  ext_scope_text(scope, "name", name);
  rc = policy_replacement(pipeline, scope, name, &text, err);
  if (rc == SQLITE_OK && text)
    sqlite3_str_appendall(to, text);
  else if (rc == SQLITE_OK)
    rc = ext_error(err, SQLITE_ERROR, "{%s} has no value", name);
  *at += size + 2;
  sqlite3_free(text);
  sqlite3_free(name);
  return rc;
}

/* Replaces each {name} in policy->sql, and removes the last semicolon, since
** the text may end up in FROM. */
static int policy_text(struct ext_pipeline *pipeline, struct ext_policy *policy,
                       char **err) {
  struct ext_scope scope = {.db = pipeline->db, .prefix = pipeline->prefix};
  sqlite3_str *to = sqlite3_str_new(pipeline->db);
  const char *at = policy->sql;
  size_t size;
  int rc = SQLITE_OK;
  ext_scope_text(&scope, "kind", policy->kind);
  ext_scope_text(&scope, "policy", policy->name);
  ext_scope_text(&scope, "options", policy->options);
  while (*at && rc == SQLITE_OK) {
    size_t plain = strcspn(at, "{");
    sqlite3_str_append(to, at, (int)plain);
    at += plain;
    if (*at)
      rc = policy_put(pipeline, &scope, &at, to, err);
  }
  sqlite3_free(policy->sql);
  policy->sql = sqlite3_str_finish(to);
  if (rc != SQLITE_OK || policy->sql == NULL)
    return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
  size = text_trimmed(policy->sql, strlen(policy->sql));
  if (size && policy->sql[size - 1] == ';')
    policy->sql[size - 1] = 0;
  return SQLITE_OK;
}

/* ---- reading ------------------------------------------------------------- */

/* Policies that were called otherwise, and what to write now. */
static const struct {
  const char *kind, *name, *now;
} policy_renamed[] = {
    {"trigger", "avoidable_cost",
     "avoidable_count, which compares the number of avoidable mistakes with "
     "the training time, or avoidable_latency, which compares the time they "
     "have lasted with it"}};

static int policy_unknown(struct ext_scope *scope, const char *name,
                          const char *kind, char **err) {
  char *all = NULL;
  int rc;
  for (size_t i = 0; i < sizeof policy_renamed / sizeof *policy_renamed; i++)
    if (strcmp(kind, policy_renamed[i].kind) == 0 &&
        near_is(policy_renamed[i].name, name))
      return ext_error(err, SQLITE_ERROR,
                       "there is no %s policy %s any more; use %s", kind, name,
                       policy_renamed[i].now);
  rc = ext_scope_string(scope,
                        "SELECT group_concat(name, ', ') FROM {policy} "
                        "WHERE kind = :kind AND name <> 'common'",
                        &all, err);
  if (rc == SQLITE_OK)
    rc = ext_error(err, SQLITE_ERROR, "no such %s policy: %s; there are: %s",
                   kind, name, all ? all : "none");
  sqlite3_free(all);
  return rc;
}

/* Finds the name of a policy in the table; an exact match comes first. */
static int policy_name(struct ext_scope *scope, struct ext_policy *policy,
                       char **err) {
  static const char sql[] =
      "SELECT name FROM {policy} WHERE kind = :kind AND name <> 'common'"
      " AND name = :given COLLATE emb_word ORDER BY name <> :given LIMIT 1";
  char *name = NULL;
  int rc;
  ext_scope_text(scope, "given", policy->name);
  rc = ext_scope_string(scope, sql, &name, err);
  if (rc == SQLITE_OK && name == NULL)
    rc = policy_unknown(scope, policy->name, policy->kind, err);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_free(policy->name);
  policy->name = name;
  return SQLITE_OK;
}

static int policy_find(struct ext_scope *scope, struct ext_policy *policy,
                       char **err) {
  int rc = ext_scope_string(scope,
                            "SELECT CASE WHEN json_type(:json) = 'object' "
                            "AND json_type(:json, '$.policy') = 'text' "
                            "THEN json_extract(:json, '$.policy') END",
                            &policy->name, err);
  if (rc == SQLITE_OK && policy->name == NULL)
    rc = ext_error(
        err, SQLITE_ERROR,
        "expected a JSON object with \"policy\", the name of a policy");
  if (rc == SQLITE_OK)
    rc = policy_name(scope, policy, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_scope_text(scope, "policy", policy->name);
  rc = ext_scope_string(scope,
                        "SELECT sql FROM {policy} WHERE kind = :kind AND "
                        "name = :policy",
                        &policy->sql, err);
  return rc;
}

int ext_policy_read(struct ext_pipeline *pipeline, const char *kind,
                    const char *json, struct ext_policy *policy, char **err) {
  struct ext_scope scope = {.db = pipeline->db, .prefix = pipeline->prefix};
  int rc;
  memset(policy, 0, sizeof *policy);
  policy->kind = kind;
  ext_scope_text(&scope, "kind", kind);
  ext_scope_text(&scope, "json", json);
  rc = policy_find(&scope, policy, err);
  if (rc == SQLITE_OK)
    rc = ext_policy_options(&scope, json, &policy->options, err);
  if (rc == SQLITE_OK)
    rc = policy_text(pipeline, policy, err);
  return ext_pipeline_error(err, rc, "pipeline %s, %s policy%s%s",
                            pipeline->name, kind, policy->name ? " " : "",
                            policy->name ? policy->name : "");
}

void ext_policy_free(struct ext_policy *policy) {
  sqlite3_free(policy->name);
  sqlite3_free(policy->sql);
  sqlite3_free(policy->options);
  memset(policy, 0, sizeof *policy);
}

int ext_policy_prepare(struct ext_pipeline *pipeline,
                       const struct ext_policy *policy,
                       sqlite3_stmt **statement, char **then, char **err) {
  const char *tail = NULL;
  int rc;
  emb_assert(policy->kind && policy->name && policy->sql); /* it was read */
  pipeline->scope.options = policy->options;
  rc = ext_scope_prepare(&pipeline->scope, policy->sql, statement,
                         then ? &tail : NULL, err);
  if (rc == SQLITE_OK && tail && *tail) {
    *then = sqlite3_mprintf("%s", tail);
    rc = *then ? SQLITE_OK : SQLITE_NOMEM;
  }
  return ext_pipeline_error(err, rc, "pipeline %s, %s policy %s",
                            pipeline->name, policy->kind, policy->name);
}

int ext_policy_column(sqlite3_stmt *statement, const char *name) {
  int i = sqlite3_column_count(statement);
  while (--i >= 0)
    if (sqlite3_stricmp(sqlite3_column_name(statement, i), name) == 0)
      break;
  return i;
}
