/* SPDX-License-Identifier: MIT
**
** options.c -- a policy's options: checked against the rows of policy_option,
** with the defaults filled in.
**
** ROWS      A row of policy_option gives the values an option may have; it
**           belongs to the policy itself or to the policy `common` of its
**           kind.  One SQL statement checks all options.
** TEXTS     In a JSON text an option of the type boolean, share or time is
**           read as everywhere else (engine/base/unit.h): "yes", "25%",
**           "30 days".  The policy gets true, 0.25 and 2592000.
** OLDER     Shares once were percentages, in `ratio` of `ratio_max`.  Tables
**           whose rows still say so work as before: the two are copied to
**           `share` and `share_max`, which is all that other files read.
*/
#include "pipeline.h"
#include "engine/base/unit.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* The first complaint about an option, or no row. */
static const char options_wrong_sql[] =
    "WITH renamed(old, now) AS (VALUES ('ratio', 'share'),"
    "  ('ratio_max', 'share_max'), ('unused_ratio', 'unused_share')),"
    " known AS (SELECT * FROM {policy_option}"
    "  WHERE kind = :kind AND policy IN (:policy, 'common')),"
    " given AS (SELECT j.key, j.type AS is_type, j.atom, j.value, k.*"
    "  FROM json_each(:json) j LEFT JOIN known k ON k.name = j.key"
    "  WHERE j.key <> 'policy'),"
    " judged AS (SELECT key, CASE"
    "  WHEN name IS NULL THEN coalesce("
    "    (SELECT 'there is no option ' || old || ' any more; use ' || now ||"
    "       ', a fraction like 0.25 or a percentage like \"25%\"'"
    "       FROM renamed WHERE old = key AND now IN (SELECT name FROM known)),"
    "    'unknown option: ' || key || '; expected ' ||"
    "      coalesce((SELECT group_concat(name, ', ') FROM known), 'none'))"
    "  WHEN is_type = 'null' AND NOT needed THEN NULL"
    "  WHEN CASE type WHEN 'integer' THEN is_type <> 'integer'"
    "    WHEN 'boolean' THEN is_type NOT IN ('true', 'false')"
    "    WHEN 'number or text' THEN"
    "      is_type NOT IN ('integer', 'real', 'text')"
    "    WHEN 'object' THEN is_type <> 'object'"
    "    WHEN 'array' THEN is_type <> 'array'"
    "    WHEN 'object or array' THEN is_type NOT IN ('object', 'array')"
    "    ELSE CASE WHEN type IN ('real', 'share', 'time')"
    "      THEN is_type NOT IN ('integer', 'real')"
    "      ELSE is_type <> 'text' END END"
    "    THEN key || ' must be ' || CASE type WHEN 'share' THEN 'a share'"
    "      WHEN 'time' THEN 'a time' ELSE type END || ', got ' || is_type"
    "  WHEN type IN ('integer', 'real', 'share', 'time')"
    "    AND (atom < least OR atom > most)"
    "    THEN key || ' must be ' || CASE WHEN most IS NULL"
    "      THEN 'at least ' || printf('%g', least)"
    "      ELSE 'between ' || printf('%g and %g', least, most) END ||"
    "      ', got ' || atom"
    "  WHEN one_of IS NOT NULL AND"
    "    NOT EXISTS(SELECT 1 FROM json_each(one_of) o"
    "     WHERE given.atom = o.value COLLATE emb_word)"
    "    THEN key || ' must be one of ' || one_of || ', got ' || atom"
    "  END AS complaint FROM given)"
    "SELECT complaint FROM judged WHERE complaint IS NOT NULL"
    " UNION ALL SELECT 'option ' || name || ' is needed' FROM known"
    "  WHERE needed AND name NOT IN (SELECT key FROM json_each(:json)) LIMIT 1";

/* The defaults, and the options given; a word that is one of several is
** written as in one_of. */
static const char options_complete_sql[] =
    "SELECT json_patch(json_patch((SELECT json_group_object(name, \"default\")"
    " FROM {policy_option} WHERE kind = :kind AND policy IN (:policy, 'common')"
    " AND \"default\" IS NOT NULL), :json),"
    " (SELECT json_group_object(j.key, o.value) FROM json_each(:json) j"
    "  JOIN {policy_option} k ON k.kind = :kind"
    "   AND k.policy IN (:policy, 'common') AND k.name = j.key"
    "  JOIN json_each(k.one_of) o"
    "  WHERE j.type = 'text' AND j.atom = o.value COLLATE emb_word))";

/* ---- texts --------------------------------------------------------------- */

/* Each returns the value as JSON, for sqlite3_free; *is: the text is one. */

static char *options_boolean(const char *text, int *is) {
  int yes = 0;
  *is = unit_is_bool(text, &yes);
  return sqlite3_mprintf("%s", yes ? "true" : "false");
}

static char *options_share(const char *text, int *is) {
  double share = 0;
  *is = unit__share(&text, &share) && *text == 0;
  return sqlite3_mprintf("%!.17g", share);
}

/* In seconds; a minus may precede it. */
static char *options_time(const char *text, int *is) {
  const char *sign = *text == '-' ? "-" : "";
  uint64_t us = 0;
  text += *sign != 0;
  *is = unit_time(&text, 1000000, &us) && *text == 0;
  return us % 1000000 ? sqlite3_mprintf("%s%!.17g", sign, (double)us / 1e6)
                      : sqlite3_mprintf("%s%llu", sign,
                                        (unsigned long long)(us / 1000000));
}

