/* SPDX-License-Identifier: MIT
**
** fn_file.c -- snapshots as files.
**
**   emb_snapshot_export(table, name, path [, options])   number of rows written
**   emb_snapshot_restore(table, path)                    number of rows read
**
**     CREATE TABLE emb_snapshot_file(
**       key INTEGER, vector BLOB, version INTEGER, updated_at INTEGER,
**       frequency INTEGER, deleted INTEGER, path HIDDEN)
**
** SELECT ... FROM emb_snapshot_file('monday.emb') reads a file as it is, all
** rows or those with key = ? or IN; several vectors come as one.  None of these
** may stand in the schema, so a path never comes from there.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static int read_path(sqlite3_value *value, const char **path, char **err) {
  *path = (const char *)sqlite3_value_text(value);
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH, "path must be TEXT, got %s",
                     emb_value_type_name(value));
  if (*path == NULL)
    return SQLITE_NOMEM;
  if (strlen(*path) != (size_t)sqlite3_value_bytes(value))
    return ext_error(err, SQLITE_MISMATCH, "path has a zero byte");
  return SQLITE_OK;
}

/* ---- functions ----------------------------------------------------------- */

static void fn_export(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct ext_table *table;
  const char *path, *name;
  uint64_t rows = 0;
  char *err = NULL;
  int rc = ext_fn_table(sqlite3_user_data(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = read_path(argv[2], &path, &err);
  name = (const char *)sqlite3_value_text(argv[1]);
  if (rc == SQLITE_OK && name == NULL)
    rc = ext_error(&err, SQLITE_MISMATCH,
                   "a snapshot's name must be TEXT, got NULL");
  if (rc == SQLITE_OK) {
    rc = emb_snapshot_export(
        table->link->session, name, path,
        argc > 3 ? (const char *)sqlite3_value_text(argv[3]) : NULL, &rows,
        NULL);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)rows);
  else
    ext_result_error(context, rc, err);
}

static void fn_restore(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_table *table;
  const char *path;
  uint64_t rows = 0;
  char *err = NULL;
  int rc =
      ext_fn_table_to_write(sqlite3_user_data(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    rc = read_path(argv[1], &path, &err);
  if (rc == SQLITE_OK) {
    rc = emb_snapshot_restore(table->link->session, path, &rows);
    if (rc)
      rc = ext_link_error(table->link, rc, &err);
  }
  if (rc == SQLITE_OK)
    sqlite3_result_int64(context, (sqlite3_int64)rows);
  else
    ext_result_error(context, rc, err);
}

/* ---- emb_snapshot_file(path) --------------------------------------------- */

enum { KEY = 0, VECTOR, VERSION, UPDATED_AT, FREQUENCY, DELETED, PATH };
enum { GIVEN_PATH = 1, GIVEN_KEY = 2 };

struct file_cursor {
  sqlite3_vtab_cursor base; /* must be first */
  emb_file *file;           /* stays open while IN asks for one key after
                               the other */
  char *path;
  float *vector;
  size_t bytes; /* of it */
  emb_file_row row;
  int has_row, is_one, tracks;
};

static int connect(sqlite3 *db, void *conn, int argc, const char *const *argv,
                   sqlite3_vtab **out, char **message) {
  (void)argc, (void)argv, (void)message;
  return ext_tvf_connect(
      db, conn,
      "CREATE TABLE x(key INTEGER, vector BLOB, version INTEGER, "
      "updated_at INTEGER, frequency INTEGER, deleted INTEGER, path HIDDEN)",
      out);
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  int n = 0, path = -1, key = -1;
  (void)vtab;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
    if (constraint->op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (constraint->iColumn == PATH && !constraint->usable)
      return SQLITE_CONSTRAINT;
    if (constraint->iColumn == PATH)
      path = i;
    else if (constraint->iColumn == KEY && constraint->usable)
      key = i;
  }
  info->idxNum = 0;
  if (path >= 0) {
    info->idxNum |= GIVEN_PATH;
    info->aConstraintUsage[path].argvIndex = ++n;
    info->aConstraintUsage[path].omit = 1;
  }
  if (key >= 0) { /* a key of another type is compared by SQLite */
    info->idxNum |= GIVEN_KEY;
    info->aConstraintUsage[key].argvIndex = ++n;
  }
  info->estimatedRows = key >= 0 ? 1 : 1000000;
  info->estimatedCost = path < 0 ? 1e12 : key >= 0 ? 100 : 1000000;
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  struct file_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)vtab;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void forget_file(struct file_cursor *cursor) {
  emb_file_close(cursor->file);
  cursor->file = NULL;
  sqlite3_free(cursor->path);
  cursor->path = NULL;
  sqlite3_free(cursor->vector);
  cursor->vector = NULL;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  forget_file((struct file_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int open_file(struct file_cursor *cursor, const char *path, char **err) {
  emb_err error = {0, ""};
  emb_file_info info;
  int rc;
  if (cursor->file != NULL && strcmp(cursor->path, path) == 0) {
    emb_file_rewind(cursor->file);
    return SQLITE_OK;
  }
  forget_file(cursor);
  rc = emb_file_open(path, &cursor->file, &error);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  emb_file_about(cursor->file, &info);
  cursor->tracks = info.tracks;
  cursor->bytes = info.dim * sizeof(float);
  cursor->vector = sqlite3_malloc64(cursor->bytes);
  cursor->path = sqlite3_mprintf("%s", path);
  if (cursor->vector == NULL || cursor->path == NULL) {
    forget_file(cursor);
    return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  emb_err error = {0, ""};
  char *err = NULL;
  int rc;
  cursor->has_row = 0;
  if (cursor->is_one)
    return SQLITE_OK;
  rc = emb_file_next(cursor->file, &cursor->row, cursor->vector,
                     &cursor->has_row, &error);
  if (rc)
    rc = ext_engine_error(&err, rc, error.text);
  return ext_vtab_error(base->pVtab, rc, err);
}

/* An INTEGER, or what SQLite compares as one; no other key is there. */
static int find_key(struct file_cursor *cursor, sqlite3_value *value,
                    char **err) {
  emb_err error = {0, ""};
  struct ext_range range;
  int rc;
  ext_range_all(&range);
  ext_range_narrow(&range, '=', value);
  if (range.lo != range.hi)
    return SQLITE_OK;
  rc = emb_file_get(cursor->file, range.lo, &cursor->row, cursor->vector,
                    &cursor->has_row, &error);
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int given, const char *plan,
                  int argc, sqlite3_value **argv) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  const char *path = NULL;
  char *err = NULL;
  int rc = given & GIVEN_PATH ? read_path(argv[0], &path, &err)
                              : ext_error(&err, SQLITE_ERROR,
                                          "emb_snapshot_file needs a path");
  (void)plan, (void)argc;
  cursor->has_row = 0;
  cursor->is_one = (given & GIVEN_KEY) != 0;
  if (rc == SQLITE_OK)
    rc = open_file(cursor, path, &err);
  if (rc == SQLITE_OK && cursor->is_one)
    rc = find_key(cursor, argv[1], &err);
  else if (rc == SQLITE_OK)
    return next(base);
  return ext_vtab_error(base->pVtab, rc, err);
}

static int eof(sqlite3_vtab_cursor *base) {
  return !((struct file_cursor *)base)->has_row;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int i) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  const emb_file_row *row = &cursor->row;
  if (i == KEY)
    sqlite3_result_int64(context, row->key);
  else if (i == VECTOR && !row->deleted)
    sqlite3_result_blob64(context, cursor->vector, cursor->bytes,
                          SQLITE_TRANSIENT);
  else if (i == VERSION)
    sqlite3_result_int64(context, (sqlite3_int64)row->version);
  else if (i == UPDATED_AT && row->track.updated_at)
    sqlite3_result_int64(context, row->track.updated_at);
  else if (i == FREQUENCY && cursor->tracks && !row->deleted)
    sqlite3_result_int64(context, row->track.frequency);
  else if (i == DELETED)
    sqlite3_result_int(context, row->deleted);
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out) {
  *out = ((struct file_cursor *)base)->row.key;
  return SQLITE_OK;
}

static const sqlite3_module module = {
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = ext_tvf_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = eof,
    .xColumn = column,
    .xRowid = rowid,
};

int ext_fn_file_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_snapshot_export", 3, fn_export},
      {"emb_snapshot_export", 4, fn_export},
      {"emb_snapshot_restore", 2, fn_restore}};
  int rc =
      ext_fn_register(conn, functions, sizeof functions / sizeof functions[0]);
  if (rc == SQLITE_OK) {
    conn->refs++;
    rc = sqlite3_create_module_v2(conn->db, "emb_snapshot_file", &module, conn,
                                  ext_conn_unref);
  }
  return rc;
}
