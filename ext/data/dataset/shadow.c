/* SPDX-License-Identifier: MIT
**
** shadow.c -- the shadow tables, and SQL on them.
*/
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static const struct {
  const char *suffix, *columns;
} shadows[] = {
    {"files", "file INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER "
              "UNIQUE, gone INTEGER NOT NULL, least INTEGER NOT NULL, most "
              "INTEGER NOT NULL, bytes INTEGER NOT NULL, changed INTEGER NOT "
              "NULL, checksum INTEGER NOT NULL, whole INTEGER NOT NULL, path "
              "TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, format TEXT NOT "
              "NULL"},
    {"blocks", "block INTEGER PRIMARY KEY, records INTEGER NOT NULL, least "
               "INTEGER NOT NULL, most INTEGER NOT NULL, spans BLOB"},
    {"gone", "part INTEGER PRIMARY KEY, bits BLOB NOT NULL"},
    {"rows", "key INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, label, "
             "dataset TEXT NOT NULL, payload"},
    {"config", "name TEXT PRIMARY KEY, value"},
};
#define SHADOWS (sizeof shadows / sizeof shadows[0])

int ext_samples_shadow_is(const char *suffix) {
  for (size_t i = 0; i < SHADOWS; i++)
    if (sqlite3_stricmp(suffix, shadows[i].suffix) == 0)
      return 1;
  return 0;
}

int ext_samples_shadow_create(struct ext_samples *table, char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < SHADOWS && rc == SQLITE_OK; i++)
    rc = ext_exec(table->db, err, "CREATE TABLE \"%w\".\"%w_%s\"(%s)",
                  table->schema, table->name, shadows[i].suffix,
                  shadows[i].columns);
  if (rc == SQLITE_OK)
    rc = ext_exec(table->db, err,
                  "INSERT INTO \"%w\".\"%w_config\" VALUES('next', 1)",
                  table->schema, table->name);
  return rc;
}

int ext_samples_shadow_drop(struct ext_samples *table, char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < SHADOWS && rc == SQLITE_OK; i++)
    rc = ext_exec(table->db, err, "DROP TABLE IF EXISTS \"%w\".\"%w_%s\"",
                  table->schema, table->name, shadows[i].suffix);
  return rc;
}

int ext_samples_shadow_rename(struct ext_samples *table, const char *name,
                              char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < SHADOWS && rc == SQLITE_OK; i++)
    rc = ext_exec(
        table->db, err, "ALTER TABLE \"%w\".\"%w_%s\" RENAME TO \"%w_%s\"",
        table->schema, table->name, shadows[i].suffix, name, shadows[i].suffix);
  return rc;
}

/* ---- statements ---------------------------------------------------------- */

/* The format names tables as @files and so on. */
int ext_samples_prepare(struct ext_samples *table, const char *format,
                        sqlite3_stmt **statement, char **err) {
  sqlite3_str *sql = sqlite3_str_new(table->db);
  char *text;
  int rc;
  for (const char *at = format; *at; at++) {
    size_t n = strcspn(at, "@");
    sqlite3_str_append(sql, at, (int)n);
    at += n;
    if (*at == 0)
      break;
    n = text_name(at + 1);
    sqlite3_str_appendf(sql, "\"%w\".\"%w_%.*s\"", table->schema, table->name,
                        (int)n, at + 1);
    at += n;
  }
  text = sqlite3_str_finish(sql);
  if (text == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_prepare_v3(table->db, text, -1, SQLITE_PREPARE_PERSISTENT,
                          statement, NULL);
  sqlite3_free(text);
  return ext_sql_error(err, table->db, rc);
}

int ext_samples_run(struct ext_samples *table, sqlite3_stmt *statement,
                    char **err) {
  int rc;
  sqlite3_step(statement);
  rc = sqlite3_reset(statement);
  return ext_sql_error(err, table->db, rc);
}

int ext_samples_number(struct ext_samples *table, sqlite3_stmt *statement,
                       int *found, sqlite3_int64 *number, char **err) {
  *found = sqlite3_step(statement) == SQLITE_ROW &&
           sqlite3_column_type(statement, 0) != SQLITE_NULL;
  *number = *found ? sqlite3_column_int64(statement, 0) : 0;
  return ext_sql_error(err, table->db, sqlite3_reset(statement));
}
