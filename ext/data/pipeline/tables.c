/* SPDX-License-Identifier: MIT
**
** tables.c -- the tables' names: a prefix, and {name} in SQL.
**
** PREFIX    The tables of a set of pipelines have names with one prefix:
**           modyn_pipeline, modyn_trigger.  A function that is given none uses
**           "modyn_", or the tables without a prefix, which schema.sql makes,
**           where there is no modyn_pipeline.
** PLACES    In the driver's SQL, in policies and in sources {trigger} stands
**           for the table trigger with its prefix.  A prefix is part of a plain
**           name, so the result needs no quotes.
** SCHEMA    Names are not qualified: SQLite finds the tables.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* A column by which a table `pipeline` of the user's is told from ours. */
#define TABLES_COLUMN "trigger_policy"

/* ---- {name} -------------------------------------------------------------- */

static int tables_among(const struct ext_schema_text *texts, size_t n,
                        const char *name, size_t size) {
  for (size_t i = 0; i < n; i++)
    if (texts[i].name && strncmp(texts[i].name, name, size) == 0 &&
        texts[i].name[size] == 0)
      return 1;
  return 0;
}

int ext_tables_have(const char *name, size_t size) {
  return tables_among(ext_schema_pipeline, ext_schema_pipeline_n, name, size) ||
         tables_among(ext_schema_models, ext_schema_models_n, name, size);
}

int ext_tables_expand(const char *prefix, const char *sql, char **to) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  while (*sql) {
    size_t plain = strcspn(sql, "{"), size;
    sqlite3_str_append(text, sql, (int)plain);
    sql += plain;
    if (*sql == 0)
      break;
    size = text_name(sql + 1);
    if (size && sql[size + 1] == '}' && ext_tables_have(sql + 1, size)) {
      sqlite3_str_appendf(text, "%s%.*s", prefix ? prefix : "", (int)size,
                          sql + 1);
      sql += size + 2;
    } else {
      sqlite3_str_appendchar(text, 1, *sql++);
    }
  }
  *to = sqlite3_str_finish(text);
  if (*to == NULL) /* no memory, or an empty text */
    *to = sqlite3_mprintf("");
  return *to ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- the prefix ---------------------------------------------------------- */

static int tables_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int ext_tables_prefix(sqlite3_value *value, char **prefix, char **err) {
  const char *text;
  int n, at = 0;
  *prefix = NULL;
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH, "prefix must be a TEXT, got %s",
                     ext_value_type_name(value));
  text = (const char *)sqlite3_value_text(value);
  n = sqlite3_value_bytes(value);
  if (text == NULL)
    return SQLITE_NOMEM;
  while (at < n && (tables_letter(text[at]) ||
                    (at && text[at] >= '0' && text[at] <= '9')))
    at++;
  if (at < n)
    return ext_error(err, SQLITE_ERROR,
                     "prefix must be a letter or _ and further letters, digits "
                     "and _, as in 'shop_', got '%s'",
                     text);
  *prefix = sqlite3_mprintf("%s", text);
  return *prefix ? SQLITE_OK : SQLITE_NOMEM;
}

/* Is there a table of pipelines with this prefix? */
static int tables_there(sqlite3 *db, const char *prefix, int *there,
                        char **err) {
  char *name = sqlite3_mprintf("%spipeline", prefix);
  int rc;
  if (name == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_table_column_metadata(db, NULL, name, TABLES_COLUMN, NULL, NULL,
                                     NULL, NULL, NULL);
  sqlite3_free(name);
  *there = rc == SQLITE_OK;
  return rc == SQLITE_OK || rc == SQLITE_ERROR ? SQLITE_OK
                                               : ext_sql_error(err, db, rc);
}

static int tables_missing(const char *prefix, char **err) {
  if (prefix == NULL)
    return ext_error(err, SQLITE_ERROR,
                     "there are no tables of pipelines: SELECT "
                     "emb_pipeline_create() makes them");
  return ext_error(err, SQLITE_ERROR,
                   "there is no table %spipeline of pipelines: SELECT "
                   "emb_pipeline_create('%s') makes it",
                   prefix, prefix);
}

int ext_tables_find(sqlite3 *db, sqlite3_value *given, char **prefix,
                    char **err) {
  static const char *const usual[] = {EXT_TABLES_PREFIX, ""};
  int there = 0, rc = SQLITE_OK;
  *prefix = NULL;
  if (given) {
    rc = ext_tables_prefix(given, prefix, err);
    if (rc == SQLITE_OK)
      rc = tables_there(db, *prefix, &there, err);
    return rc == SQLITE_OK && !there ? tables_missing(*prefix, err) : rc;
  }
  for (size_t i = 0; i < 2 && rc == SQLITE_OK && !there; i++) {
    rc = tables_there(db, usual[i], &there, err);
    if (there)
      *prefix = sqlite3_mprintf("%s", usual[i]);
  }
  if (rc != SQLITE_OK)
    return rc;
  if (!there)
    return tables_missing(NULL, err);
  return *prefix ? SQLITE_OK : SQLITE_NOMEM;
}
