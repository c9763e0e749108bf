/* SPDX-License-Identifier: MIT
**
** scope.c -- SQL with named parameters: values from the driver, and options of
** a policy.
**
** In a policy `:size` is a number that the driver has computed, and `:window`
** is the option of that name.  SQLite itself lists the names in a text.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static struct ext_given *scope_place(struct ext_scope *scope, const char *name,
                                     int type) {
  int i = 0;
  while (i < scope->n && strcmp(scope->given[i].name, name) != 0)
    i++;
  emb_assert(i < EXT_SCOPE_MAX);
  if (i == scope->n)
    scope->n++;
  scope->given[i] = (struct ext_given){.name = name, .type = type};
  return &scope->given[i];
}

void ext_scope_integer(struct ext_scope *scope, const char *name,
                       sqlite3_int64 value) {
  scope_place(scope, name, SQLITE_INTEGER)->integer = value;
}

void ext_scope_real(struct ext_scope *scope, const char *name, double value) {
  scope_place(scope, name, SQLITE_FLOAT)->real = value;
}

void ext_scope_text(struct ext_scope *scope, const char *name,
                    const char *value) {
  scope_place(scope, name, value ? SQLITE_TEXT : SQLITE_NULL)->text = value;
}

/* ---- binding ------------------------------------------------------------- */

static int scope_bind_given(sqlite3_stmt *statement, int i,
                            const struct ext_given *given) {
  switch (given->type) {
  case SQLITE_INTEGER:
    return sqlite3_bind_int64(statement, i, given->integer);
  case SQLITE_FLOAT:
    return sqlite3_bind_double(statement, i, given->real);
  case SQLITE_TEXT:
    return sqlite3_bind_text(statement, i, given->text, -1, SQLITE_TRANSIENT);
  default:
    return sqlite3_bind_null(statement, i);
  }
}

/* The row of an option, or NULL; the caller finalizes it. */
static int option_find(const struct ext_scope *scope, const char *name,
                       sqlite3_stmt **row) {
  static const char sql[] = "SELECT value FROM json_each(?1) WHERE key = ?2";
  int rc = sqlite3_prepare_v2(scope->db, sql, -1, row, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_text(*row, 1, scope->options, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_text(*row, 2, name, -1, SQLITE_STATIC);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_step(*row);
  if (rc == SQLITE_ROW)
    return SQLITE_OK;
  rc = sqlite3_finalize(*row);
  *row = NULL;
  return rc;
}

static int scope_bind_option(const struct ext_scope *scope,
                             sqlite3_stmt *statement, int i, const char *name) {
  sqlite3_stmt *row = NULL;
  int rc = SQLITE_OK;
  if (scope->options == NULL)
    return SQLITE_OK;
  rc = option_find(scope, name, &row);
  if (rc == SQLITE_OK && row)
    rc = sqlite3_bind_value(statement, i, sqlite3_column_value(row, 0));
  sqlite3_finalize(row);
  return rc;
}

static int scope_bind(const struct ext_scope *scope, sqlite3_stmt *statement) {
  int n = sqlite3_bind_parameter_count(statement), rc = SQLITE_OK;
  for (int i = 1; i <= n && rc == SQLITE_OK; i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i);
    int at = 0;
    if (name == NULL) /* a bare "?" stays NULL */
      continue;
    while (at < scope->n && strcmp(scope->given[at].name, name + 1) != 0)
      at++;
    rc = at < scope->n ? scope_bind_given(statement, i, &scope->given[at])
                       : scope_bind_option(scope, statement, i, name + 1);
  }
  return rc;
}

/* ---- running ------------------------------------------------------------- */

/* Skips spaces, semicolons and comments.  Anything else is a statement. */
static const char *scope_skip(const char *sql) {
  for (;;) {
    const char *end;
    while (*sql && strchr(" \t\r\n;", *sql))
      sql++;
    if (strncmp(sql, "--", 2) == 0)
      end = strchr(sql, '\n');
    else if (strncmp(sql, "/*", 2) == 0)
      end = strstr(sql + 2, "*/"), end = end ? end + 1 : NULL;
    else
      return sql;
    sql = end ? end + 1 : sql + strlen(sql);
  }
}

/* Prepares and binds one statement of a text that has no {name} any more. */
static int scope_prepare(const struct ext_scope *scope, const char *sql,
                         sqlite3_stmt **statement, const char **tail,
                         char **err) {
  const char *rest;
  int rc = sqlite3_prepare_v2(scope->db, sql, -1, statement, &rest);
  if (rc == SQLITE_OK && *statement == NULL)
    return ext_error(err, SQLITE_ERROR, "there is no statement");
  if (rc == SQLITE_OK)
    rc = scope_bind(scope, *statement);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, scope->db, rc);
  rest = scope_skip(rest);
  if (tail)
    *tail = rest;
  return tail || *rest == 0
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR, "more than one statement");
}