static const struct options_form {
  const char *type, *expected;
  char *(*read)(const char *text, int *is);
} options_forms[] = {
    {"boolean", "true or false, or a word like \"yes\" or \"off\"",
     options_boolean},
    {"share", "a fraction like 0.25 or a percentage like \"25%\"",
     options_share},
    {"time", "a number or a time like \"30 days\"", options_time}};

/* Sets the option `name` in *json to the value of the text. */
static int options_read(const struct ext_scope *scope, const char *name,
                        const char *type, const char *text, char **json,
                        char **err) {
  const struct options_form *form = options_forms;
  struct ext_scope with = *scope;
  char *value, *to = NULL;
  int is = 0, rc;
  while (strcmp(form->type, type) != 0)
    form++;
  emb_assert(form <
             options_forms + sizeof options_forms / sizeof *options_forms);
  value = form->read(text, &is);
  if (value == NULL)
    return SQLITE_NOMEM;
  if (is) {
    ext_scope_text(&with, "json", *json);
    ext_scope_text(&with, "name", name);
    ext_scope_text(&with, "value", value);
    rc = ext_scope_string(
        &with, "SELECT json_patch(:json, json_object(:name, json(:value)))",
        &to, err);
  } else {
    rc = ext_error(err, SQLITE_ERROR, "%s must be %s, got %s", name,
                   form->expected, text);
  }
  if (rc == SQLITE_OK) {
    sqlite3_free(*json);
    *json = to;
  }
  sqlite3_free(value);
  return rc;
}

/* Replaces each text, and a boolean's 0 or 1, by its value in *json. */
static int options_texts(const struct ext_scope *scope, char **json,
                         char **err) {
  static const char sql[] =
      "SELECT k.name, k.type, j.atom FROM json_each(:json) j"
      " JOIN {policy_option} k ON k.kind = :kind"
      "  AND k.policy IN (:policy, 'common') AND k.name = j.key"
      " WHERE (j.type = 'text' AND k.type IN ('boolean', 'share', 'time'))"
      "  OR (j.type = 'integer' AND k.type = 'boolean')";
  sqlite3_stmt *row = NULL;
  int rc = ext_scope_prepare(scope, sql, &row, NULL, err);
  while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
    const char *name, *type, *text;
    rc = ext_column_text(row, 0, &name);
    if (rc == SQLITE_OK)
      rc = ext_column_text(row, 1, &type);
    if (rc == SQLITE_OK)
      rc = ext_column_text(row, 2, &text);
    if (rc == SQLITE_OK)
      rc = options_read(scope, name, type, text, json, err);
  }
  if (rc != SQLITE_DONE && *err == NULL)
    rc = ext_sql_error(err, scope->db, rc);
  sqlite3_finalize(row);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- shares -------------------------------------------------------------- */

/* More than all samples is a mistake: 25 for "25%". */
static int options_share_check(const struct ext_scope *scope, char **err) {
  static const char sql[] =
      "SELECT printf('share must be at most share_max, %g, got %g; a percentage"
      " is a text like \"25%%\"', :share_max, :share)"
      " WHERE :share > :share_max";
  char *wrong = NULL;
  int rc = ext_scope_string(scope, sql, &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "%s", wrong);
  sqlite3_free(wrong);
  return rc;
}

/* See OLDER. */
static int options_share_older(const struct ext_scope *scope, char **options,
                               char **err) {
  static const char sql[] =
      "SELECT json_set(:options, '$.share', :options -> '$.ratio',"
      " '$.share_max', :options -> '$.ratio_max')"
      " WHERE :ratio IS NOT NULL AND EXISTS(SELECT 1 FROM {policy_option}"
      "  WHERE kind = :kind AND policy = 'common' AND name = 'ratio_max')";
  struct ext_scope with = *scope;
  char *to = NULL;
  int rc;
  ext_scope_text(&with, "options", *options);
  rc = ext_scope_string(&with, sql, &to, err);
  if (rc == SQLITE_OK && to) {
    sqlite3_free(*options);
    *options = to;
  }
  return rc;
}

/* ---- all of them --------------------------------------------------------- */

static int options_check(const struct ext_scope *scope, char **err) {
  char *wrong = NULL;
  int rc = ext_scope_string(scope, options_wrong_sql, &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "%s", wrong);
  sqlite3_free(wrong);
  return rc;
}

int ext_policy_options(const struct ext_scope *scope, const char *json,
                       char **options, char **err) {
  struct ext_scope with = *scope;
  char *read = sqlite3_mprintf("%s", json);
  int rc = read ? SQLITE_OK : SQLITE_NOMEM;
  ext_scope_text(&with, "json", json);
  if (rc == SQLITE_OK)
    rc = options_texts(&with, &read, err);
  ext_scope_text(&with, "json", read);
  if (rc == SQLITE_OK)
    rc = options_check(&with, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_string(&with, options_complete_sql, options, err);
  with.options = *options;
  if (rc == SQLITE_OK)
    rc = options_share_check(&with, err);
  if (rc == SQLITE_OK)
    rc = options_share_older(&with, options, err);
  sqlite3_free(read);
  return rc;
}
