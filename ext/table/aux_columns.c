/* SPDX-License-Identifier: MIT
**
** aux_columns.c -- the shadow table items_rows as a whole: creates, renames,
** drops, cleans up and checks it.
**
** INDEXED   creates an ordinary index.  Its name contains part of the store's
**           uuid, because it does not change when the table is renamed, and
**           another table may then take the old table name.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Keys per step. */
#define TIDY_KEYS 4096

/* ---- with the table ------------------------------------------------------ */

static int create_indexes(struct ext_table *table, char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int rc = SQLITE_OK;
  for (int i = 0; i < options->aux_count && rc == SQLITE_OK; i++)
    if (options->aux[i].indexed)
      rc = ext_exec(table->conn->db, err,
                    "CREATE INDEX \"%w\".\"%w_" EXT_AUX "_%w_%.8s\" ON "
                    "\"%w_" EXT_AUX "\"(\"%w\")",
                    table->schema, table->name, options->aux[i].name,
                    table->link->uuid, table->name, options->aux[i].name);
  return rc;
}

int ext_aux_create(struct ext_table *table, char **err) {
  sqlite3_str *columns;
  char *text;
  int rc;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  columns = sqlite3_str_new(table->conn->db);
  ext_aux_declare(&ext_vtab(table)->options, columns);
  rc = sqlite3_str_errcode(columns);
  text = sqlite3_str_finish(columns);
  if (rc == SQLITE_OK)
    rc = ext_exec(table->conn->db, err,
                  "CREATE TABLE \"%w\".\"%w_" EXT_AUX
                  "\"(id INTEGER PRIMARY KEY%s)",
                  table->schema, table->name, text);
  sqlite3_free(text);
  return rc == SQLITE_OK ? create_indexes(table, err) : rc;
}

int ext_aux_rename(struct ext_table *table, const char *name, char **err) {
  if (!ext_aux_is(table))
    return SQLITE_OK;
  ext_aux_forget(table);
  ext_aux_sets_free(table);
  return ext_exec(table->conn->db, err,
                  "ALTER TABLE \"%w\".\"%w_" EXT_AUX
                  "\" RENAME TO \"%w_" EXT_AUX "\"",
                  table->schema, table->name, name);
}

int ext_aux_drop(struct ext_table *table, char **err) {
  if (!ext_aux_is(table))
    return SQLITE_OK;
  ext_aux_forget(table);
  ext_aux_sets_free(table);
  return ext_exec(table->conn->db, err,
                  "DROP TABLE IF EXISTS \"%w\".\"%w_" EXT_AUX "\"",
                  table->schema, table->name);
}

/* ---- leftover rows ------------------------------------------------------- */

/* Reads the next keys, from *last on; sets *last to the last key read. */
static int tidy_read(struct ext_table *table, sqlite3_stmt *select,
                     int64_t *last, int64_t *keys, size_t *n, char **err) {
  int rc = SQLITE_OK;
  *n = 0;
  sqlite3_bind_int64(select, 1, *last);
  while (*n < TIDY_KEYS && sqlite3_step(select) == SQLITE_ROW)
    keys[(*n)++] = sqlite3_column_int64(select, 0);
  rc = sqlite3_reset(select);
  if (*n)
    *last = keys[*n - 1];
  return rc == SQLITE_OK ? rc : ext_aux_error(table, rc, err);
}

/* Deletes the rows of keys that the store does not have. */
static int tidy_some(struct ext_table *table, const int64_t *keys, size_t n,
                     char **err) {
  uint8_t found[TIDY_KEYS];
  int rc = emb_exists(table->link->session, keys, n, found);
  if (rc)
    return ext_link_error(table->link, rc, err);
  for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
    if (!found[i])
      rc = ext_aux_delete(table, keys[i], err);
  return rc;
}

int ext_aux_optimize(struct ext_table *table, char **err) {
  sqlite3_stmt *select = NULL;
  int64_t *keys, last = INT64_MIN;
  size_t n = TIDY_KEYS;
  int rc = SQLITE_OK, is_first = 1;
  char *sql;
  if (!ext_aux_is(table))
    return SQLITE_OK;
  keys = sqlite3_malloc64(TIDY_KEYS * sizeof *keys);
  sql = sqlite3_mprintf("SELECT id FROM \"%w\".\"%w_" EXT_AUX
                        "\" WHERE id >= ?1 ORDER BY id",
                        table->schema, table->name);
  if (keys == NULL || sql == NULL)
    rc = SQLITE_NOMEM;
  else if ((rc = sqlite3_prepare_v2(table->conn->db, sql, -1, &select, NULL)))
    rc = ext_aux_error(table, rc, err);
  while (rc == SQLITE_OK && n == TIDY_KEYS && (is_first || last < INT64_MAX)) {
    last += !is_first;
    is_first = 0;
    rc = tidy_read(table, select, &last, keys, &n, err);
    if (rc == SQLITE_OK)
      rc = tidy_some(table, keys, n, err);
  }
  sqlite3_finalize(select);
  sqlite3_free(sql);
  sqlite3_free(keys);
  return rc;
}

/* ---- the check ----------------------------------------------------------- */

/* *good: does the shadow table have this column, with this type, and is it the
** key exactly if is_key is set? */
static int verify_column(struct ext_table *table, const char *name,
                         const char *type, int is_key, int *good, char **err) {
  const char *is = NULL;
  int key = 0;
  char *shadow = sqlite3_mprintf("%s_" EXT_AUX, table->name);
  int rc = shadow ? sqlite3_table_column_metadata(table->conn->db,
                                                  table->schema, shadow, name,
                                                  &is, NULL, NULL, &key, NULL)
                  : SQLITE_NOMEM;
  sqlite3_free(shadow);
  *good = rc == SQLITE_OK && sqlite3_stricmp(is ? is : "", type) == 0 &&
          (key != 0) == is_key;
  return rc == SQLITE_ERROR ? SQLITE_OK
                            : ext_sql_error(err, table->conn->db, rc);
}

int ext_aux_verify(struct ext_table *table,
                   void (*report)(void *arg, const char *line), void *arg,
                   char **err) {
  const struct ext_options *options = &ext_vtab(table)->options;
  int good = 1, rc = SQLITE_OK;
  if (ext_aux_is(table))
    rc = verify_column(table, "id", "INTEGER", 1, &good, err);
  for (int i = -1; i < options->aux_count && rc == SQLITE_OK; i++) {
    const char *name = i < 0 ? "id" : options->aux[i].name;
    if (i >= 0)
      rc = verify_column(table, name, options->aux[i].type, 0, &good, err);
    if (rc == SQLITE_OK && !good) {
      char *line =
          sqlite3_mprintf("%s_" EXT_AUX " is missing or was altered: column %s",
                          table->name, name);
      if (line == NULL)
        return SQLITE_NOMEM;
      report(arg, line);
      sqlite3_free(line);
      break;
    }
  }
  return rc;
}