int ext_scope_prepare(const struct ext_scope *scope, const char *sql,
                      sqlite3_stmt **statement, const char **tail, char **err) {
  char *expanded = NULL;
  int rc;
  emb_check(ext_scope_valid(scope));
  if (tail)
    return scope_prepare(scope, sql, statement, tail, err);
  rc = ext_tables_expand(scope->prefix, sql, &expanded);
  if (rc == SQLITE_OK)
    rc = scope_prepare(scope, expanded, statement, NULL, err);
  sqlite3_free(expanded);
  return rc;
}

/* Reads at most one row. */
static int scope_row(const struct ext_scope *scope, const char *sql,
                     sqlite3_stmt **row, char **err) {
  int rc = ext_scope_prepare(scope, sql, row, NULL, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = sqlite3_step(*row);
  return rc == SQLITE_ROW || rc == SQLITE_DONE
             ? SQLITE_OK
             : ext_sql_error(err, scope->db, rc);
}

int ext_scope_run(const struct ext_scope *scope, const char *sql, char **err) {
  sqlite3_stmt *statement = NULL;
  int rc = ext_scope_prepare(scope, sql, &statement, NULL, err);
  if (rc == SQLITE_OK) {
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
      continue;
    rc = rc == SQLITE_DONE ? SQLITE_OK : ext_sql_error(err, scope->db, rc);
  }
  sqlite3_finalize(statement);
  return rc;
}

int ext_scope_number(const struct ext_scope *scope, const char *sql,
                     sqlite3_int64 *number, char **err) {
  sqlite3_stmt *row = NULL;
  int rc = scope_row(scope, sql, &row, err);
  *number = rc == SQLITE_OK && sqlite3_data_count(row)
                ? sqlite3_column_int64(row, 0)
                : 0;
  sqlite3_finalize(row);
  return rc;
}

int ext_scope_string(const struct ext_scope *scope, const char *sql,
                     char **text, char **err) {
  sqlite3_stmt *row = NULL;
  int rc = scope_row(scope, sql, &row, err);
  *text = NULL;
  if (rc == SQLITE_OK && sqlite3_data_count(row) &&
      sqlite3_column_type(row, 0) != SQLITE_NULL) {
    const char *found = (const char *)sqlite3_column_text(row, 0);
    *text = found ? sqlite3_mprintf("%s", found) : NULL;
    rc = *text ? SQLITE_OK : SQLITE_NOMEM;
  }
  sqlite3_finalize(row);
  return rc;
}

int ext_scope_option(const struct ext_scope *scope, const char *name,
                     struct ext_given *option, char **err) {
  sqlite3_stmt *row = NULL;
  int rc = SQLITE_OK;
  *option = (struct ext_given){.name = name, .type = SQLITE_NULL};
  if (scope->options == NULL)
    return SQLITE_OK;
  rc = option_find(scope, name, &row);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, scope->db, rc);
  if (row) {
    option->type = sqlite3_column_type(row, 0);
    option->integer = sqlite3_column_int64(row, 0);
    option->real = sqlite3_column_double(row, 0);
  }
  sqlite3_finalize(row);
  return SQLITE_OK;
}
