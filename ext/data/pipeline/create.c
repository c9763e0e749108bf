/* SPDX-License-Identifier: MIT
**
** create.c -- emb_pipeline_create([prefix]) and emb_models_create([prefix]):
** make the tables of schema.sql and models.sql in the schema main.
**
** Each returns the number of tables that it has made: all, or 0 if everything
** that it would make is there already.  If only a part is there, or a name is
** that of something else, it is an error and makes nothing.  Names are compared
** by kind, not by columns: the user may have added columns or changed views.
** A temporary table or view of such a name is an error, too, because SQLite
** would find it instead of ours.
**
** CRASH     Each call is one savepoint.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define CREATE_SAVEPOINT "emb_tables"

/* Makes the statements of one function. */
struct create {
  struct ext_conn *conn;
  const char *function;
  const char *needs; /* a table that must be there; or NULL */
  const struct ext_schema_text *texts;
  size_t n;
  char *prefix;
};

/* What there is of them: objects, not texts, and NULL: none. */
struct create_found {
  const struct ext_schema_text *there, *missing, *other;
  char *kind; /* of `other` */
};

/* Triggers have names of their own, so one may be called like a table. */
static const char create_find_sql[] =
    "SELECT CASE WHEN temporary THEN 'temporary ' ELSE '' END || type FROM"
    " (SELECT type, name, 0 AS temporary FROM main.sqlite_schema UNION ALL"
    "  SELECT type, name, 1 FROM temp.sqlite_schema)"
    " WHERE lower(name) = lower(:prefix || :name)"
    "  AND (type = 'trigger') = (:kind = 'trigger')"
    " ORDER BY temporary DESC LIMIT 1";

/* ---- what is there ------------------------------------------------------- */

/* The kind of what has the name already; NULL: nothing.  Free it with
** sqlite3_free. */
static int create_kind(const struct create *create, const char *name,
                       const char *wanted, char **kind, char **err) {
  struct ext_scope scope = {.db = create->conn->db};
  ext_scope_text(&scope, "prefix", create->prefix);
  ext_scope_text(&scope, "name", name);
  ext_scope_text(&scope, "kind", wanted);
  return ext_scope_string(&scope, create_find_sql, kind, err);
}

static int create_look(const struct create *create,
                       const struct ext_schema_text *text,
                       struct create_found *found, char **err) {
  char *kind = NULL;
  int rc = create_kind(create, text->name, text->kind, &kind, err);
  if (rc != SQLITE_OK)
    return rc;
  if (kind == NULL) {
    found->missing = found->missing ? found->missing : text;
  } else if (strcmp(kind, text->kind) == 0) {
    found->there = found->there ? found->there : text;
  } else if (found->other == NULL) {
    found->other = text;
    found->kind = kind;
    return SQLITE_OK;
  }
  sqlite3_free(kind);
  return SQLITE_OK;
}

static int create_find(const struct create *create, struct create_found *found,
                       char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < create->n && rc == SQLITE_OK; i++)
    if (create->texts[i].name)
      rc = create_look(create, &create->texts[i], found, err);
  return rc;
}

static int create_needs(const struct create *create, char **err) {
  char *kind = NULL;
  int rc = create->needs
               ? create_kind(create, create->needs, "table", &kind, err)
               : SQLITE_OK;
  if (rc == SQLITE_OK && create->needs &&
      (kind == NULL || strcmp(kind, "table") != 0))
    rc = ext_error(err, SQLITE_ERROR,
                   "%s: there is no table %s%s; SELECT "
                   "emb_pipeline_create('%s') makes it",
                   create->function, create->prefix, create->needs,
                   create->prefix);
  sqlite3_free(kind);
  return rc;
}

/* Checks that there is all, and nothing to do, or nothing. */
static int create_check(const struct create *create,
                        const struct create_found *found, char **err) {
  if (found->other)
    return ext_error(err, SQLITE_ERROR,
                     "%s: %s %s%s exists already; give another prefix, as in "
                     "%s('my_')",
                     create->function, found->kind, create->prefix,
                     found->other->name, create->function);
  if (found->there && found->missing)
    return ext_error(err, SQLITE_ERROR,
                     "%s: %s %s%s exists already, but %s %s%s does not; give "
                     "another prefix, as in %s('my_')",
                     create->function, found->there->kind, create->prefix,
                     found->there->name, found->missing->kind, create->prefix,
                     found->missing->name, create->function);
  return SQLITE_OK;
}

/* ---- making it ----------------------------------------------------------- */

static int create_one(const struct create *create,
                      const struct ext_schema_text *text, char **err) {
  char *sql = NULL;
  int rc = ext_tables_expand(create->prefix, text->sql, &sql);
  if (rc == SQLITE_OK)
    rc = ext_exec(create->conn->db, err, "%s", sql);
  sqlite3_free(sql);
  return rc;
}

static int create_all(const struct create *create, sqlite3_int64 *tables,
                      char **err) {
  struct ext_savepoint savepoint;
  int rc =
      ext_savepoint_begin(&savepoint, create->conn->db, CREATE_SAVEPOINT, err);
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < create->n && rc == SQLITE_OK; i++) {
    rc = create_one(create, &create->texts[i], err);
    *tables +=
        create->texts[i].kind && strcmp(create->texts[i].kind, "table") == 0;
  }
  return ext_savepoint_end(&savepoint, rc, err);
}

/* `given`: NULL, or the argument `prefix`. */
static int create_run(struct create *create, sqlite3_value *given,
                      sqlite3_int64 *tables, char **err) {
  struct create_found found = {0};
  int rc = ext_conn_check(create->conn, err);
  if (rc == SQLITE_OK)
    rc = ext_conn_may_write(create->conn, err);
  if (rc != SQLITE_OK)
    return rc;
  if (given) {
    rc = ext_tables_prefix(given, &create->prefix, err);
  } else {
    create->prefix = sqlite3_mprintf("%s", EXT_TABLES_PREFIX);
    rc = create->prefix ? SQLITE_OK : SQLITE_NOMEM;
  }
  ext_conn_learn_encoding(create->conn);
  if (rc == SQLITE_OK)
    rc = create_needs(create, err);
  if (rc == SQLITE_OK)
    rc = create_find(create, &found, err);
  if (rc == SQLITE_OK)
    rc = create_check(create, &found, err);
  sqlite3_free(found.kind);
  return rc == SQLITE_OK && found.missing ? create_all(create, tables, err)
                                          : rc;
}

static void create_call(sqlite3_context *context, int argc,
                        sqlite3_value **argv, struct create *create) {
  sqlite3_int64 tables = 0;
  char *err = NULL;
  int rc;
  create->conn = ext_fn_conn(context);
  rc = create_run(create, argc ? argv[0] : NULL, &tables, &err);
  sqlite3_free(create->prefix);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else
    sqlite3_result_int64(context, tables);
}

void ext_fn_pipeline_create(sqlite3_context *context, int argc,
                            sqlite3_value **argv) {
  struct create create = {.function = "emb_pipeline_create",
                          .texts = ext_schema_pipeline,
                          .n = ext_schema_pipeline_n};
  create_call(context, argc, argv, &create);
}

void ext_fn_models_create(sqlite3_context *context, int argc,
                          sqlite3_value **argv) {
  struct create create = {.function = "emb_models_create",
                          .needs = "trained_model",
                          .texts = ext_schema_models,
                          .n = ext_schema_models_n};
  create_call(context, argc, argv, &create);
}
