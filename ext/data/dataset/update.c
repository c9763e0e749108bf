/* SPDX-License-Identifier: MIT
**
** update.c -- xUpdate: inserts, changes and deletes samples.
**
** An inserted sample is a row of NAME_rows, in SQLite's own file rather than in
** one of ours.  There it is part of the transaction, atomic after a crash,
** rolled back to a savepoint, included in a backup, and seen by other
** processes, all without a line of code; samples in large numbers come in
** files.  A file is never written: deleting one of its samples sets a bit, and
** changing a sample sets the bit and adds a row with its key.
*/
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Where the sample is: in a file, at its place; in a row; or nowhere. */
enum { SAMPLES_FOUND_NOT, SAMPLES_FOUND_FILE, SAMPLES_FOUND_ROW };
struct samples_found {
  int where;
  struct ext_samples_file *file; /* the map's */
  uint64_t at;
};

static int samples_update_find(struct ext_samples *table, sqlite3_int64 key,
                               struct samples_found *found, char **err) {
  sqlite3_stmt *row;
  int gone = 1;
  int rc = SQLITE_OK;
  memset(found, 0, sizeof *found);
  if (table->map == NULL)
    rc = ext_samples_map_new(table, &table->map);
  if (rc != SQLITE_OK)
    return rc;
  /* The map may be from before a rollback. */
  ext_samples_map_forget(table->map);
  rc = ext_samples_map_file(table->map, key, &found->file, err);
  if (rc == SQLITE_OK && found->file) {
    found->at = (uint64_t)key - (uint64_t)found->file->first;
    rc = ext_samples_map_gone(table->map, found->file, found->at, &gone, err);
    found->where = gone ? SAMPLES_FOUND_NOT : SAMPLES_FOUND_FILE;
  }
  if (rc == SQLITE_OK && gone) {
    rc = ext_samples_map_row(table->map, key, &row, err);
    if (rc == SQLITE_OK && row) {
      sqlite3_reset(row);
      found->where = SAMPLES_FOUND_ROW;
    }
  }
  return rc;
}

