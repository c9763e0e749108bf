/* SPDX-License-Identifier: MIT
**
** file.c -- reads a snapshot file directly.
**
**     CREATE TABLE emb_snapshot_file(
**       key, vector BLOB, version INTEGER, updated_at INTEGER,
**       frequency INTEGER, deleted INTEGER, path HIDDEN)
**
** SELECT ... FROM emb_snapshot_file('monday.emb') reads all rows, or those with
** key = ? or IN; several vectors are returned as one.  If the file has texts,
** they are the keys, and the rowids are the numbers they had; key = ? reads all
** texts before its row.
*/
#include "engine/storage/pack/emb_file.h"
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  FILE_KEY = 0,
  FILE_VECTOR,
  FILE_VERSION,
  FILE_UPDATED_AT,
  FILE_FREQUENCY,
  FILE_DELETED,
  FILE_PATH
};

struct file_cursor {
  struct ext_tvf_cursor base; /* must be first */
  emb_file *file;             /* stays open while IN looks up one key after
                                 another */
  char *path;
  float *vector;
  size_t bytes; /* of the vector */
  emb_file_row row;
  int tracks, has_texts;
};

static void close_file(struct ext_tvf_cursor *base) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  emb_file_close(cursor->file);
  cursor->file = NULL;
  sqlite3_free(cursor->path);
  cursor->path = NULL;
  sqlite3_free(cursor->vector);
  cursor->vector = NULL;
}

static int file_tvf_open(struct file_cursor *cursor, const char *path,
                         char **err) {
  emb_err error = {0, ""};
  emb_file_info info;
  int rc;
  if (cursor->file != NULL && strcmp(cursor->path, path) == 0) {
    emb_file_rewind(cursor->file);
    return SQLITE_OK;
  }
  close_file(&cursor->base);
  rc = emb_file_open(path, &cursor->file, &error);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  emb_file_about(cursor->file, &info);
  cursor->tracks = info.tracks;
  cursor->has_texts = info.has_texts;
  cursor->bytes = info.dim * sizeof(float);
  cursor->vector = sqlite3_malloc64(cursor->bytes);
  cursor->path = sqlite3_mprintf("%s", path);
  if (cursor->vector == NULL || cursor->path == NULL) {
    close_file(&cursor->base);
    return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

/* A number may come from an INTEGER column, which equals '5' and '05'. */
static int file_tvf_find_text(struct file_cursor *cursor, sqlite3_value *value,
                              char **err) {
  emb_err error = {0, ""};
  int found = 0;
  int rc;
  if (sqlite3_value_type(value) != SQLITE_TEXT) {
    ext_tvf_read_all(&cursor->base);
    return SQLITE_OK;
  }
  cursor->row.text = (const char *)sqlite3_value_text(value);
  cursor->row.text_bytes = (size_t)sqlite3_value_bytes(value);
  if (cursor->row.text == NULL)
    return SQLITE_NOMEM;
  rc = emb_file_get_text(cursor->file, &cursor->row, cursor->vector, &found,
                         &error);
  cursor->base.n = (size_t)found;
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}

/* Looks up an INTEGER, or a value that SQLite compares as one; no other key can
** exist. */
static int file_tvf_find_key(struct file_cursor *cursor, sqlite3_value *value,
                             char **err) {
  emb_err error = {0, ""};
  int64_t key;
  int found = 0;
  int rc;
  if (cursor->has_texts)
    return file_tvf_find_text(cursor, value, err);
  rc = ext_key_comparable(value, "key", err);
  if (rc != SQLITE_OK || !ext_range_key(value, &key))
    return rc;
  rc = emb_file_get(cursor->file, key, &cursor->row, cursor->vector, &found,
                    &error);
  cursor->base.n = (size_t)found;
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}

static int file_tvf_begin(struct ext_tvf_cursor *base,
                          sqlite3_value **arguments, char **err) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  const char *path;
  int rc = ext_arg_text(arguments[0], "path", &path, err);
  if (rc == SQLITE_OK)
    rc = file_tvf_open(cursor, path, err);
  if (rc == SQLITE_OK && arguments[1])
    rc = file_tvf_find_key(cursor, arguments[1], err);
  return rc;
}

static int file_tvf_more(struct ext_tvf_cursor *base, char **err) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  emb_err error = {0, ""};
  int found = 0;
  int rc =
      emb_file_next(cursor->file, &cursor->row, cursor->vector, &found, &error);
  base->n = (size_t)found;
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}

static void file_tvf_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  struct file_cursor *cursor = (struct file_cursor *)base;
  const emb_file_row *row = &cursor->row;
  if (i == FILE_KEY && cursor->has_texts)
    sqlite3_result_text64(context, row->text, row->text_bytes, SQLITE_TRANSIENT,
                          SQLITE_UTF8);
  else if (i == FILE_KEY)
    sqlite3_result_int64(context, row->key);
  else if (i == FILE_VECTOR && !row->deleted)
    sqlite3_result_blob64(context, cursor->vector, cursor->bytes,
                          SQLITE_TRANSIENT);
  else if (i == FILE_VERSION)
    sqlite3_result_int64(context, (sqlite3_int64)row->version);
  else if (i == FILE_UPDATED_AT && row->track.updated_at)
    sqlite3_result_int64(context, row->track.updated_at);
  else if (i == FILE_FREQUENCY && cursor->tracks && !row->deleted)
    sqlite3_result_int64(context, row->track.frequency);
  else if (i == FILE_DELETED)
    sqlite3_result_int(context, row->deleted);
}

static sqlite3_int64 file_tvf_rowid(struct ext_tvf_cursor *base) {
  return ((struct file_cursor *)base)->row.key;
}

static const struct ext_tvf snapshot_file = {
    .name = "emb_snapshot_file",
    .declaration =
        "CREATE TABLE x(key, vector BLOB, version INTEGER, updated_at INTEGER, "
        "frequency INTEGER, deleted INTEGER, path HIDDEN)",
    .argument = FILE_PATH,
    .arguments = 1,
    .needed = 1,
    .needs = "a path",
    .key_cost = 100,
    .cost = 1000000,
    .rows = 1000000,
    .cursor_size = sizeof(struct file_cursor),
    .begin = file_tvf_begin,
    .more = file_tvf_more,
    .column = file_tvf_column,
    .rowid = file_tvf_rowid,
    .close = close_file,
};

int ext_tvf_file_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &snapshot_file);
}