static int samples_row_delete(struct ext_samples *table, sqlite3_int64 key,
                              char **err) {
  sqlite3_stmt *statement = NULL;
  int rc = ext_samples_prepare(table, "DELETE FROM @rows WHERE key = ?1",
                               &statement, err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_int64(statement, 1, key);
  if (rc == SQLITE_OK)
    rc = ext_samples_run(table, statement, err);
  sqlite3_finalize(statement);
  return rc;
}

static int samples_update_delete(struct ext_samples *table, sqlite3_int64 key,
                                 const struct samples_found *found,
                                 char **err) {
  switch (found->where) {
  case SAMPLES_FOUND_FILE:
    return ext_samples_map_delete(table->map, found->file, found->at, err);
  case SAMPLES_FOUND_ROW:
    return samples_row_delete(table, key, err);
  default:
    return SQLITE_OK;
  }
}

/* Writes the other column values of a row; argv is xUpdate's. */
static int samples_row_write(struct ext_samples *table, int64_t key,
                             int64_t time, const char *dataset,
                             sqlite3_value **argv, char **err) {
  sqlite3_stmt *row = NULL;
  int rc = ext_samples_prepare(table,
                               "INSERT INTO @rows(key, timestamp, label, "
                               "dataset, payload) VALUES(?, ?, ?, ?, ?)",
                               &row, err);
  if (rc == SQLITE_OK) {
    sqlite3_bind_int64(row, 1, key);
    sqlite3_bind_int64(row, 2, time);
    sqlite3_bind_value(row, 3, argv[2 + EXT_SAMPLES_LABEL]);
    sqlite3_bind_text(row, 4, dataset, -1, SQLITE_STATIC);
    sqlite3_bind_value(row, 5, argv[2 + EXT_SAMPLES_PAYLOAD]);
    rc = ext_samples_run(table, row, err);
  }
  sqlite3_finalize(row);
  return rc;
}

/* The current time from SQL: a test can set SQLite's clock. */
static int samples_row_now(struct ext_samples *table, int64_t *time,
                           char **err) {
  sqlite3_stmt *statement = NULL;
  sqlite3_int64 now;
  int found;
  int rc = ext_samples_prepare(table, "SELECT unixepoch()", &statement, err);
  if (rc == SQLITE_OK)
    rc = ext_samples_number(table, statement, &found, &now, err);
  if (rc == SQLITE_OK)
    *time = now;
  sqlite3_finalize(statement);
  return rc;
}

static int samples_is_null(sqlite3_value *value) {
  return sqlite3_value_type(value) == SQLITE_NULL;
}

/* Checks dataset and timestamp before anything is written. */
static int samples_row_check(struct ext_samples *table, sqlite3_value **argv,
                             int64_t *time, const char **dataset, char **err) {
  int rc = ext_samples_dataset(argv[2 + EXT_SAMPLES_DATASET], dataset, err);
  if (rc != SQLITE_OK)
    return rc;
  return samples_is_null(argv[2 + EXT_SAMPLES_TIMESTAMP])
             ? samples_row_now(table, time, err)
             : ext_samples_time(argv[2 + EXT_SAMPLES_TIMESTAMP], time, err);
}

/* The texts are SQLite's own, without "emb: " in front. */
static int samples_constraint_failed(struct ext_samples *table,
                                     const char *kind) {
  sqlite3_free(table->base.zErrMsg);
  table->base.zErrMsg =
      sqlite3_mprintf("%s constraint failed: %s.key", kind, table->name);
  return SQLITE_CONSTRAINT;
}

/* Treats a key in use as the statement's ON CONFLICT says; *skip: the row is
** left out. */
static int samples_update_conflict(struct ext_samples *table, int64_t key,
                                   const struct samples_found *found, int *skip,
                                   char **err) {
  *skip = 0;
  if (found->where == SAMPLES_FOUND_NOT)
    return SQLITE_OK;
  switch (sqlite3_vtab_on_conflict(table->db)) {
  case SQLITE_REPLACE:
    return samples_update_delete(table, key, found, err);
  case SQLITE_IGNORE:
    *skip = 1;
    return SQLITE_OK;
  default:
    return samples_constraint_failed(table, "UNIQUE");
  }
}

static int samples_update_insert(struct ext_samples *table,
                                 sqlite3_value **argv, sqlite3_int64 *key,
                                 char **err) {
  sqlite3_value *given = argv[1];
  const char *dataset;
  struct samples_found found;
  int64_t time, own = 0;
  int skip = 0, rc;
  if (samples_is_null(given))
    given = argv[2 + EXT_SAMPLES_KEY];
  rc = samples_row_check(table, argv, &time, &dataset, err);
  if (rc == SQLITE_OK && !samples_is_null(given)) {
    rc = ext_key_from_value(given, "key", &own, err);
    if (rc == SQLITE_OK)
      rc = samples_update_find(table, own, &found, err);
    if (rc == SQLITE_OK)
      rc = samples_update_conflict(table, own, &found, &skip, err);
    if (rc != SQLITE_OK || skip)
      return rc;
  }
  if (rc == SQLITE_OK)
    rc = ext_samples_keys(table, given, 1, &own, err);
  if (rc == SQLITE_OK)
    rc = samples_row_write(table, own, time, dataset, argv, err);
  *key = own;
  return rc;
}

/* The new key is in the key column or, if that is unchanged, in the rowid. */
static int samples_update_key(struct ext_samples *table, sqlite3_value **argv,
                              int64_t *key, char **err) {
  sqlite3_value *value = argv[2 + EXT_SAMPLES_KEY];
  int64_t old = sqlite3_value_int64(argv[0]);
  int rc;
  if (samples_is_null(value))
    return samples_constraint_failed(table, "NOT NULL");
  rc = ext_key_from_value(value, "key", key, err);
  return rc == SQLITE_OK && *key == old
             ? ext_key_from_value(argv[1], "key", key, err)
             : rc;
}

static int samples_update_change(struct ext_samples *table,
                                 sqlite3_value **argv, char **err) {
  sqlite3_int64 old = sqlite3_value_int64(argv[0]);
  const char *dataset;
  struct samples_found from, to;
  int64_t time, key = 0;
  int skip = 0;
  int rc = samples_row_check(table, argv, &time, &dataset, err);
  if (rc == SQLITE_OK)
    rc = samples_update_key(table, argv, &key, err);
  if (rc == SQLITE_OK && key != old) {
    rc = samples_update_find(table, key, &to, err);
    if (rc == SQLITE_OK)
      rc = samples_update_conflict(table, key, &to, &skip, err);
  }
  if (rc == SQLITE_OK && !skip)
    rc = samples_update_find(table, old, &from, err);
  if (rc != SQLITE_OK || skip)
    return rc;
  rc = samples_update_delete(table, old, &from, err);
  if (rc == SQLITE_OK)
    rc = ext_samples_keys_taken(table, key, 1, err);
  return rc == SQLITE_OK
             ? samples_row_write(table, key, time, dataset, argv, err)
             : rc;
}

/* Registers a file or runs a command: both use columns of their own. */
static int samples_update_special(struct ext_samples *table,
                                  sqlite3_value **argv, char **err) {
  sqlite3_value *command = argv[2 + EXT_SAMPLES_COMMAND];
  struct ext_samples_new file = {.key = argv[2 + EXT_SAMPLES_KEY],
                                 .timestamp = argv[2 + EXT_SAMPLES_TIMESTAMP],
                                 .dataset = argv[2 + EXT_SAMPLES_DATASET],
                                 .path = argv[2 + EXT_SAMPLES_PATH],
                                 .options = argv[2 + EXT_SAMPLES_OPTIONS]};
  if (!samples_is_null(argv[1]))
    file.key = argv[1];
  if (!samples_is_null(argv[2 + EXT_SAMPLES_PAYLOAD]) ||
      !samples_is_null(argv[2 + EXT_SAMPLES_LABEL]))
    return ext_error(err, SQLITE_ERROR,
                     "payload and label of a file's samples cannot be written; "
                     "they are in the file");
  return samples_is_null(command)
             ? ext_samples_add(table, &file, err)
             : ext_samples_command(table, command, &file, err);
}

int ext_samples_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
                       sqlite3_int64 *key) {
  struct ext_samples *table = (struct ext_samples *)vtab;
  struct samples_found found;
  char *err = NULL;
  int rc = ext_conn_check(table->client->conn, &err);
  int is_insert = argc > 1 && samples_is_null(argv[0]);
  if (rc != SQLITE_OK)
    return ext_vtab_error(vtab, rc, err);
  if (argc == 1) {
    rc = samples_update_find(table, sqlite3_value_int64(argv[0]), &found, &err);
    if (rc == SQLITE_OK)
      rc = samples_update_delete(table, sqlite3_value_int64(argv[0]), &found,
                                 &err);
  } else if (is_insert && (!samples_is_null(argv[2 + EXT_SAMPLES_PATH]) ||
                           !samples_is_null(argv[2 + EXT_SAMPLES_COMMAND]))) {
    rc = samples_update_special(table, argv, &err);
  } else if (is_insert && !samples_is_null(argv[2 + EXT_SAMPLES_OPTIONS])) {
    rc = ext_error(&err, SQLITE_ERROR, "options without a path");
  } else if (is_insert) {
    rc = samples_update_insert(table, argv, key, &err);
  } else {
    rc = samples_update_change(table, argv, &err);
  }
  return ext_vtab_error(vtab, rc, err);
}
